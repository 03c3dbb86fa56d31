"""Measures a device: requests and bytes per second with O_DIRECT, for a second each.

It is a separate program (`python probe.py FILE JSON`), because it has to be started in the limited group. It imports
nothing from the package, so that it starts quickly. It uses written parts of the file, because holes are read without
the device.
"""

import json
import mmap
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

# Seconds that are not measured: at first the kernel lets through what accumulated while the device was idle.
LEAD_SECONDS = 0.25


def measure(path: str, size: int, depth: int, seconds: float, *, write: bool) -> float:
    """The rate of requests of `size` bytes per second at random places of the file, `depth` at once. Raises OSError.

    The kernel lets a limited device's requests through in batches, a tenth of a second apart. Counting them would be
    off by a batch at either end, so the rate is the slope of the line through all completions (least squares).
    """
    descriptor = os.open(path, os.O_RDWR | os.O_DIRECT)
    try:
        places = os.lseek(descriptor, 0, os.SEEK_END) // size
        begin = time.monotonic() + LEAD_SECONDS
        end = begin + seconds
        completed: list[list[float]] = [[] for _ in range(depth)]

        def work(number: int) -> None:
            buffer = mmap.mmap(-1, size)
            buffer.write(b"\x5a" * size)
            draw = random.Random(number)
            call = os.pwritev if write else os.preadv
            while time.monotonic() < end:
                call(descriptor, [buffer], draw.randrange(places) * size)
                completed[number].append(time.monotonic())

        with ThreadPoolExecutor(depth) as pool:
            for one in [pool.submit(work, number) for number in range(depth)]:
                one.result()  # raises the error of a thread: the rate of the others would be too low
        return slope(sorted(at for times in completed for at in times if begin < at <= end))
    finally:
        os.close(descriptor)


def slope(times: list[float]) -> float:
    """The rate per second of events in order of time.

    >>> round(slope([0.0, 0.5, 1.0, 1.5]), 6), slope([1.0])
    (2.0, 0.0)
    """
    if len(times) < 2:
        return 0.0
    middle, center = sum(times) / len(times), (len(times) - 1) / 2
    spread = sum((at - middle) ** 2 for at in times)
    return sum((at - middle) * (number - center) for number, at in enumerate(times)) / spread if spread else 0.0


def main(path: str, wanted: str) -> None:
    """Measures the groups of the requested probes in turn, all of a group at once, and prints the rates by name."""
    rates: dict[str, float] = {}
    groups: list[dict[str, Any]] = json.loads(wanted)
    try:
        for group in groups:
            with ThreadPoolExecutor(len(group)) as pool:
                measured = {name: pool.submit(measure, path, **one) for name, one in group.items()}
                rates |= {name: one.result() for name, one in measured.items()}
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}")
    print(json.dumps(rates))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

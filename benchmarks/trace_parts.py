"""What a trace in parts costs: time and memory of one part, by how many parts there are, each in a process of its own.

    .venv/bin/python -m benchmarks.trace_parts [--accesses 5000000] [--pages 1000000]

The trace is one relation, accessed as the cube of a uniform number has it; curves are those of all page sizes, on one
thread. Every part reads the whole trace: what that takes is the floor of its time.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from octavo import _core
from octavo.postgres.limits import DEFAULT_BLOCK

PARTS = (1, 2, 4, 16, 128)
SIZES = [1024 << power for power in range(6)]
_ONE = """
import json, resource, sys, time
from octavo import _core
def peak():  # not ru_maxrss, which has the parent's in it
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:"))
path, block, sizes, capacities, part = json.loads(sys.argv[1])
small = peak()
before = resource.getrusage(resource.RUSAGE_SELF)
began = time.monotonic()
options = dict(rate=None, seed=1, threads=1, observe=lambda _: None, part=tuple(part))
_core.trace_curves(path, block, sizes, capacities, **options)
after = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([time.monotonic() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
                  peak() - small]))
"""


def write(path: Path, accesses: int, pages: int) -> None:
    """A trace of so many accesses."""
    drawn = np.random.default_rng(7)
    writer = _core.TraceWriter(path, DEFAULT_BLOCK)
    for first in range(0, accesses, 500_000):
        count = min(500_000, accesses - first)
        blocks = (drawn.random(count) ** 3 * pages).astype(np.int64)
        writer.push([(first + place, 1, 1663, 5, 16384, 0, int(block), 0, 0) for place, block in enumerate(blocks)])
    writer.finish()


def start(path: Path, pages: int, part: tuple[int, int]) -> "subprocess.Popen[str]":
    """One part in a process of its own."""
    capacities = [1024 * 1024 << step for step in range(24) if 1024 * 1024 << step <= 4 * pages * DEFAULT_BLOCK]
    asked = json.dumps([str(path), DEFAULT_BLOCK, SIZES, capacities, part])
    return subprocess.Popen([sys.executable, "-c", _ONE, asked], stdout=subprocess.PIPE, text=True)


def result(process: "subprocess.Popen[str]") -> tuple[float, float, float]:
    """Seconds on the clock, of CPU, and MB."""
    out, _ = process.communicate()
    wall, cpu, kilobytes = json.loads(out)
    return wall, cpu, kilobytes / 1024


def main() -> None:
    """Prints a line for each number of parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accesses", type=int, default=5_000_000)
    parser.add_argument("--pages", type=int, default=1_000_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="octavo-parts-", dir="/var/tmp") as place:
        path = Path(place) / "trace.octrace"
        write(path, chosen.accesses, chosen.pages)
        megabytes = path.stat().st_size / 1024**2
        print(f"{chosen.accesses:,} accesses of {chosen.pages:,} pages, {megabytes:.0f} MB; {len(SIZES)} page sizes")
        for parts in PARTS:
            wall, cpu, memory = result(start(path, chosen.pages, (0, parts)))
            print(f"1 of {parts}: {wall:.1f} s, {cpu:.1f} s of CPU, {memory:.0f} MB", flush=True)
        both = [result(one) for one in [start(path, chosen.pages, (part, 2)) for part in range(2)]]
        print(f"2 of 2 at once: {max(one[0] for one in both):.1f} s, {sum(one[1] for one in both):.1f} s of CPU")


if __name__ == "__main__":
    main()

"""The simulated page cache compared with this kernel's: bytes that the same reads take from the device.

    .venv/bin/python benchmarks/kernel_model.py [--directory .] [--size 512MB] [--block 8kB]

A cold file is read in several patterns by one process that opens it once; the kernel reports how many bytes it read for
that process (/proc/PID/io, read_bytes). The same reads are simulated with the device's read_ahead_kb. Memory is
sufficient: this tests readahead and granularity. Needs a filesystem on a block device.
"""

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from octavo import _core
from octavo.trace.files import ignore_progress
from octavo.trace.simulate import SimulatedServer
from octavo.units import parse_size


def patterns(blocks: int, seed: int) -> dict[str, list[int]]:
    """Block numbers by the pattern's name."""
    draw = random.Random(seed)
    runs = [start + step for start in draw.sample(range(0, blocks - 64, 64), blocks // 256) for step in range(16)]
    two = [number for pair in zip(range(blocks // 4), range(blocks // 2, blocks), strict=False) for number in pair]
    skewed = [int(draw.random() ** 3 * blocks) for _ in range(blocks // 4)]
    return {
        "random": draw.sample(range(blocks), blocks // 16),
        "sequential": list(range(blocks)),
        "every third block": list(range(0, blocks, 3)),
        "runs of 16 blocks": runs,
        "two streams by turns": two,
        "skewed, with repetitions": skewed,
        "backwards": list(range(blocks // 8 - 1, -1, -1)),
    }


def main() -> None:
    """Reads, simulates, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, default=Path())
    parser.add_argument("--size", type=parse_size, default=parse_size("512MB"))
    parser.add_argument("--block", type=parse_size, default=parse_size("8kB"))
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        path = Path(directory, "file")
        write(path, arguments.size)
        window = readahead(path)
        print(f"{arguments.size >> 20} MB, {arguments.block >> 10} kB blocks, read_ahead_kb {window >> 10}")
        for name, blocks in patterns(arguments.size // arguments.block, arguments.seed).items():
            real = measured(path, blocks, arguments.block)
            ours = simulated(Path(directory), blocks, arguments.block, arguments.size, window)
            apart = f"{100 * (ours / real - 1):+.2f} %" if real else "–"
            print(f"  {name:26} {real / 2**20:9.1f} MB read {ours / 2**20:9.1f} MB simulated {apart:>10}", flush=True)


def write(path: Path, size: int) -> None:
    """Writes a file to the device."""
    piece = os.urandom(1 << 20)
    with path.open("wb") as file:
        for _ in range(0, size, len(piece)):
            file.write(piece)
        os.fsync(file.fileno())


def readahead(path: Path) -> int:
    """read_ahead_kb of the file's device, in bytes."""
    number = path.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    for place in (device, device.parent):
        if (place / "queue" / "read_ahead_kb").exists():
            return 1024 * int((place / "queue" / "read_ahead_kb").read_text())
    sys.exit(f"{path} is on no block device")


def _read_bytes() -> int:
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["read_bytes"])


def measured(path: Path, blocks: Sequence[int], size: int) -> int:
    """Bytes that these reads of the cold file took from the device."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        before = _read_bytes()
        for block in blocks:
            os.pread(descriptor, size, block * size)
        return _read_bytes() - before
    finally:
        os.close(descriptor)


def simulated(directory: Path, blocks: Sequence[int], size: int, file: int, window: int) -> int:
    """The same bytes for a simulated server with so few buffers that it requests all of them from the kernel."""
    trace = directory / "trace"
    writer = _core.TraceWriter(trace, size)
    writer.relation(1, 1, 1, kind="r", blocks=file // size, tuples=0, tuple_bytes=0, fillfactor=0, name=None)
    # After each block, the only block of another relation takes the only buffer.
    writer.push([(0, 1, 1, 1, relation, 0, at, 0, 0) for block in blocks for relation, at in ((1, block), (2, 0))])
    writer.finish()
    point = SimulatedServer(size, "merged", size, 0, 0, 0, 0, 1 << 40, os.sysconf("SC_PAGE_SIZE"), window)
    _, (both,) = _core.trace_servers(trace, size, [point], threads=1, observe=ignore_progress)
    assert both["page_cache"] is not None
    if both["requests"] != 2 * len(blocks):
        sys.exit("the simulated server had a block in its buffer")
    return both["page_cache"]["device_read_bytes"] - size


if __name__ == "__main__":
    main()

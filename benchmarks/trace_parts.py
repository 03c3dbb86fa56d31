"""The cost of simulating a trace on many workers: time and memory of each worker's share, by the number of workers.
Each share runs in a separate process.

    .venv/bin/python -m benchmarks.trace_parts [--accesses 5000000] [--pages 1000000]

The trace is one relation, accessed at the cube of a uniform random number; curves are those of all page sizes, on one
thread. Every share reads the whole trace: that is the minimum of its time. Up to as many workers as there are CPUs also
run at once, timed by the clock; for more workers, one share of each kind is run by itself, and the slowest is what they
would take.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from octavo import _core
from octavo.postgres.limits import DEFAULT_BLOCK
from octavo.trace.parts import Share, shares

WORKERS = (1, 2, 4, 6, 16, 128)
SIZES = [1024 << power for power in range(6)]
_ONE = """
import json, resource, sys, time
from octavo import _core
def peak():  # not ru_maxrss, which has the parent's in it
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:"))
path, block, sizes, capacities, part, concentrated = json.loads(sys.argv[1])
small = peak()
before = resource.getrusage(resource.RUSAGE_SELF)
began = time.monotonic()
options = dict(rate=None, seed=1, threads=1, observe=lambda _: None, part=tuple(part),
               concentrated=concentrated)
_core.trace_curves(path, block, sizes, capacities, **options)
after = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([time.monotonic() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
                  peak() - small]))
"""


def write(path: Path, accesses: int, pages: int) -> None:
    """Writes a trace of that many accesses."""
    drawn = np.random.default_rng(7)
    writer = _core.TraceWriter(path, DEFAULT_BLOCK)
    for first in range(0, accesses, 500_000):
        count = min(500_000, accesses - first)
        blocks = (drawn.random(count) ** 3 * pages).astype(np.int64)
        writer.push([(first + place, 1, 1663, 5, 16384, 0, int(block), 0, 0) for place, block in enumerate(blocks)])
    writer.finish()


def start(path: Path, pages: int, share: Share) -> "subprocess.Popen[str]":
    """Starts a share in a process of its own."""
    capacities = [1024 * 1024 << step for step in range(24) if 1024 * 1024 << step <= 4 * pages * DEFAULT_BLOCK]
    asked = json.dumps([str(path), DEFAULT_BLOCK, share.sizes, capacities, share.part, share.concentrated])
    return subprocess.Popen([sys.executable, "-c", _ONE, asked], stdout=subprocess.PIPE, text=True)


def result(process: "subprocess.Popen[str]") -> tuple[float, float, float]:
    """Elapsed seconds, CPU seconds, and MB."""
    out, _ = process.communicate()
    wall, cpu, kilobytes = json.loads(out)
    return wall, cpu, kilobytes / 1024


def main() -> None:
    """Prints a line for each number of workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accesses", type=int, default=5_000_000)
    parser.add_argument("--pages", type=int, default=1_000_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="octavo-parts-", dir="/var/tmp") as place:
        path = Path(place) / "trace.octrace"
        write(path, chosen.accesses, chosen.pages)
        megabytes = path.stat().st_size / 1024**2
        print(f"{chosen.accesses:,} accesses of {chosen.pages:,} pages, {megabytes:.0f} MB; {len(SIZES)} page sizes")
        reading = result(start(path, chosen.pages, Share(())))
        print(f"reading alone: {reading[1]:.2f} s of CPU")
        known: dict[tuple[tuple[int, ...], int], tuple[float, float, float]] = {}
        whole = 0.0
        for workers in WORKERS:
            planned = shares(DEFAULT_BLOCK, SIZES, workers)
            kinds = {(share.sizes, share.part[1]): share for share in planned}
            for kind, share in kinds.items():
                if kind not in known:
                    known[kind] = result(start(path, chosen.pages, share))
            found = [known[share.sizes, share.part[1]] for share in planned]
            whole = whole or found[0][1]
            slowest = max(cpu for _, cpu, _ in found)
            print(
                f"{workers} workers, {len(planned)} shares: CPU {slowest:.2f} s of the slowest "
                f"({whole / slowest:.1f} times as fast as one), {sum(cpu for _, cpu, _ in found):.1f} s of all; "
                f"{max(memory for _, _, memory in found):.0f} MB of the largest",
                flush=True,
            )
        for workers in range(1, (os.cpu_count() or 1) + 1):
            running = [start(path, chosen.pages, share) for share in shares(DEFAULT_BLOCK, SIZES, workers)]
            wall = max(one[0] for one in [result(process) for process in running])
            print(f"{workers} at once on {os.cpu_count()} processors: {wall:.2f} s on the clock", flush=True)
        print(f"load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

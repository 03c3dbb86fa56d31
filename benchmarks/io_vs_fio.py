"""octavo io against fio: the same file, pattern, request size and depth, alternately on one machine.

    .venv/bin/python benchmarks/io_vs_fio.py [--size 1GB] [--seconds 1] [--rounds 5] [--only TEXT] [--directory DIR]

Each round measures every configuration once with both, in an order shuffled by the seed and the round; which of the two
goes first alternates. A configuration's ratio is the geometric mean of its rounds' ratios (ours / fio's), its interval
Student's t on their logarithms at 95 %: changes from round to round affect both and cancel. IOPS above 1 and CPU below
1 are in our favour. CPU is what each program reports for its own threads, in user mode and in the kernel: fio's from
usr_cpu and sys_cpu (getrusage, at the job's end), ours from the thread's CPU clock; neither includes the start.

fio is configured not to advise the kernel, and to keep the cache as it is (hot) or to drop it first (cold); everything
else is its default, so that, like ours, it visits each block once before it starts over and measures every latency.

Exit code 1: a goal is missed. The goals: no IOPS interval lies below 0.98, and where the CPU is the limit (hot cache)
no configuration's CPU interval lies above 1.
"""

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from scipy.stats import t as student

from octavo.io.engine import make, measure
from octavo.io.job import Job
from octavo.units import format_size, parse_size

_LOWEST_IOPS = 0.98
_FEWEST_PAIRS = 2


@dataclass(frozen=True)
class Configuration:
    """One way to read a file."""

    cache: str  # hot, cold, or direct
    pattern: str  # random or sequential
    engine: str  # psync, pvsync (preadv) or io_uring
    block: int
    depth: int = 1
    threads: int = 1

    @property
    def name(self) -> str:
        """The name in the table."""
        depth = f" depth {self.depth}" if self.engine == "io_uring" else ""
        threads = f" {self.threads} threads" if self.threads > 1 else ""
        return f"{self.cache} {self.pattern} {self.engine} {format_size(self.block)}{depth}{threads}"


kB, MB = 1024, 1024**2
CONFIGURATIONS = (
    *(Configuration("hot", "random", "psync", size) for size in (1 * kB, 4 * kB, 8 * kB, 32 * kB, 128 * kB, 1 * MB)),
    *(Configuration("hot", "sequential", "psync", size) for size in (8 * kB, 128 * kB)),
    Configuration("hot", "random", "psync", 8 * kB, threads=2),
    *(Configuration("hot", "random", "pvsync", size) for size in (8 * kB, 128 * kB)),
    *(Configuration("hot", "random", "io_uring", 8 * kB, depth) for depth in (1, 8, 64)),
    Configuration("hot", "random", "io_uring", 1 * kB, 32),
    Configuration("hot", "random", "io_uring", 128 * kB, 16),
    Configuration("hot", "random", "io_uring", 8 * kB, 32, threads=2),
    Configuration("cold", "random", "psync", 8 * kB),
    Configuration("cold", "random", "pvsync", 128 * kB),
    Configuration("cold", "sequential", "psync", 128 * kB),
    Configuration("cold", "random", "io_uring", 8 * kB, 32),
    *(Configuration("direct", "random", "psync", size) for size in (4 * kB, 8 * kB, 128 * kB, 1 * MB)),
    *(Configuration("direct", "random", "io_uring", 8 * kB, depth) for depth in (1, 8, 64)),
    Configuration("direct", "random", "io_uring", 128 * kB, 16),
    Configuration("direct", "random", "io_uring", 8 * kB, 32, threads=2),
    Configuration("direct", "sequential", "psync", 1 * MB),
)


@dataclass(frozen=True)
class Measured:
    """The result of one of the two."""

    iops: float
    cpu_seconds_per_request: float


def main() -> None:
    """Measures, prints the table, and exits with 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="1GB", help="of the file; it has to fit in memory")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only configurations with this in their name")
    parser.add_argument("--directory", type=Path, default=Path("/var/tmp"), help="where the file is made")  # noqa: S108
    arguments = parser.parse_args()
    if shutil.which("fio") is None:
        sys.exit("fio is not installed; apt-get install fio")
    chosen = [one for one in CONFIGURATIONS if arguments.only in one.name]
    if not chosen or arguments.rounds < 2:
        sys.exit("--only leaves no configuration, or --rounds is below 2; nothing can be compared")
    file = arguments.directory / f"octavo-io-vs-fio-{os.getpid()}"
    make(file, parse_size(arguments.size), _unseen)
    try:
        pairs = _measure(chosen, file, arguments.seconds, arguments.rounds, arguments.seed)
    finally:
        file.unlink()
    sys.exit(0 if _report(pairs) else 1)


Pairs: TypeAlias = dict[Configuration, list[tuple[Measured, Measured]]]


def _measure(chosen: Sequence[Configuration], file: Path, seconds: float, rounds: int, seed: int) -> Pairs:
    pairs: Pairs = {configuration: [] for configuration in chosen}
    for round in range(1, rounds + 1):
        order = list(chosen)
        random.Random(f"{seed} {round}").shuffle(order)
        for place, configuration in enumerate(order):
            print(f"round {round} of {rounds}: {configuration.name}", file=sys.stderr)
            ours_first = (place + round) % 2 == 0
            ours = _ours(configuration, file, seconds, round) if ours_first else None
            theirs = _fio(configuration, file, seconds, round)
            pairs[configuration].append((ours or _ours(configuration, file, seconds, round), theirs))
    return pairs


def _ours(configuration: Configuration, file: Path, seconds: float, round: int) -> Measured:
    method = {"psync": "plain", "pvsync": "vectored", "io_uring": "ring"}[configuration.engine]
    job = Job(
        paths=(str(file),),
        block=configuration.block,
        pattern=configuration.pattern,
        method=method,
        depth=configuration.depth,
        threads=configuration.threads,
        direct=configuration.cache == "direct",
        cache={"hot": "warm", "cold": "cold", "direct": "found"}[configuration.cache],
        seconds=seconds,
        seed=round,
    )
    outcome = measure(job, _unseen)
    return Measured(outcome.requests / outcome.seconds, outcome.cpu_seconds / outcome.requests)


def _fio(configuration: Configuration, file: Path, seconds: float, round: int) -> Measured:
    size = file.stat().st_size
    if configuration.cache == "hot":
        with file.open("rb", buffering=0) as hot:
            while hot.read(MB):
                pass
    command = [
        "fio", "--name=peer", f"--filename={file}", "--readonly", "--output-format=json", "--fadvise_hint=0",
        f"--rw={'randread' if configuration.pattern == 'random' else 'read'}", f"--bs={configuration.block}",
        f"--ioengine={configuration.engine}", f"--iodepth={configuration.depth}", f"--numjobs={configuration.threads}",
        f"--direct={int(configuration.cache == 'direct')}", f"--invalidate={int(configuration.cache == 'cold')}",
        f"--runtime={seconds * 1000:.0f}ms", f"--randseed={round}", "--group_reporting", "--thread",
        # Each job reads its own part of the file, as our threads do; a hot or direct file is read repeatedly.
        f"--size={size // configuration.threads}", f"--offset_increment={size // configuration.threads}",
        *(["--time_based"] if configuration.cache != "cold" else []),
    ]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"fio failed: {ran.stderr.strip() or ran.stdout.strip()}")
    job = json.loads(ran.stdout[ran.stdout.index("{") :])["jobs"][0]
    read = job["read"]
    # Percent of the jobs' running time; job_runtime is its sum over the jobs, in milliseconds.
    cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1000
    return Measured(read["iops"], cpu / read["total_ios"])


def _unseen(phase: str, done: float, total: int) -> None:
    """Shows no progress."""


def _interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    if len(ratios) < _FEWEST_PAIRS:
        return math.nan, 0.0, math.inf
    logs = np.log(ratios)
    mean = float(logs.mean())
    half = float(student.ppf(0.975, len(logs) - 1) * logs.std(ddof=1)) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def _report(pairs: Pairs) -> bool:
    print(f"{'configuration':<46} {'IOPS ours':>10} {'fio':>10}  {'ratio':<22} {'CPU µs ours':>11} {'fio':>8}  ratio")
    missed: list[str] = []
    for configuration, measured in pairs.items():
        iops = _interval([ours.iops / theirs.iops for ours, theirs in measured])
        # fio reports a CPU of 0 if it made too few requests to use a tick: such a pair has no ratio.
        told = [(ours, theirs) for ours, theirs in measured if theirs.cpu_seconds_per_request]
        cpu = _interval([ours.cpu_seconds_per_request / theirs.cpu_seconds_per_request for ours, theirs in told])
        print(
            f"{configuration.name:<46} {_median(ours.iops for ours, _ in measured):>10,.0f} "
            f"{_median(theirs.iops for _, theirs in measured):>10,.0f}  {_interval_text(iops):<22} "
            f"{_median(ours.cpu_seconds_per_request for ours, _ in measured) * 1e6:>11,.2f} "
            f"{_median(theirs.cpu_seconds_per_request for _, theirs in measured) * 1e6:>8,.2f}  {_interval_text(cpu)}"
        )
        if iops[2] < _LOWEST_IOPS:
            missed.append(f"{configuration.name}: IOPS {_interval_text(iops)} lies below {_LOWEST_IOPS}")
        if configuration.cache == "hot" and cpu[1] > 1:
            missed.append(f"{configuration.name}: CPU a request {_interval_text(cpu)} lies above 1")
    print("\n".join(missed) or "every goal is met")
    return not missed


def _median(values: Iterable[float]) -> float:
    return float(np.median(list(values)))


def _interval_text(interval: tuple[float, float, float]) -> str:
    return f"{interval[0]:.3f} ({interval[1]:.3f} to {interval[2]:.3f})"


if __name__ == "__main__":
    main()

"""The cost of building all combinations of block sizes: from scratch, with ccache, and from Octavo's shared tree.

    .venv/bin/python benchmarks/build_matrix.py [--pg 18] [--sample 1] [--home DIR]

Everything is measured in one session on one machine, with a state directory that has no builds and no compiler cache:
- base: one build from scratch without ccache, to which everything is compared;
- Octavo: `ensure_builds` for all 42, with a fresh cache;
- naive: a sample of other sizes, each from scratch without ccache, times the number of combinations;
- ccache: the first build fills a fresh cache, then the same sample with that cache, times the number of combinations.

Takes about half an hour on 2 cores. Without --home the builds are deleted. CPU seconds are those of all processes that
were started; on a machine with other work they are more reliable than elapsed seconds.
"""

import argparse
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from octavo.home import make_directory, octavo_home
from octavo.host.journal import Journal
from octavo.postgres.builds.make import Planned, ensure_builds, made_from_scratch, plan_builds
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.builds.worker_client import COMPILER_CACHE
from octavo.postgres.limits import DATA_BLOCKS, WAL_BLOCKS


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg", default="18")
    parser.add_argument("--sample", type=int, default=1, help="builds of other sizes that stand for all of them")
    parser.add_argument("--home", type=Path, help="a state directory without builds and ccache; the builds stay there")
    arguments = parser.parse_args()

    home: Path = arguments.home or Path(tempfile.mkdtemp(prefix="octavo-matrix-", dir="/var/tmp"))
    home.chmod(0o755)
    sources = octavo_home() / "sources"
    for name in ("builds", COMPILER_CACHE):
        if (home / name).exists():
            sys.exit(f"{home / name} exists already: nothing would be measured; choose another --home")
    if not (home / "sources").exists():
        (home / "sources").symlink_to(make_directory(sources))
    os.environ["OCTAVO_HOME"] = str(home)
    try:
        measure(arguments.pg, arguments.sample)
    finally:
        if arguments.home is None:
            shutil.rmtree(home)


def measure(version: str, sample: int) -> None:
    """Times the four ways and prints their seconds and their ratios to one build from scratch."""
    combinations = [BuildSpec(version, data, wal) for data, wal in product(DATA_BLOCKS, WAL_BLOCKS)]
    combinations.sort(key=lambda spec: (spec.data_block != "8kB") + (spec.wal_block != "8kB"))
    others = combinations[-sample:]
    with Journal() as journal:
        first, *rest = plan_builds([combinations[0], *others], journal)
        base = timed("one from scratch", lambda: from_scratch(first, journal, cached=False))
        ours = timed("Octavo", lambda: ensure_builds(combinations, journal, notice=print))
        shutil.rmtree(octavo_home() / COMPILER_CACHE)
        naive = [
            timed("another from scratch", lambda each=each: from_scratch(each, journal, cached=False)) for each in rest
        ]
        filling = timed("one that fills ccache", lambda: from_scratch(first, journal, cached=True))
        with_ccache = [
            timed("another with ccache", lambda each=each: from_scratch(each, journal, cached=True)) for each in rest
        ]
    count = len(combinations)
    estimated = f"estimated from {sample + 1}"
    table = [
        ("one from scratch (base)", base, "measured"),
        (f"{count} from scratch", base + mean(naive) * (count - 1), estimated),
        (f"{count} with ccache", filling + mean(with_ccache) * (count - 1), estimated),
        (f"{count} with Octavo", ours, "measured"),
    ]
    print(f"\n{'PostgreSQL ' + first.source.version:26}{'seconds':>9}{'ratio':>8}{'CPU s':>9}{'ratio':>8}")
    for what, cost, how in table:
        (wall, cpu), (wall_ratio, cpu_ratio) = cost, cost / base
        print(f"{what:26}{wall:9.0f}{wall_ratio:8.2f}{cpu:9.0f}{cpu_ratio:8.2f}  {how}")


def from_scratch(planned: Planned, journal: Journal, *, cached: bool) -> None:
    """One build from scratch, then deleted."""
    with made_from_scratch(planned, journal, cached=cached):
        pass


def timed(what: str, work: Callable[[], object]) -> NDArray[np.float64]:
    """Elapsed and CPU seconds of everything that the work started; also printed at once."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    work()
    ended, after = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = np.array([ended - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime])
    print(f"{what}: {cost[0]:.0f} s, {cost[1]:.0f} CPU s", flush=True)
    return cost


def mean(costs: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The arithmetic mean."""
    return np.mean(costs, axis=0)


if __name__ == "__main__":
    main()

"""What all combinations of block sizes cost to build: from scratch, with ccache, and out of Octavo's shared tree.

    .venv/bin/python benchmarks/build_matrix.py [--pg 18] [--sample 1] [--home DIR]

Everything is measured in one go on one machine, into a state directory that has neither builds nor a compiler's cache:
- base: one build from scratch without ccache, which everything is compared with;
- naive: a sample of other sizes, each from scratch without ccache, times the number of combinations;
- ccache: the first build fills a fresh cache, then the same sample with that cache, times the number of combinations;
- Octavo: `ensure_builds` for all 42, with a fresh cache.

Takes about half an hour on 2 cores. Without --home the builds are thrown away.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

from octavo.home import make_directory, octavo_home
from octavo.host.journal import Journal
from octavo.postgres.builds.from_scratch import install_from_scratch
from octavo.postgres.builds.make import Planned, ensure_builds, plan_builds, quiet
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.builds.workplace import open_workplace
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
    for name in ("builds", "ccache"):
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
    """Times the four ways and prints seconds and ratios to one build from scratch."""
    combinations = [BuildSpec(version, data, wal) for data, wal in product(DATA_BLOCKS, WAL_BLOCKS)]
    combinations.sort(key=lambda spec: (spec.data_block != "8kB") + (spec.wal_block != "8kB"))
    others = combinations[-sample:]
    with Journal() as journal:
        first, *rest = plan_builds([combinations[0], *others], journal)
        base = seconds(lambda: from_scratch(first, journal, cached=False))
        print(f"base: {base:.0f} s", flush=True)
        naive = [seconds(lambda each=each: from_scratch(each, journal, cached=False)) for each in rest]
        print(f"naive, sample: {', '.join(f'{value:.0f} s' for value in naive)}", flush=True)
        filling = seconds(lambda: from_scratch(first, journal, cached=True))
        with_ccache = [seconds(lambda each=each: from_scratch(each, journal, cached=True)) for each in rest]
        print(f"ccache: {filling:.0f} s, sample: {', '.join(f'{value:.0f} s' for value in with_ccache)}", flush=True)
        shutil.rmtree(octavo_home() / "ccache")
        ours = seconds(lambda: ensure_builds(combinations, journal, notice=print))
    count = len(combinations)
    table = [
        ("one build from scratch (base)", base, ""),
        (f"{count} from scratch", base + (count - 1) * mean(naive), f"estimated from {len(naive) + 1}"),
        (f"{count} with ccache", filling + (count - 1) * mean(with_ccache), f"estimated from {len(with_ccache) + 1}"),
        (f"{count} with Octavo", ours, "measured"),
    ]
    print(f"\n{'PostgreSQL ' + first.source.version:32}{'seconds':>9}{'ratio':>8}")
    for what, took, note in table:
        print(f"{what:32}{took:9.0f}{took / base:8.2f}  {note}".rstrip())


def from_scratch(planned: Planned, journal: Journal, *, cached: bool) -> None:
    """One build from scratch, thrown away."""
    with open_workplace(f"{planned.name}-benchmark", planned.spec, journal, cached=cached) as workplace:
        install_from_scratch(workplace, planned.spec, planned.source, quiet)


def seconds(work: Callable[[], object]) -> float:
    """How long it took."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def mean(values: list[float]) -> float:
    """The arithmetic mean."""
    return sum(values) / len(values)


if __name__ == "__main__":
    main()

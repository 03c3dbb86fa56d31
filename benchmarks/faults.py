"""The cost of kills, full disks and the OOM killer: no finished work is lost, and the host is unchanged.

    .venv/bin/python benchmarks/faults.py [--kills 100] [--minutes M] [--seed 1] [--quick] [--only NAMES]

Run it as root. Others may use the machine, but a knob that they change meanwhile can fail a trial here. A run with
every knob at once, `octavo hugepages apply`, `octavo build --matrix` of a small source and `octavo io --make` are
killed (SIGKILL, SIGTERM, SIGINT twice) at random moments; each filesystem that is written to fills up; the store's disk
becomes read-only; the server exceeds its memory limit. After each fault the host is compared with its state before
(`faulty/fingerprint.py`), immediately and after `octavo host restore`; what was reported as finished must be in the
store, and what was interrupted must be resumable. Exit code 1 if any of these fails.

It uses a state directory of its own below /var/tmp; builds and sources are those of the machine's tests.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FrameType

from faulty import disks, killed
from faulty.fingerprint import Ours, apart, attach_once, left_for_good, take
from faulty.victim import ROOT, Row, octavo

from octavo.home import make_directory, octavo_home
from octavo.postgres.builds.worker_client import COMPILER_CACHE, compiler_caches

# Builds and sources are those of the machine's tests.
_SHARED = {"builds": "tests/builds", "sources": "sources"}
_QUICK_KILLS = 4
# The share of the kills that each killed scenario gets.
_SHARES = {"run": 3, "hugepages": 1, "build": 1, "io": 1}
_SIZES = ["--data-block", "4kB,8kB,16kB", "--wal-block", "8kB,16kB"]
_QUICKLY = ("run", "hugepages", "build", "io", "report-full")
_FEW_SIZES = ["--data-block", "4kB,8kB", "--wal-block", "8kB"]

sys.path.insert(0, str(ROOT))  # the small source belongs to the tests


def main() -> None:
    """Runs the campaign, prints the table, and exits with 1 if a row is not sound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="over all commands that are chosen")
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK_KILLS} kills, a small matrix, few full disks")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no kill later than this")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only",
        default="",
        help="scenarios by name, with commas: run, hugepages, build, io, …",
    )
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("knobs need root")
    place = Path(tempfile.mkdtemp(prefix="octavo-faults-", dir="/var/tmp"))  # accessible to the server's user
    place.chmod(0o755)
    # In the background of a shell these signals are ignored, and every interrupted command would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, _ended)
    ours = Ours(place, deadline=time.monotonic() + 60 * arguments.minutes)
    apart()
    try:
        sound = campaign(ours, arguments)
    finally:
        octavo(ours, place / "home", "host", "restore")
        shutil.rmtree(place, ignore_errors=True)
    sys.exit(0 if sound else 1)


def _ended(_number: int, _frame: FrameType | None) -> None:
    """Makes SIGTERM end the process as an error does, which also unmounts."""
    sys.exit(143)


def campaign(ours: Ours, arguments: argparse.Namespace) -> bool:
    """Runs all scenarios and prints their table. Returns whether every row is sound."""
    quick: bool = arguments.quick
    count = min(arguments.kills, _QUICK_KILLS) if quick else arguments.kills
    draw = random.Random(arguments.seed)
    home = ours.place / "home"
    home.mkdir(mode=0o755)
    ours.temporary.mkdir(mode=0o755)
    for name, shared in _SHARED.items():
        (home / name).symlink_to(make_directory(octavo_home() / shared))
    (home / COMPILER_CACHE).symlink_to(compiler_caches(octavo_home() / "tests"))
    os.environ["TMPDIR"] = str(ours.temporary)
    attach_once(ours.place / "once")
    before = take(ours)
    rows: list[Row] = []
    chosen = arguments.only.split(",") if arguments.only else _QUICKLY if quick else None
    killing = {name: share for name, share in _SHARES.items() if chosen is None or name in chosen}
    kills = {name: max(1, round(count * share / sum(killing.values()))) for name, share in killing.items()}
    for name, work in scenarios(ours, home, draw, kills, quick=quick):
        if chosen is None or name in chosen:
            print(f"{name} …", file=sys.stderr, flush=True)
            began = time.monotonic()
            if (row := work()) is not None:
                rows.append(row)
                print(f"{as_line(row)} {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
                for line in (*row.left, *row.problems):
                    print(f"  {line}", file=sys.stderr, flush=True)
    last = octavo(ours, home, "host", "restore")
    left = left_for_good(ours, before)
    print_table(rows)
    print(f"then octavo host restore: exit code {last.code}; {len(left)} differences from the host as it was")
    for line in left:
        print(f"  {line}")
    return all(row.sound() for row in rows) and not left and last.code == 0


def scenarios(
    ours: Ours, home: Path, draw: random.Random, kills: Mapping[str, int], *, quick: bool
) -> list[tuple[str, Callable[[], Row | None]]]:
    """The name and function of each scenario, with the number of kills for those that are killed."""
    blocks, sizes = (["8kB"], _FEW_SIZES) if quick else (["4kB", "8kB"], _SIZES)
    return [
        ("run", partial(killed.run_of_every_knob, ours, home, draw, kills.get("run", 0), blocks)),
        ("hugepages", partial(killed.hugepages_apply, ours, home, draw, kills.get("hugepages", 0))),
        ("build", partial(killed.build_of_a_matrix, ours, home, draw, kills.get("build", 0), sizes)),
        ("io", partial(killed.io_make, ours, home, draw, kills.get("io", 0))),
        ("home-full", partial(disks.full_home, ours, home)),
        ("home-full-before", partial(disks.full_from_the_start, ours, home)),
        ("runtime-full", partial(disks.full_runtime_directory, ours, home)),
        ("report-full", partial(disks.full_report_target, ours, home)),
        ("io-full", partial(disks.full_io_target, ours, home)),
        ("read-only", partial(disks.read_only_store, ours, home)),
        ("oom", partial(disks.killed_for_memory, ours, home)),
    ]


def print_table(rows: list[Row]) -> None:
    """Prints the table in the form of docs/security.md."""
    print("| scenario | kills or faults | put back at once / by restore | lost trials | left behind | resumed |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        print(as_line(row))


def as_line(row: Row) -> str:
    """A row of the table."""
    resumed = f"{row.resumed} of {row.to_resume}" if row.to_resume else "–"
    return (
        f"| {row.scenario} | {row.kills} | {row.at_once} / {row.by_restore} | {row.lost} | {len(row.left)} | "
        f"{resumed} |{f' {len(row.problems)} problems' if row.problems else ''}"
    )


if __name__ == "__main__":
    main()

"""The size of reports, and the time to make and to draw them.

    .venv/bin/python benchmarks/report_pages.py [--only NAME ...] [--times 3] [--keep DIR] [--tpch DIR]
        [--store FILE --run ID ...] [--before CHECKOUT]

Runs of synthetic trials (`tests/planted_runs.py`) in a separate store: the demo, 42 combinations of blocks, coalescing
in 80 conditions with series, 1,000 cells, and 10,000 trials; with `--tpch` the published TPC-H results, imported; with
`--store` runs of an SQLite store, which is copied. Each report is a process of its own, timed from its start to its
last byte, the shortest of `--times`. If there is a Chromium, it opens the page and reports when the page was loaded and
laid out.

With `--before` the pages are also made by another checkout of Octavo, alternately with this one, and the median ratios
of elapsed time and of CPU time are printed, before to after. On a busy machine only many pairs give a stable ratio.
Both must support the store's schema version.
"""

import argparse
import os
import re
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.planted_runs import plant  # noqa: E402

from octavo.plan.model import Plan  # noqa: E402
from octavo.plan.parse import parse_plan  # noqa: E402
from octavo.plan.presets import find_plan  # noqa: E402
from octavo.store.store import Store  # noqa: E402

STORE = "octavo.sqlite"
MOST_BYTES, MOST_SECONDS = 2_000_000, 2.0

GRID = """
name = "{name}"
question = "{question}"
workload = "pgbench"
rounds = {rounds}
loads = 4

[baseline]
data_block = "8kB"
wal_block = "8kB"

[factors]
data_block = ["1kB", "2kB", "4kB", "8kB", "16kB", "32kB"]
wal_block = ["1kB", "2kB", "4kB", "8kB", "16kB", "32kB", "64kB"]
mode = {modes}
clients = {clients}
"""


def preset(name: str, size: str) -> tuple[Plan, str]:
    """A shipped plan."""
    return find_plan(name, size=size)


def grid(name: str, rounds: int, clients: Sequence[int], *modes: str) -> tuple[Plan, str]:
    """42 combinations of blocks in each mode and number of clients."""
    words = ", ".join(f'"{mode}"' for mode in modes)
    text = GRID.format(
        name=name, rounds=rounds, question="Which blocks are fastest here?", modes=f"[{words}]", clients=list(clients)
    )
    return parse_plan(text, origin=name), text


LAYOUTS: dict[str, Callable[[Store], str]] = {
    "demo": lambda store: plant(store, *_planned(preset("oltp-blocks-demo", "quick")), series=True, number=1),
    "42-cells": lambda store: plant(store, *_planned(grid("blocks", 4, [8], "read-only", "read-write")), number=2),
    "coalescing": lambda store: plant(store, *_planned(preset("coalescing", "here")), series=True, number=3, rounds=6),
    "570-cells": lambda store: plant(store, *_planned(preset("coalescing", "full")), series=True, number=6),
    "1000-cells": lambda store: plant(
        store, *_planned(grid("many", 4, [2**n for n in range(12)], "read-only", "read-write")), number=4
    ),
    "10000-trials": lambda store: plant(
        store, *_planned(grid("long", 116, [8], "read-only", "read-write")), number=5, spoiled=0.03
    ),
}  # fmt: skip


def _planned(found: tuple[Plan, str]) -> tuple[Plan]:
    return (found[0],)


def main() -> None:
    """Fills the stores and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[*LAYOUTS, "tpch"], help="may be given several times")
    parser.add_argument("--times", type=int, default=1, help="how often each report is made")
    parser.add_argument("--keep", type=Path, help="keep stores and pages below this directory, and use what it has")
    parser.add_argument("--tpch", type=Path, help="the directory of the published TPC-H results")
    parser.add_argument("--store", type=Path, help="an SQLite store with runs to report too")
    parser.add_argument("--run", action="append", default=[], help="a run of that store; may be given several times")
    parser.add_argument("--before", type=Path, help="another checkout, to compare with")
    arguments = parser.parse_args()
    parent: Path = arguments.keep or Path(tempfile.mkdtemp(prefix="octavo-pages-", dir="/var/tmp"))
    names = arguments.only or ([] if arguments.store else [*LAYOUTS, *(["tpch"] if arguments.tpch else [])])
    try:
        print(f"{'report':>14}{'MB':>8}{'page s':>8}{'text s':>8}{'drawn s':>9}")
        for name in names:
            home = parent / name
            if not (home / STORE).exists():
                fill(name, home, arguments.tpch)
            show(name, home, "last", arguments)
        for run in arguments.run:
            home = parent / "store"
            home.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(arguments.store)) as source, closing(sqlite3.connect(home / STORE)) as copy:
                source.backup(copy)
            show(run[-14:], home, run, arguments)
    finally:
        if arguments.keep is None:
            shutil.rmtree(parent)


def fill(name: str, home: Path, tpch: Path | None) -> None:
    """Makes a store with this run."""
    home.mkdir(parents=True)
    if name == "tpch":
        if tpch is None:
            sys.exit("tpch needs --tpch DIR, the directory of the published results")
        octavo(home, "import", "vondra-tpch", str(tpch))
        return
    with closing(Store.open(home / STORE)) as store:
        LAYOUTS[name](store)


def show(name: str, home: Path, run: str, arguments: argparse.Namespace) -> None:
    """Prints a line on the reports of one run."""
    if arguments.before is None:
        measure(name, home, run, arguments.times)
    else:
        compare(name, home, run, arguments.times, arguments.before)


def compare(name: str, home: Path, run: str, times: int, before: Path) -> None:
    """Makes the page with both checkouts in turn, each first in every second pair, and prints the median ratios."""
    elapsed: list[float] = []
    used: list[float] = []
    checkouts = {"before": before, "after": ROOT}
    for pair in range(times):
        spent = {
            which: octavo(home, "report", run, "--html", str(home / f"{which}.html"), root=checkouts[which])
            for which in (("after", "before") if pair % 2 else ("before", "after"))
        }
        elapsed.append(spent["before"].elapsed / spent["after"].elapsed)
        used.append(spent["before"].cpu / spent["after"].cpu)
    sizes = [(home / f"{which}.html").stat().st_size / 1e6 for which in ("before", "after")]
    print(f"{name:>14}  {sizes[0]:.2f} → {sizes[1]:.2f} MB, elapsed ÷ {statistics.median(elapsed):.2f}, "
          f"CPU ÷ {statistics.median(used):.2f} ({times} pairs)", flush=True)  # fmt: skip


def measure(name: str, home: Path, run: str, times: int) -> None:
    """Makes the reports of one run and prints a line."""
    page = home / "report.html"
    made = min(octavo(home, "report", run, "--html", str(page)).elapsed for _ in range(times))
    text = min(octavo(home, "report", run).elapsed for _ in range(times))
    size = page.stat().st_size
    drawn = draw(page)
    line = f"{name:>14}{size / 1e6:8.2f}{made:8.2f}{text:8.2f}{'–' if drawn is None else f'{drawn:.2f}':>9}"
    missed = size > MOST_BYTES or max(made, drawn or 0) > MOST_SECONDS
    print(line + ("  missed" if missed else ""), flush=True)


@dataclass(frozen=True)
class Spent:
    """Seconds of a command."""

    elapsed: float
    cpu: float


def octavo(home: Path, *arguments: str, root: Path = ROOT) -> Spent:
    """The duration of the command of that checkout."""
    began, used = time.monotonic(), _children()
    environment = {**os.environ, "OCTAVO_HOME": str(home), "PYTHONPATH": str(root / "src")}
    subprocess.run([sys.executable, "-m", "octavo", *arguments], stdout=subprocess.DEVNULL, env=environment, check=True)
    return Spent(time.monotonic() - began, _children() - used)


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def draw(page: Path) -> float | None:
    """Seconds until a browser has loaded the page and laid it out; None if there is no browser."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        return None
    script = (
        "<script>addEventListener('load',()=>{document.body.getBoundingClientRect();"
        "document.title='drawn '+Math.round(performance.now())})</script>"
    )
    with tempfile.TemporaryDirectory(prefix="octavo-page-") as directory:
        timed = Path(directory) / "page.html"
        # Reports forbid scripts; the copy that is timed has one of its own.
        text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text(encoding="utf-8"))
        timed.write_text(text.replace("</head>", f"{script}</head>", 1), encoding="utf-8")
        found = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={directory}/profile",
             "--window-size=1280,900", "--run-all-compositor-stages-before-draw", "--dump-dom", timed.as_uri()],
            capture_output=True, text=True, timeout=120, check=False,
        ).stdout  # fmt: skip
    match = re.search(r"<title>drawn (\d+)", found)
    return int(match[1]) / 1000 if match else None


if __name__ == "__main__":
    main()

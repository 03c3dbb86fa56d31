"""Response times of a large store: `octavo runs` and `octavo report` on 100,000 trials.

    .venv/bin/python benchmarks/store.py [--layout 100x1000 --layout 1x10000 --layout 1x100000] [--keep DIR]

Each layout is RUNSxTRIALS: a store with that many runs of that many trials, every trial with all observations of a
pgbench trial. The store is filled with synthetic numbers (seeded, so that they are always the same), not by trials.
Each command is a separate process, timed from its start to its last byte of output, the best of `--times`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import create_engine, insert

from octavo.instruments import instruments
from octavo.instruments.running import InstrumentSet
from octavo.plan.cells import Cell, load_of, make_cells, order_of_round
from octavo.plan.model import Plan
from octavo.plan.parse import parse_plan
from octavo.store import schema
from octavo.store.records import RunRecord
from octavo.store.store import Store
from octavo.workloads.pgbench import WORKLOAD

GOALS = {"octavo runs": 1.0, "octavo report": 5.0}

TEXT = """
name = "{name}"
question = "How fast is a store with many trials?"
workload = "pgbench"
rounds = {rounds}
loads = 4

[baseline]
data_block = "8kB"

[factors]
data_block = ["1kB", "2kB", "4kB", "8kB", "16kB", "32kB"]
mode = ["read-only", "read-write"]
"""
MIXED: tuple[tuple[str, str | None, float], ...] = (
    ("ok", None, 0.97),
    ("invalid", "the hypervisor took 3.1 % of the CPU while the trial ran, more than 2 %", 0.02),
    ("failed", "pgbench measured nothing (exit 1): connection to server was lost", 0.01),
)


def main() -> None:
    """Fills each store, times the commands and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layout", action="append", help="RUNSxTRIALS; may be given several times")
    parser.add_argument("--times", type=int, default=3, help="how often each command is run")
    parser.add_argument("--keep", type=Path, help="keep the stores below this directory, and use those it has")
    arguments = parser.parse_args()
    parent: Path = arguments.keep or Path(tempfile.mkdtemp(prefix="octavo-store-", dir="/var/tmp"))
    try:
        print(f"{'store':>12}  {'command':34}{'seconds':>8}{'goal':>6}{'CPU s':>8}{'MB output':>11}")
        for layout in arguments.layout or ["100x1000", "1x10000", "1x100000"]:
            runs, trials = map(int, layout.split("x"))
            home = parent / layout
            if not (home / "octavo.sqlite").exists():
                fill(home, runs, trials)
            measure(home, layout, arguments.times)
    finally:
        if arguments.keep is None:
            shutil.rmtree(parent)


def fill(home: Path, runs: int, trials: int) -> None:
    """Makes a store with that many runs of that many trials each, through Octavo's own tables."""
    home.mkdir(parents=True)
    path = home / "octavo.sqlite"
    Store.open(path).close()  # creates its tables
    workload = {metric.name: metric for metric in WORKLOAD.metrics}
    metrics = workload | {m.name: m for m in InstrumentSet(instruments(), print).metrics}
    about = {m.name: {"title": m.title, "unit": m.unit, "better": m.better} for m in metrics.values()}
    engine = create_engine(f"sqlite:///{path}")
    generator = np.random.default_rng(1)
    with engine.begin() as connection:
        for number in range(runs):
            text = TEXT.format(name=f"bulk-{number}", rounds=10)
            cells = make_cells(parse_plan(text, origin="bulk"))
            text = TEXT.format(name=f"bulk-{number}", rounds=max(1, trials // len(cells)))
            plan = parse_plan(text, origin="bulk")
            record = make_run(plan, text, f"20260101-{number:06d}-bulk", about)
            connection.execute(insert(schema.run).values(**fields(record)))
            rows = [{**fields(cell), "levels": dict(cell.levels)} for cell in cells]
            rows = [{**row, "run": record.id, "position": position} for position, row in enumerate(rows)]
            connection.execute(insert(schema.cell), rows)
            first = 1 + number * trials
            connection.execute(insert(schema.trial), list(make_trials(record.id, plan, cells, first, trials)))
            for chunk in range(first, first + trials, 5_000):
                last = min(chunk + 5_000, first + trials)
                connection.execute(insert(schema.observation), make_observations(range(chunk, last), about, generator))
    engine.dispose()


def make_run(plan: Plan, text: str, identifier: str, about: dict[str, dict[str, Any]]) -> RunRecord:
    """A run that has ended."""
    started = 1_767_225_600.0
    content = json.loads(plan.model_dump_json())
    return RunRecord(
        identifier, plan.name, "finished", "", 1, started, started + 86_400, content, text, "", about, {}
    )  # fmt: skip


def fields(record: Any) -> dict[str, Any]:
    """A frozen record as columns."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def make_trials(run: str, plan: Plan, cells: Sequence[Cell], first: int, count: int) -> Iterator[dict[str, Any]]:
    """Trials in rounds of random order, some of them invalid or failed."""
    generator = np.random.default_rng(first)
    statuses = generator.choice(len(MIXED), size=count, p=[share for *_, share in MIXED])
    for index in range(count):
        number, position = 1 + index // len(cells), index % len(cells)
        cell = order_of_round(cells, number, 1, 1)[position]
        status, reason, _ = MIXED[int(statuses[index])]
        started = 1_767_225_600.0 + 40 * index
        yield {
            "id": first + index, "run": run, "cell": cell.id, "round": number, "attempt": 1, "position": position + 1,
            "load": load_of(cell, number, plan.loads), "part": 1, "status": status, "reason": reason,
            "started": started, "ended": started + 36.5, "seed": number, "settings": None, "build": None,
            "facts": {
                "build": "18.6-b8w8-0123456789ab", "log": f"runs/{run}/{index:05d}.server.log",
                "caches_emptied_by": "drop_caches", "database_bytes": 787_000_000,
            },
        }  # fmt: skip


def make_observations(
    trials: Sequence[int], about: dict[str, dict[str, Any]], generator: np.random.Generator
) -> list[dict[str, Any]]:
    """Every metric of each trial: its own magnitude and 2 % of noise; counters of rare events are mostly zero."""
    names = list(about)
    values = np.exp(generator.normal(np.linspace(0, 12, len(names)), 0.02, (len(trials), len(names))))
    for column, name in enumerate(names):
        if name in ("wal_segments_created", "checkpoints", "cpu_steal_share"):
            values[:, column] = generator.random(len(trials)) < 0.01
    return [
        {"trial": trial, "number": column, "item": None, "repetition": 1, "metric": name,
         "value": float(values[row, column]), "unit": about[name]["unit"]}
        for row, trial in enumerate(trials)
        for column, name in enumerate(names)
    ]  # fmt: skip


def measure(home: Path, layout: str, times: int) -> None:
    """Times the commands on one store and prints a line for each."""
    page = home / "report.html"
    report = ("report", "last")
    formats = [(*report, "--format", name) for name in ("json", "csv", "md")]
    commands = [("runs",), ("runs", "--format", "json"), report, *formats, (*report, "--html", str(page))]
    for command in commands:
        seconds, cpu, size = best(home, command, times)
        if "--html" in command:
            size = page.stat().st_size
        words = " ".join(("octavo", *command)).replace(str(page), "FILE")
        goal = next(limit for name, limit in GOALS.items() if words.startswith(name))
        line = f"{layout:>12}  {words:34}{seconds:8.2f}{goal:6.0f}{cpu:8.2f}{size / 1e6:11.2f}"
        print(line + ("" if seconds <= goal else "  missed"), flush=True)


def best(home: Path, command: Sequence[str], times: int) -> tuple[float, float, int]:
    """The fewest elapsed and CPU seconds of the command, and the bytes it printed."""
    seconds: list[float] = []
    cpu: list[float] = []
    size = 0
    for _ in range(times):
        with tempfile.TemporaryFile() as output:
            began = time.monotonic()
            child = subprocess.Popen(
                [sys.executable, "-m", "octavo", *command], stdout=output, env={**os.environ, "OCTAVO_HOME": str(home)}
            )
            _, status, usage = os.wait4(child.pid, 0)
            seconds.append(time.monotonic() - began)
            if status != 0:
                sys.exit(f"octavo {' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
            size = output.seek(0, os.SEEK_END)
            cpu.append(usage.ru_utime + usage.ru_stime)
    return min(seconds), min(cpu), size


if __name__ == "__main__":
    main()

"""The published TPC-H results, imported and shown: every figure compared with a computation from the files alone."""

import csv
import itertools
import json
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import ROOT, Octavo
from tests.published import TPCH_I5, needs_tpch_i5

pytestmark = pytest.mark.beside

DATA, WAL, SEGMENTS = (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32, 64), (16, 1, 512)
Place = tuple[int, int, int]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("published")


@pytest.fixture(scope="module")
def document(state: Path) -> dict[str, Any]:
    import os
    import subprocess

    def call(*arguments: str | Path) -> str:
        return subprocess.run(
            [ROOT / "octavo", *arguments],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "OCTAVO_HOME": str(state)},
        ).stdout

    assert "378 trials of 126 cells, from 9,072 rows" in call("import", "vondra-tpch", TPCH_I5)
    return json.loads(call("report", "last", "--format", "json"))


@pytest.fixture(scope="module")
def queries() -> dict[Place, dict[tuple[int, int], float]]:
    """Seconds by geometry, then query and run."""
    found: dict[Place, dict[tuple[int, int], float]] = {}
    for data, wal, _, segment, query, run, _, seconds, *_ in _rows("queries.csv"):
        found.setdefault((int(data), int(wal), int(segment)), {})[int(query), int(run)] = float(seconds)
    return found


def _rows(name: str) -> Iterator[list[str]]:
    with (TPCH_I5 / name).open(newline="") as lines:
        yield from csv.reader(lines, delimiter=";")


def _effects(rows: list[dict[str, Any]], condition: str, item: str | None) -> dict[tuple[int, int], dict[str, Any]]:
    """The effects of one number by data and WAL block."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for row in rows:
        if row["condition"] == condition and row["item"] == item and row["metric"] == "seconds":
            levels = dict(part.split("=") for part in row["cell"].split(" ")[:2])
            found[int(levels["data_block"][:-2]), int(levels["wal_block"][:-2])] = row
    return found


def _ratio(values: dict[Place, float], data: int, wal: int) -> float:
    """The geometric mean over the loads of the ratio to 8 kB/8 kB of the same load."""
    logs = [math.log(values[data, wal, segment] / values[8, 8, segment]) for segment in SEGMENTS]
    return math.exp(math.fsum(logs) / len(logs))


def _agree(effects: dict[tuple[int, int], dict[str, Any]], values: dict[Place, float]) -> None:
    cells = set(itertools.product(DATA, WAL)) - {(8, 8)}
    assert effects.keys() == cells
    for data, wal in cells:
        assert effects[data, wal]["ratio"] == pytest.approx(_ratio(values, data, wal), rel=1e-12)


@needs_tpch_i5
def test_the_total_of_minima_is_that_of_the_files(
    document: dict[str, Any], queries: dict[Place, dict[tuple[int, int], float]]
) -> None:
    totals = {
        place: sum(min(seen[query, run] for run in (1, 2, 3)) for query in range(1, 23))
        for place, seen in queries.items()
    }
    _agree(_effects(document["best_of"]["effects"], "best of all runs", None), totals)
    shown = {
        (row["cell"].split(" phase")[0], row["load"]): row["value"]
        for row in document["best_of"]["values"]
        if row["item"] is None
    }
    assert len(shown) == len(totals) == 126
    for (data, wal, segment), total in totals.items():
        cell = f"data_block={data}kB wal_block={wal}kB"
        assert shown[cell, SEGMENTS.index(segment) + 1] == pytest.approx(total, rel=1e-12)


@needs_tpch_i5
def test_every_query_is_that_of_the_files_and_first_runs_stay_apart(
    document: dict[str, Any], queries: dict[Place, dict[tuple[int, int], float]]
) -> None:
    for query in range(1, 23):
        first = {place: seen[query, 1] for place, seen in queries.items()}
        later = {place: (seen[query, 2] + seen[query, 3]) / 2 for place, seen in queries.items()}
        best = {place: min(seen[query, run] for run in (1, 2, 3)) for place, seen in queries.items()}
        _agree(_effects(document["effects"], "first run", f"q{query}"), first)
        _agree(_effects(document["effects"], "queries", f"q{query}"), later)
        _agree(_effects(document["best_of"]["effects"], "best of all runs", f"q{query}"), best)


@needs_tpch_i5
def test_every_load_step_is_that_of_the_files(document: dict[str, Any]) -> None:
    steps: dict[str, dict[Place, float]] = {}
    for data, wal, _, segment, step, _, seconds, _ in _rows("load.csv"):
        steps.setdefault(step, {})[int(data), int(wal), int(segment)] = float(seconds)
    assert steps.keys() == {"copy", "pkey", "fkey", "indexes", "analyze"}
    for step, values in steps.items():
        _agree(_effects(document["effects"], "load", f"load.{step}"), values)
    whole = {place: sum(values[place] for values in steps.values()) for place in steps["copy"]}
    _agree(_effects(document["effects"], "load", None), whole)


@needs_tpch_i5
def test_plans_are_those_of_the_files(document: dict[str, Any]) -> None:
    plans: dict[str, dict[Place, str]] = {}
    for data, wal, _, segment, query, _, _, _, plan, _ in _rows("queries.csv"):
        plans.setdefault(f"q{query}", {})[int(data), int(wal), int(segment)] = plan
    rows = {row["item"]: row for row in document["plans"] if row["condition"] == "queries"}
    assert {item: row["distinct"] for item, row in rows.items()} == {
        item: len(set(found.values())) for item, found in plans.items()
    }
    for item, found in plans.items():
        letters = {
            (one["cell"].split(" phase")[0], int(load)): letter
            for one in rows[item]["cells"]
            for load, letter in one["by_load"].items()
        }
        named = {
            (plan, letters[f"data_block={data}kB wal_block={wal}kB", SEGMENTS.index(segment) + 1])
            for (data, wal, segment), plan in found.items()
        }
        assert len(named) == len(set(found.values())) == len({letter for _, letter in named})


@needs_tpch_i5
def test_intervals_are_of_the_scatter_between_loads(
    document: dict[str, Any], queries: dict[Place, dict[tuple[int, int], float]]
) -> None:
    """Cells and loads as a table without interaction: the residual is the scatter, one for each data block. Loads are
    weighted means over cells, and cost each data block its share of two degrees of freedom."""
    logs = {
        place: math.log(sum((seen[query, 2] + seen[query, 3]) / 2 for query in range(1, 23)))
        for place, seen in queries.items()
    }
    cells = {(d, w): statistics.fmean(logs[d, w, s] for s in SEGMENTS) for d, w in itertools.product(DATA, WAL)}
    squares, freedom = dict.fromkeys(DATA, 1.0), dict.fromkeys(DATA, 0.0)
    for _ in range(50):
        weight = sum(len(WAL) / squares[d] for d in DATA)
        loads = {s: sum((logs[d, w, s] - cells[d, w]) / squares[d] for d, w in cells) / weight for s in SEGMENTS}
        freedom = {d: 2 * len(WAL) - 2 * len(WAL) / squares[d] / weight for d in DATA}
        squares = {
            d: sum((logs[d, w, s] - cells[d, w] - loads[s]) ** 2 for w in WAL for s in SEGMENTS) / freedom[d]
            for d in DATA
        }
    (model,) = (row for row in document["model"] if row["condition"] == "queries")
    assert {row["level"] for row in model["by_group"]} == {f"{d}kB" for d in DATA}
    for row in model["by_group"]:
        block = int(row["level"].removesuffix("kB"))
        assert math.log1p(row["deviation_percent"] / 100) == pytest.approx(math.sqrt(squares[block]), rel=1e-4)
        assert row["degrees_of_freedom"] == pytest.approx(freedom[block], abs=0.06)
    for block in set(DATA) - {8}:
        halves = [
            math.log(row["high"] / row["low"]) / 2
            for (data, _), row in _effects(document["effects"], "queries", None).items()
            if data == block
        ]
        # Dunnett's value for 35 comparisons with some 20 degrees of freedom; cells with more scatter have wider
        # intervals.
        assert 3.0 < min(halves) / math.sqrt((squares[block] + squares[8]) / 3) < 4.0


@needs_tpch_i5
def test_the_foreign_keys_at_32_kb_are_two_groups_that_nothing_tells_apart(document: dict[str, Any]) -> None:
    seconds = sorted(float(row[6]) for row in _rows("load.csv") if row[0] == "32" and row[4] == "fkey")
    gap = max(range(1, len(seconds)), key=lambda place: seconds[place] / seconds[place - 1])
    (row,) = (row for row in document["two_groups"] if row["item"] == "load.fkey")
    assert row["level"] == "32kB"
    assert row["low"] == {"trials": gap, "from": seconds[0], "to": seconds[gap - 1]}
    assert row["high"] == {"trials": len(seconds) - gap, "from": seconds[gap], "to": seconds[-1]}
    assert row["goes_with"] is None


@needs_tpch_i5
def test_every_kind_of_report_of_it_is_made(
    state: Path, document: dict[str, Any], octavo: Octavo, tmp_path: Path
) -> None:
    text = octavo("report", "last", OCTAVO_HOME=str(state), COLUMNS="80", NO_COLOR="1")
    assert text.returncode == 0
    assert max(len(line) for line in text.stdout.splitlines()) <= 80
    words = " ".join(text.stdout.split())
    assert "their order was not randomised" in words
    page = octavo("report", "last", "--html", tmp_path / "i5.html", OCTAVO_HOME=str(state))
    assert page.returncode == 0
    files = octavo("report", "last", "--png", tmp_path / "png", OCTAVO_HOME=str(state))
    assert files.returncode == 0
    written = sorted((tmp_path / "png").iterdir())
    # A heatmap of the shortest runs and of each condition, the points of each, two charts of the run, and a heatmap of
    # every total and item.
    assert len(written) == 4 + 3 + 2 + 3 * (1 + 22) + 1 + 5
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)
    html = (tmp_path / "i5.html").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert len(html) < 2_000_000
    assert html.count('<table class="grid">') == 3 * 22 + 5
    assert html.count('<table class="grid wide">') == 4
    opening = html[html.index("<h1>") : html.index('<table class="grid')]
    assert (
        "2 kB and 4 kB data blocks with any WAL block size take 5 to 8 % less time than 8 kB (the shortest run of each "
        "query)." in opening
    )
    assert "32 kB (11 to 12 times)" in opening
    assert "falls into two groups at data block 32 kB: 14 from 2 min 44 s to 5 min 31 s, 7 from 31 min 2 s" in html

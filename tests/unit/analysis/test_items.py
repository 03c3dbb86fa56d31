"""Plans, groups and minima: statements about single items."""

import math
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.imports.making import DATA, QUERIES, RUNS, SEGMENTS, WAL, change_line, seconds, write_tpch

from octavo.analysis.best_of import best_of
from octavo.analysis.plan_identity import add_plan_comparison, plans_of
from octavo.analysis.trials import used_trials
from octavo.analysis.two_groups import two_groups
from octavo.imports.vondra_tpch import read
from octavo.observation import Observation
from octavo.plan.cells import Cell
from octavo.plan.negative import negative_in
from octavo.plan.parts import PARTS_OF_A_HOST
from octavo.postgres.plan_shape import Shape
from octavo.store.records import TrialRecord

METRICS = {"seconds": {"title": "time", "unit": "s", "better": "lower"}}
AMONG = {"factor": "phase", "levels": ["first run", "queries"], "metric": "seconds"}


def test_minima_are_of_all_runs_of_a_load(tmp_path: Path) -> None:
    made = read(write_tpch(tmp_path))
    found = best_of(made.plan, made.cells, made.trials, METRICS, AMONG)
    values = {(row["cell"], row["load"], row["item"]): row["value"] for row in found["values"]}
    for data in DATA:
        for wal in WAL:
            for load, segment in enumerate(SEGMENTS, 1):
                cell = f"data_block={data}kB wal_block={wal}kB phase=best of all runs"
                least = {query: min(seconds(data, wal, segment, query, run) for run in RUNS) for query in QUERIES}
                assert values[cell, load, None] == pytest.approx(sum(least.values()))
                assert values[cell, load, "q9"] == least[9]
    assert {row["negative_control"] for row in found["effects"] if "data_block=8kB" in row["cell"]} == {True}


def test_a_load_that_lacks_a_run_has_no_minima(tmp_path: Path) -> None:
    directory = write_tpch(tmp_path)
    change_line(directory / "queries.csv", 1, "broken")
    made = read(directory)
    found = best_of(made.plan, made.cells, made.trials, METRICS, AMONG)
    assert {(row["cell"], row["load"]) for row in found["values"]} == {
        (f"data_block={data}kB wal_block={wal}kB phase=best of all runs", load)
        for data in DATA for wal in WAL for load in (1, 2)
    } - {("data_block=4kB wal_block=8kB phase=best of all runs", 1)}  # fmt: skip


def test_shapes_of_plans_are_shown_and_compared(tmp_path: Path) -> None:
    """As one of our workloads stores them, along with identities that may be published hashes."""
    made = read(write_tpch(tmp_path))
    scan, index = Shape("Seq Scan", "part"), Shape("Index Scan", "part", "part_pkey")
    trials = [
        replace(trial, facts={
            **(trial.facts or {}),
            "plans": {"q1": (scan if "data_block=8kB" in trial.cell else index).identity},
            "plan_shapes": {one.identity: one.as_dict() for one in (scan, index)},
        })
        for trial in made.trials
    ]  # fmt: skip
    (row, *_) = plans_of(made.cells, used_trials(trials))
    assert row["shapes"] == {
        "A": {"identity": scan.identity, "lines": ["Seq Scan on part"], "differences": []},
        "B": {
            "identity": index.identity,
            "lines": ["Index Scan on part using part_pkey"],
            "differences": ["part: Seq Scan → Index Scan using part_pkey"],
        },
    }


def test_plans_have_letters_that_begin_with_the_baseline(tmp_path: Path) -> None:
    made = read(write_tpch(tmp_path))
    rows = {
        (row["condition"], row["item"]): {one["cell"]: one["by_load"] for one in row["cells"]}
        for row in plans_of(made.cells, used_trials(made.trials))
    }
    assert set(rows) == {(phase, item) for phase in ("first run", "queries") for item in ("q1", "q9")}
    later = rows["queries", "q9"]
    assert later["data_block=8kB wal_block=8kB phase=queries"] == {"1": "A", "2": "A"}
    assert later["data_block=4kB wal_block=8kB phase=queries"] == {"1": "B", "2": "B"}


def _told(made: tuple[tuple[str, int, int, int, str], ...]) -> dict[str, dict[str, str]]:
    """The letters of plans by cell and load, from trials with these cells, rounds, parts, loads and plans."""
    cells = [Cell(name, name, {}, "", baseline=name == "8kB", control=False, dataset=name) for name in ("8kB", "4kB")]
    used = {
        (number, part, cell): TrialRecord(
            cell, number, 1, 1, load, "ok", None, 0.0, 1.0, 1, (), facts={"plans": {"q1": plan}}, part=part
        )
        for cell, number, part, load, plan in made
    }
    (row,) = plans_of(cells, used)
    return {one["cell"]: one["by_load"] for one in row["cells"]}


def test_loads_of_several_hosts_are_loads_of_their_own() -> None:
    """Each host of a fleet counts its loads from 1."""
    made = (("8kB", 1, 1000, 1, "x"), ("8kB", 1, 2000, 1, "y"), ("4kB", 1, 1000, 1, "x"), ("4kB", 1, 2000, 1, "x"))
    assert _told(made) == {"8kB": {"1.1": "A", "2.1": "B"}, "4kB": {"1.1": "A", "2.1": "A"}}


def test_a_load_that_is_used_again_keeps_both_of_its_plans() -> None:
    made = (("8kB", 1, 1, 1, "x"), ("8kB", 2, 1, 1, "x"), ("4kB", 1, 1, 1, "y"), ("4kB", 2, 1, 1, "x"))
    assert _told(made) == {"8kB": {"1": "A"}, "4kB": {"1": "B"}}
    later = (*made, ("8kB", 3, 1, 2, "x/y"))
    assert _told(later) == {"8kB": {"1": "A", "2": "B"}, "4kB": {"1": "B"}}


def test_the_same_two_plans_are_the_same_whichever_ran_first() -> None:
    """The minima of a load, and imported results, have them in the order of the runs."""
    made = (("8kB", 1, 1, 1, "x/y"), ("8kB", 2, 1, 2, "y/x"), ("4kB", 1, 1, 1, "y/x"), ("4kB", 2, 1, 2, "y"))
    assert _told(made) == {"8kB": {"1": "A", "2": "A"}, "4kB": {"1": "A", "2": "B"}}


def test_an_effect_says_whether_its_plan_is_the_baselines() -> None:
    cells = [
        Cell(name, name, {}, "", baseline=name == "8kB", control=False, dataset=name) for name in ("8kB", "4kB", "2kB")
    ]
    plans = [{"condition": "", "item": "q1", "distinct": 2, "cells": [
        {"cell": "8kB", "by_load": {"1": "A", "2": "A"}},
        {"cell": "4kB", "by_load": {"1": "B", "2": "A"}},
        {"cell": "2kB", "by_load": {"1": "B", "3": "A"}},
    ]}]  # fmt: skip
    effects = [{"condition": "", "item": item, "cell": cell} for item, cell in
               (("q1", "4kB"), ("q1", "2kB"), ("q2", "4kB"), (None, "4kB"))]  # fmt: skip
    add_plan_comparison(effects, plans, cells)
    assert [effect["plan"] for effect in effects] == ["some", "other", None, None]


def _found(logs: np.ndarray, facts: list[str] | None = None, fast: int | None = None) -> list[dict[str, Any]]:
    """`fast`: so many trials are of the first host of a fleet, the others of the second."""
    cell = Cell("c", "c", {"data_block": "8kB"}, "", baseline=True, control=False, dataset="c")
    used = {
        (number, 1, "c"): TrialRecord(
            "c", number, 1, 1, number, "ok", None, 0.0, 1.0, 1, (Observation("seconds", math.exp(log), "s", "step"),),
            facts={"wal_segment": facts[number]} if facts else None,
            part=1 if fast is None else 1 + PARTS_OF_A_HOST * (1 if number < fast else 2),
        )
        for number, log in enumerate(logs)
    }  # fmt: skip
    return two_groups([cell], used, "seconds", "data_block", 0.03)


def test_two_groups_are_found_with_what_tells_them_apart() -> None:
    source = np.random.default_rng(5)
    logs = np.concatenate([source.normal(0, 0.05, 14), source.normal(1, 0.05, 7)])
    (row,) = _found(logs, ["16MB", "512MB"] * 7 + ["1MB"] * 7)
    assert (row["low"]["trials"], row["high"]["trials"]) == (14, 7)
    assert row["goes_with"]["factor"] == "wal_segment"
    assert set(row["goes_with"]["low"]) == {"16MB", "512MB"}
    assert row["goes_with"]["high"] == ["1MB"]
    (row,) = _found(logs, ["16MB", "1MB", "512MB"] * 7)
    assert row["goes_with"] is None
    (row,) = _found(logs, fast=14)
    assert row["goes_with"] == {"factor": "host", "low": ["1"], "high": ["2"]}


def test_times_that_a_cancelled_run_leaves_are_no_groups() -> None:
    """Of 14 + 7 values the 3 longest were never measured to their end: "7 of them" would be 4 and a wrong range."""
    source = np.random.default_rng(5)
    logs = np.concatenate([source.normal(0, 0.05, 14), source.normal(1, 0.05, 7)])
    cells = [Cell(name, name, {"data_block": name}, "", name == "8kB", False, name) for name in ("8kB", "4kB")]
    used = {
        (number, 1, cell.id): TrialRecord(
            cell.id, number, 1, 1, number, "ok", None, 0.0, 1.0, 1,
            (Observation("timed_out", 1.0, "", "q1"),) if cell.id == "4kB" and number >= 18
            else (Observation("seconds", math.exp(log), "s", "q1"), Observation("timed_out", 0.0, "", "q1")),
        )
        for cell in cells
        for number, log in enumerate(logs)
    }  # fmt: skip
    (row,) = two_groups(cells, used, "seconds", "data_block", 0.03)
    assert (row["level"], row["low"]["trials"], row["high"]["trials"]) == ("8kB", 14, 7)


def test_two_groups_are_found_among_many_items() -> None:
    """With 20,000 samples no probability is below 1 in 20,001: of 201 items none could be found."""
    source = np.random.default_rng(8)
    cell = Cell("c", "c", {"data_block": "8kB"}, "", baseline=True, control=False, dataset="c")
    logs = source.normal(0, 0.05, (12, 300))
    logs[6:, 7] += 2
    used = {
        (number, 1, "c"): TrialRecord(
            "c", number, 1, 1, number, "ok", None, 0.0, 1.0, 1,
            tuple(Observation("seconds", math.exp(log), "s", f"q{item}") for item, log in enumerate(row)),
        )
        for number, row in enumerate(logs)
    }  # fmt: skip
    (found,) = two_groups([cell], used, "seconds", "data_block", 0.03)
    assert found["item"] == "q7"
    assert found["chance"] * 300 < 0.01


def test_the_simulation_of_many_numbers_takes_little_memory() -> None:
    """All 20,000 samples at once would be several arrays of 80 MB."""
    tracemalloc.start()
    _found(np.random.default_rng(9).normal(0, 0.2, 500))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 250e6


def test_one_group_is_one_group() -> None:
    source = np.random.default_rng(6)
    assert sum(bool(_found(source.normal(0, 0.2, 21))) for _ in range(200)) <= 8


def test_few_numbers_and_small_distances_are_no_groups() -> None:
    assert _found(np.array([0.0] * 5 + [1.0] * 5)) == []
    assert _found(np.array([0.0] * 10 + [0.01] * 10)) == []


@pytest.mark.parametrize(
    ("entries", "levels", "expected"),
    [
        (["wal_block"], {"mode": "read-write"}, ["wal_block"]),
        (["wal_block where mode=read-only"], {"mode": "read-only"}, ["wal_block"]),
        (["wal_block where mode=read-only"], {"mode": "read-write"}, []),
    ],
)
def test_a_factor_may_be_negative_in_some_conditions_only(
    entries: list[str], levels: dict[str, str], expected: list[str]
) -> None:
    assert negative_in(entries, levels) == expected

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.unit.analysis.making import layout
from tests.unit.plans import changed_plan

from octavo.analysis.cell_means import cell_means
from octavo.analysis.compare import StoredRun, compare, distinguishing_factors, shared_names
from octavo.analysis.compare_document import regression, warned_of
from octavo.analysis.limitations import CANCELLED
from octavo.observation import Observation
from octavo.plan.cells import make_cells
from octavo.store.records import RunRecord, TrialRecord

METRICS = {"tps": {"title": "TPS", "unit": "1/s", "better": "higher"}}


def run_of(
    name: str, seed: int, *, rounds: int = 8, loads: int = 4, deviation: float = 0.005, factor: dict[str, float]
) -> StoredRun:
    """A run of 4 kB and 8 kB pages, reading and writing, whose cells are so many times as fast as 1000 TPS."""
    source = np.random.default_rng(seed)
    plan = changed_plan({"loads = 2": f"loads = {loads}", "rounds = 4": f"rounds = {rounds}"})
    cells = make_cells(plan)
    trials = [
        TrialRecord(
            cell=cell.id, round=number, attempt=1, position=1, load=1 + (number - 1) % loads, status="ok", reason=None,
            started=0.0, ended=1.0, seed=1,
            observations=(Observation("tps", 1000 * factor.get(cell.label.removesuffix(" again"), 1.0)
                          * float(np.exp(source.normal(0, deviation))), "1/s"),),
        )
        for number, cell in itertools.product(range(1, rounds + 1), cells)
    ]  # fmt: skip
    record = RunRecord(name, name, "finished", "", 1, 0.0, 1.0, {}, "", "", METRICS, {"host": {"hostname": "here"}})
    return StoredRun(record, plan, cells, trials)


def rows_of(reference: StoredRun, other: StoredRun, kind: str = "value") -> dict[tuple[str, str], dict[str, Any]]:
    telling = distinguishing_factors([reference, other])
    found = compare(reference, other, "tps", shared_names(reference, other, telling), telling)
    return {(row["condition"], row["cell"]): row for row in found.comparisons if row["kind"] == kind}


def test_cells_are_matched_by_their_levels_and_controls_are_none() -> None:
    reference, other = run_of("a", 1, factor={}), run_of("b", 2, factor={})
    assert rows_of(reference, other).keys() == set(itertools.product(("read-only", "read-write"), ("4kB", "8kB")))
    assert rows_of(reference, other, "effect").keys() == {("read-only", "4kB"), ("read-write", "4kB")}


def test_a_condition_that_one_run_has_alone_is_told() -> None:
    reference, other = run_of("a", 1, factor={}), run_of("b", 2, factor={})
    plan = changed_plan({}, mode=["read-only"])
    trials = [
        replace(trial, cell=trial.cell.replace(" mode=read-only", ""))
        for trial in other.trials
        if "read-only" in trial.cell
    ]
    fewer = StoredRun(other.record, plan, make_cells(plan), trials)
    telling = distinguishing_factors([reference, fewer])
    found = compare(reference, fewer, "tps", 2, telling)
    assert {(row["condition"], row["cell"]) for row in found.comparisons if row["kind"] == "value"} == {
        ("read-only", "4kB"), ("read-only", "8kB"),
    }  # fmt: skip
    assert found.only["a"] == ["4kB read-write", "8kB read-write"]


def test_what_was_cancelled_is_named_where_runs_are_compared() -> None:
    """It has no time there, so that no row says that it became slower."""
    reference, other = run_of("a", 1, rounds=2, factor={}), run_of("b", 2, rounds=2, factor={})
    assert warned_of([reference, other]) == []
    seen = Observation("timed_out", 1.0, "1", "q17")
    trials = [replace(one, observations=(*one.observations, seen)) for one in other.trials[:1]]
    metrics = {**METRICS, "timed_out": {"title": "Runs that were cancelled", "unit": "1", "warns": "limit"}}
    late = StoredRun(replace(other.record, metrics=metrics), other.plan, other.cells, [*trials, *other.trials[1:]])
    (named, why) = warned_of([reference, late])
    assert named.startswith("b: runs that were cancelled: in 1 trial (") and named.endswith(": q17).")
    assert why == CANCELLED


def test_a_slower_version_is_decided_and_its_effect_is_the_same() -> None:
    rows = rows_of(run_of("a", 1, factor={"4kB": 1.2}), run_of("b", 2, factor={"4kB": 1.08, "8kB": 0.9}))
    for row in rows.values():
        assert row["verdict"] == "slower"
        assert row["low"] < 0.9 < row["high"]
        assert regression(row, 0.03, "higher") == "yes"
    effects = rows_of(run_of("a", 1, factor={"4kB": 1.2}), run_of("b", 2, factor={"4kB": 1.08, "8kB": 0.9}), "effect")
    for row in effects.values():
        assert row["low"] < 1 < row["high"]


def test_a_page_size_that_gains_less_is_told_by_its_effect() -> None:
    effects = rows_of(run_of("a", 1, factor={"4kB": 1.3}), run_of("b", 2, factor={"4kB": 1.1}), "effect")
    assert {row["verdict"] for row in effects.values()} == {"gains less"}


def test_what_is_no_speed_is_better_or_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METRICS, "tps", {"title": "connections until the kill", "unit": "1", "better": "higher"})
    more, fewer = run_of("a", 1, factor={"4kB": 1.3}), run_of("b", 2, factor={"4kB": 0.8, "8kB": 0.8})
    assert {row["verdict"] for row in rows_of(more, fewer).values()} == {"worse"}
    assert {row["verdict"] for row in rows_of(fewer, more).values()} == {"better"}
    assert {row["verdict"] for row in rows_of(more, fewer, "effect").values()} == {"gains less"}


def test_an_interval_past_any_number_is_none() -> None:
    first, second = (
        run_of(name, seed, rounds=8, loads=2, deviation=100, factor={}) for name, seed in (("a", 1), ("b", 2))
    )
    for kind in ("value", "effect"):
        rows = rows_of(first, second, kind)
        assert {(row["low"], row["high"]) for row in rows.values()} == {(None, None)}
        assert all(row["noise_floor"] < 1e6 for row in rows.values())
        assert {regression(row, 0.03, "higher") for row in rows.values()} == {"undecided"}


def test_equal_runs_show_no_regression() -> None:
    rows = rows_of(run_of("a", 1, factor={}), run_of("b", 2, factor={}))
    assert {regression(row, 0.03, "higher") for row in rows.values()} == {"no"}


@pytest.mark.parametrize(
    ("low", "ratio", "high", "floor", "better", "expected"),
    [
        (0.90, 0.95, 0.99, 0.0, "higher", "yes"),
        (0.90, 0.98, 0.99, 0.0, "higher", "undecided"),  # slower, but not by the margin
        (0.90, 0.95, 1.01, 0.0, "higher", "undecided"),
        (0.98, 0.99, 1.00, 0.0, "higher", "no"),
        (0.90, 0.95, 0.99, 0.1, "higher", "undecided"),  # inside the noise floor
        (1.01, 1.05, 1.10, 0.0, "lower", "yes"),
        (1.01, 1.05, 1.10, 0.0, "higher", "no"),
        (0.90, 0.95, 0.99, None, "higher", "undecided"),  # a noise floor that is not known is not one of zero
        (0.98, 0.99, 1.00, None, "higher", "no"),
        (None, 0.5, None, 0.0, "higher", "undecided"),
        (0.90, 0.95, 0.99, 0.0, None, "undecided"),
    ],
)
def test_what_a_regression_is(
    low: float | None, ratio: float, high: float | None, floor: float | None, better: str | None, expected: str
) -> None:
    assert regression({"low": low, "ratio": ratio, "high": high, "noise_floor": floor}, 0.03, better) == expected


def test_a_run_whose_control_failed_decides_nothing() -> None:
    reference = run_of("a", 1, factor={})
    slower = run_of("b", 2, factor={"4kB": 0.5, "8kB": 0.5})
    assert {regression(row, 0.03, "higher") for row in rows_of(reference, slower).values()} == {"yes"}
    controls = {cell.id for cell in slower.cells if cell.control}
    failed = [
        replace(trial, status="failed", observations=()) if trial.cell in controls else trial for trial in slower.trials
    ]
    rows = [
        row for kind in ("value", "effect") for row in rows_of(reference, replace(slower, trials=failed), kind).values()
    ]
    assert {row["verdict"].split(" (")[0] for row in rows} == {"undecided"}
    assert {row["noise_floor"] for row in rows} == {None}
    assert "yes" not in {regression(row, 0.03, "higher") for row in rows}


def test_two_trials_a_cell_decide_nothing() -> None:
    rows = rows_of(
        run_of("a", 1, rounds=2, loads=1, deviation=0.05, factor={}),
        run_of("b", 2, rounds=2, loads=1, deviation=0.05, factor={"8kB": 0.9, "4kB": 0.9}),
    )
    assert {row["verdict"] for row in rows.values()} == {"undecided"}


def _covered(source: np.random.Generator, cells: int, rounds: int, loads: Sequence[int], of_round: float) -> bool:
    """Whether the 95 % interval of a difference that is none holds it."""
    from scipy.special import stdtrit

    found = [
        cell_means(layout(source.normal(0, 0.01, (cells, rounds)) + source.normal(0, of_round, rounds), loads))
        for _ in range(2)
    ]
    variance = sum(float(one.variance[-1]) for one in found)
    parts = sum(float(one.variance[-1]) ** 2 / float(one.freedom[-1]) for one in found)
    half = float(stdtrit(variance**2 / parts, 0.975)) * variance**0.5
    return abs(float(found[1].centre[-1] - found[0].centre[-1])) <= half


@pytest.mark.parametrize(
    ("cells", "loads", "of_round"), [(1, [1] * 5, 0.0), (3, [1, 2] * 3, 0.01), (6, [1, 2, 3, 4, 5, 6], 0.01)]
)
def test_intervals_between_runs_cover(cells: int, loads: list[int], of_round: float) -> None:
    source = np.random.default_rng(7)
    covered = [_covered(source, cells, len(loads), loads, of_round) for _ in range(400)]
    assert np.mean(covered) >= 0.93


def test_groups_that_scatter_more_do_not_widen_the_others() -> None:
    source = np.random.default_rng(3)
    groups = np.repeat([0, 1], 5)
    made = layout(source.normal(0, 0.01, (10, 6)), [1, 2, 3, 4, 5, 6])
    quiet = cell_means(replace(made, groups=groups))
    made.values[5:] = source.normal(0, 1, (5, 6))
    loud, pooled = cell_means(replace(made, groups=groups)), cell_means(made)
    assert loud.variance[9] > 100 * loud.variance[1]
    assert loud.variance[1] < 2 * quiet.variance[1]
    assert pooled.variance[1] > 10 * loud.variance[1]

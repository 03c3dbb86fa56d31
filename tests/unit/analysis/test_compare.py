import itertools
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.analysis.making import layout
from tests.unit.plans import changed_plan

from octavo.analysis.cell_means import cell_means
from octavo.analysis.compare import StoredRun, compare, distinguishing_factors, newly_cancelled, shared_names
from octavo.analysis.compare_document import exit_code, make_comparison, regression, regression_at_limit, warned_of
from octavo.analysis.document import make_document
from octavo.analysis.limitations import CANCELLED
from octavo.errors import UsageError
from octavo.observation import Observation
from octavo.plan.cells import make_cells
from octavo.plan.parts import PARTS_OF_A_HOST
from octavo.report.compare_sentences import conclusion, left_out
from octavo.store.records import RunRecord, TrialRecord, TrialStatus
from octavo.store.store import Store

METRICS = {"tps": {"title": "TPS", "unit": "1/s", "better": "higher"}}


def run_of(
    name: str, seed: int, *, rounds: int = 8, loads: int = 4, deviation: float = 0.005, factor: dict[str, float]
) -> StoredRun:
    """A run of 4 kB and 8 kB pages, read-only and read-write, whose cells have the given multiples of 1000 TPS."""
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
    """It has no time there, so that no row reports that it became slower."""
    reference, other = run_of("a", 1, rounds=2, factor={}), run_of("b", 2, rounds=2, factor={})
    assert warned_of([reference, other]) == []
    seen = Observation("timed_out", 1.0, "1", "q17")
    trials = [replace(one, observations=(*one.observations, seen)) for one in other.trials[:1]]
    metrics = {**METRICS, "timed_out": {"title": "Runs that were cancelled", "unit": "1", "warns": "limit"}}
    late = StoredRun(replace(other.record, metrics=metrics), other.plan, other.cells, [*trials, *other.trials[1:]])
    (named, why) = warned_of([reference, late])
    assert named.startswith("b: runs that were cancelled: in 1 trial (") and named.endswith(": q17).")
    assert why == CANCELLED


def queries_of(name: str, timeout: str | None, *trials: Mapping[Any, float | None]) -> StoredRun:
    """A run whose cells have these trials: by query its seconds, None if it was cancelled."""
    run = run_of(name, 1, rounds=len(trials), loads=1, factor={})
    levels = {} if timeout is None else {"query_timeout": timeout}
    cells = [replace(cell, levels={**cell.levels, **levels}) for cell in run.cells]
    times = {"seconds": {"title": "time", "unit": "s", "better": "lower"}}
    cut = {"timed_out": {"title": "runs that were cancelled at the timeout", "unit": "1", "warns": "limit"}}
    return StoredRun(
        replace(run.record, metrics={**times, **cut}), run.plan, cells,
        [
            replace(one, observations=tuple(
                Observation("timed_out", 1.0, "1", item) if value is None else Observation("seconds", value, "s", item)
                for item, value in trials[one.round - 1].items()
            ))
            for one in run.trials
        ],
    )  # fmt: skip


def late_of(before: StoredRun, after: StoredRun) -> list[dict[str, Any]]:
    rows = newly_cancelled(before, after, distinguishing_factors([before, after]))
    assert len({(row["condition"], row["cell"]) for row in rows}) in (0, 4)  # both modes, both sizes; no control
    return [row for row in rows if (row["condition"], row["cell"]) == ("read-only", "4kB")]


def test_what_is_newly_cancelled_is_a_regression() -> None:
    before = queries_of("a", "60s", {"q1": 1.0, "q17": 40.0}, {"q1": 1.0, "q17": 41.0}, {"q1": 1.0, "q17": 40.0})
    after = queries_of("b", "60s", {"q1": 1.0, "q17": None}, {"q1": 1.0, "q17": 40.0}, {"q1": None, "q17": None})
    first, second = late_of(before, after)
    assert first == {
        "reference": "a", "run": "b", "condition": "read-only", "cell": "4kB", "item": "q17", "limit": 60.0,
        "longest": 41.0, "cancelled": 2, "trials": 3,
    }  # fmt: skip
    assert (second["item"], second["cancelled"]) == ("q1", 1)
    assert regression_at_limit(first, 0.03) == "yes"
    assert regression_at_limit(first, 0.5) == "undecided"
    assert late_of(after, before) == []


def test_what_was_cancelled_before_or_had_no_time_is_not_new() -> None:
    before = queries_of("a", "60s", {"q1": 1.0, "q17": 40.0}, {"q1": 1.0, "q17": None})
    after = queries_of("b", "60s", {"q1": 1.0, "q17": None, "q18": None}, {"q1": 1.0, "q17": None, "q18": None})
    assert late_of(before, after) == []


def test_a_trial_that_does_not_count_is_no_regression() -> None:
    before = queries_of("a", "60s", {"q17": 40.0}, {"q17": 40.0})
    after = queries_of("b", "60s", {"q17": 40.0}, {"q17": None})
    trials = [replace(one, status="invalid") if one.round == 2 else one for one in after.trials]
    assert late_of(before, replace(after, trials=trials)) == []


@pytest.mark.parametrize(
    ("timeout", "limit", "expected"),
    [
        ("60s", 60.0, "yes"),
        ("none", None, "yes"),  # for example the workload's own
        (None, None, "yes"),
        ("41s", 41.0, "undecided"),  # 2.5 % above the longest run of the reference
        ("30s", 30.0, "undecided"),  # lowered: the reference would have been cancelled, too
    ],
)
def test_a_limit_that_is_close_or_was_lowered_shows_nothing(
    timeout: str | None, limit: float | None, expected: str
) -> None:
    (row,) = late_of(queries_of("a", "60s", {"q17": 40.0}), queries_of("b", timeout, {"q17": None}))
    assert row["limit"] == limit
    assert regression_at_limit(row, 0.03) == expected


def test_the_exit_code_and_the_conclusion_follow_what_is_newly_cancelled(tmp_path: Path) -> None:
    before = queries_of("a", "60s", *({None: 41.0 + more, "q1": 1 + more, "q17": 40.0} for more in (0.0, 0.01, 0.02)))
    after = queries_of("b", "60s", *({"q1": 1 + more, "q17": None} for more in (0.01, 0.02, 0.0)))
    with closing(Store.open(tmp_path / "store.sqlite")) as store:
        for run in (before, after):
            record = replace(run.record, plan=json.loads(run.plan.model_dump_json()))
            store.add_finished_run(record, run.cells, run.trials)
        asked, not_asked, reverse, lax = (
            make_comparison(store, ids, margin)
            for ids, margin in ((["a", "b"], 0.03), (["a", "b"], None), (["b", "a"], 0.03), (["a", "b"], 0.6))
        )
    assert exit_code(asked) == 1
    where = "newly cancelled at the time limit: Read-only: 4kB q17 in 3 of 3 trials (limit 1 min; A: at most 40.0 s);"
    assert where.lower() in conclusion(asked).lower()
    assert conclusion(asked).startswith("Regression: newly cancelled")
    assert "No regression" not in conclusion(asked)
    assert where.lower() in conclusion(not_asked).lower()
    assert "Regression" not in conclusion(not_asked)
    assert exit_code(not_asked) != 1 and exit_code(lax) != 1
    assert reverse["newly_cancelled"] == []
    assert "cancelled" not in conclusion(reverse)


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        ("failed", 4, "No valid trial in B, so not compared: 4kB read-only."),
        ("invalid", 4, "No valid trial in B, so not compared: 4kB read-only."),
        ("skipped", 0, ""),  # this host cannot run it
        ("ok", 0, ""),
    ],
)
def test_a_cell_that_no_longer_works_is_not_passed_over(
    tmp_path: Path, status: TrialStatus, code: int, words: str
) -> None:
    before, after = run_of("a", 1, factor={}), run_of("b", 2, factor={})
    cell = next(cell.id for cell in after.cells if cell.label == "4kB" and "read-only" in cell.id)
    broken = [replace(one, status=status) if one.cell == cell else one for one in after.trials]
    with closing(Store.open(tmp_path / "store.sqlite")) as store:
        for run in (before, replace(after, trials=broken)):
            record = replace(run.record, plan=json.loads(run.plan.model_dump_json()))
            store.add_finished_run(record, run.cells, run.trials)
        asked, reverse = (make_comparison(store, ids, 0.03) for ids in (["a", "b"], ["b", "a"]))
        not_asked = make_comparison(store, ["a", "b"])
    assert exit_code(asked) == code
    assert exit_code(not_asked) == exit_code(reverse) == 0
    assert " ".join(left_out(asked)) == words
    assert " ".join(left_out(reverse)) == words.replace("in B", "in A")


def test_a_slower_version_is_decided_and_its_effect_is_the_same() -> None:
    rows = rows_of(run_of("a", 1, factor={"4kB": 1.2}), run_of("b", 2, factor={"4kB": 1.08, "8kB": 0.9}))
    for row in rows.values():
        assert row["verdict"] == "slower"
        assert row["low"] < 0.9 < row["high"]
        assert regression(row, 0.03, lower_is_better=False) == "yes"
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
        assert {regression(row, 0.03, lower_is_better=False) for row in rows.values()} == {"undecided"}


def test_values_in_different_units_are_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METRICS, "latency", {"title": "latency", "unit": "ms", "better": "lower"})
    reference, other = (
        replace(
            run,
            trials=[replace(t, observations=(*t.observations, Observation("latency", 1.0, ""))) for t in run.trials],
        )
        for run in (run_of("a", 1, factor={}), run_of("b", 2, factor={}))
    )
    telling = distinguishing_factors([reference, other])
    found = compare(reference, other, "tps", 4, telling)
    assert {row["metric"] for row in found.comparisons} == {"tps", "latency"}
    for metric, left in (("latency", {"tps"}), ("tps", {"latency"})):
        metrics = METRICS | {metric: METRICS[metric] | {"unit": "other"}}
        changed = replace(other, record=replace(other.record, metrics=metrics))
        found = compare(reference, changed, "tps", 4, telling)
        assert {row["metric"] for row in found.comparisons} == left
    with closing(Store.open(tmp_path / "octavo.sqlite")) as store:
        for run in (reference, changed):
            record = replace(run.record, plan=json.loads(run.plan.model_dump_json()))
            store.add_finished_run(record, run.cells, run.trials)
        with pytest.raises(UsageError, match="tps is in 1/s in a, and in other in b; runs in one unit can be"):
            make_comparison(store, ["a", "b"])


def test_equal_runs_show_no_regression() -> None:
    rows = rows_of(run_of("a", 1, factor={}), run_of("b", 2, factor={}))
    assert {regression(row, 0.03, lower_is_better=False) for row in rows.values()} == {"no"}


def test_intervals_of_items_hold_at_once_where_items_have_the_verdicts(tmp_path: Path) -> None:
    """Of 22 queries each at 95 %, one would be a regression in most comparisons of a version with itself."""
    queries = [f"q{number}" for number in range(1, 23)]
    runs = [run_of(name, seed, rounds=4, factor={}) for name, seed in (("a", 1), ("b", 2))]
    with closing(Store.open(tmp_path / "store.sqlite")) as store:
        for run in runs:
            trials = [
                replace(
                    one, observations=tuple(replace(seen, item=query) for seen in one.observations for query in queries)
                )
                for one in run.trials
            ]
            record = replace(run.record, plan=json.loads(run.plan.model_dump_json()))
            store.add_finished_run(record, run.cells, trials)
        found = make_comparison(store, ["a", "b"], 0.03)
        first, second = (
            StoredRun(store.run(one), runs[0].plan, store.cells(one), store.trials(one)) for one in ("a", "b")
        )
    assert found["compared"] == 4 * len(queries)
    telling = distinguishing_factors([first, second])
    (wide, narrow) = (
        [row["high"] for row in compare(first, second, "tps", count, telling).comparisons if row["kind"] == "value"]
        for count in (4 * len(queries), 4)
    )
    assert [row["high"] for row in found["comparisons"] if row["kind"] == "value"] == wide
    assert all(one > another for one, another in zip(wide, narrow, strict=True))


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
        (0.90, 0.95, 0.99, None, "higher", "undecided"),  # an unknown noise floor is not one of zero
        (0.98, 0.99, 1.00, None, "higher", "no"),
        (None, 0.5, None, 0.0, "higher", "undecided"),
    ],
)
def test_what_a_regression_is(
    low: float | None, ratio: float, high: float | None, floor: float | None, better: str, expected: str
) -> None:
    row = {"low": low, "ratio": ratio, "high": high, "noise_floor": floor}
    assert regression(row, 0.03, lower_is_better=better == "lower") == expected


def test_a_metric_without_a_better_direction_has_no_regression(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(METRICS["tps"], "better")
    with pytest.raises(UsageError, match=r"neither more nor less of tps is better.*; leave --fail-on out"):
        without_trials_of(set(), tmp_path, 0.03)


def test_a_verdict_that_leaves_the_regression_open_is_no_pass(tmp_path: Path) -> None:
    """The same within 3 % does not exclude a regression of 0.01 %."""
    alike = [
        run_of(name, seed, factor={"4kB": tps, "8kB": tps}) for name, seed, tps in (("a", 1, 1.0), ("b", 2, 0.998))
    ]
    with closing(Store.open(tmp_path / "store.sqlite")) as store:
        for run in alike:
            record = replace(run.record, plan=json.loads(run.plan.model_dump_json()))
            store.add_finished_run(record, run.cells, run.trials)
        strict, wide, not_asked = (make_comparison(store, ["a", "b"], margin) for margin in (0.0001, 0.03, None))
    for found in (strict, wide, not_asked):
        assert set(found["tally"]) == {"same within 3 %"}
    assert {row["regression"] for row in strict["comparisons"] if "regression" in row} == {"undecided"}
    assert (strict["decided"], exit_code(strict)) == (0, 4)
    assert conclusion(strict).startswith("Of 4 comparisons: 4 same within 3 %. A regression of more than 0.01 % is ")
    assert (wide["decided"], exit_code(wide)) == (4, 0)
    assert (not_asked["decided"], exit_code(not_asked)) == (4, 0)


def test_a_run_whose_control_failed_decides_nothing() -> None:
    reference = run_of("a", 1, factor={})
    slower = run_of("b", 2, factor={"4kB": 0.5, "8kB": 0.5})
    assert {regression(row, 0.03, lower_is_better=False) for row in rows_of(reference, slower).values()} == {"yes"}
    controls = {cell.id for cell in slower.cells if cell.control}
    failed = [
        replace(trial, status="failed", observations=()) if trial.cell in controls else trial for trial in slower.trials
    ]
    rows = [
        row for kind in ("value", "effect") for row in rows_of(reference, replace(slower, trials=failed), kind).values()
    ]
    assert {row["verdict"].split(" (")[0] for row in rows} == {"undecided"}
    assert {row["noise_floor"] for row in rows} == {None}
    assert "yes" not in {regression(row, 0.03, lower_is_better=False) for row in rows}


def test_without_a_noise_floor_the_conclusion_does_not_blame_the_intervals(tmp_path: Path) -> None:
    controls = {cell.id for cell in run_of("b", 2, factor={}).cells if cell.control}
    found = without_trials_of(controls, tmp_path)
    assert conclusion(found).startswith("Nothing could be decided: the controls of a run give no noise floor (4 comp")


def test_where_nothing_is_compared_no_control_is_blamed(tmp_path: Path) -> None:
    found = without_trials_of({cell.id for cell in run_of("b", 2, factor={}).cells}, tmp_path)
    assert found["compared"] == 0
    assert "noise floor" not in conclusion(found)


def without_trials_of(cells: set[str], tmp_path: Path, margin: float | None = None) -> dict[str, Any]:
    """The comparison of two runs, of which these cells failed in the second one."""
    runs = [run_of("a", 1, factor={}), run_of("b", 2, factor={"4kB": 0.5, "8kB": 0.5})]
    with closing(Store.open(tmp_path / "store.sqlite")) as store:
        for run in runs:
            record = replace(run.record, plan=json.loads(run.plan.model_dump_json()))
            lost = [
                replace(one, status="failed", observations=()) if run is runs[1] and one.cell in cells else one
                for one in run.trials
            ]
            store.add_finished_run(record, run.cells, lost)
        return make_comparison(store, ["a", "b"], margin)


def test_a_cell_that_only_a_third_run_shares_is_among_the_cells(tmp_path: Path) -> None:
    """Heatmaps are made of these."""
    with closing(Store.open(tmp_path / "store.sqlite")) as store:
        for number, name in enumerate("abc"):
            run = run_of(name, number, factor={})
            cells = [cell for cell in run.cells if name != "b" or cell.levels["data_block"] == "8kB"]
            trials = [one for one in run.trials if one.cell in {cell.id for cell in cells}]
            record = replace(run.record, plan=json.loads(run.plan.model_dump_json()))
            store.add_finished_run(record, cells, trials)
        found = make_comparison(store, ["a", "b", "c"])
    assert {one["cell"] for one in found["cells"]} == {one["cell"] for one in found["comparisons"]} == {"4kB", "8kB"}


def test_the_value_of_a_cell_has_one_weight_for_each_host(tmp_path: Path) -> None:
    """The fast host has measured two loads when the slow one has measured one."""
    run = run_of("a", 1, factor={})
    record = replace(run.record, plan=json.loads(run.plan.model_dump_json()))
    trials = [
        replace(
            one, round=load, load=load, part=1 + host * PARTS_OF_A_HOST, observations=(Observation("tps", tps, "1/s"),)
        )
        for one in run.trials
        if one.round == 1
        for host, load, tps in ((1, 1, 4000.0), (1, 2, 4000.0), (2, 1, 1000.0))
    ]
    with closing(Store.open(tmp_path / "store.sqlite")) as store:
        store.add_finished_run(record, run.cells, trials)
        found = make_document(store, "a")
    assert [row["value"] for row in found["summary"]] == [pytest.approx(2000)] * len(run.cells)


def test_two_trials_a_cell_decide_nothing() -> None:
    rows = rows_of(
        run_of("a", 1, rounds=2, loads=1, deviation=0.05, factor={}),
        run_of("b", 2, rounds=2, loads=1, deviation=0.05, factor={"8kB": 0.9, "4kB": 0.9}),
    )
    assert {row["verdict"] for row in rows.values()} == {"undecided"}


def test_a_single_trial_has_no_interval() -> None:
    alone = layout([[7.0]], [1])
    assert np.isnan(cell_means(alone).variance).all()
    beside = layout([[7.0], [np.nan]], [1])  # the other cells have no valid trial
    assert np.isnan(cell_means(beside).variance).all()


def _covered(source: np.random.Generator, cells: int, rounds: int, loads: Sequence[int], of_round: float) -> bool:
    """Whether the 95 % interval of a difference contains zero, the true value."""
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

"""The effect that a budget can detect, predicted from the scatter of earlier runs on this host."""

import platform
from pathlib import Path

import numpy as np
import pytest
from tests.unit.analysis.making import analyse_rounds
from tests.unit.plans import changed_plan, small_plan

from octavo.analysis.condition import conditions_of
from octavo.analysis.layout import Layout
from octavo.lab.forecast import Scatter, find_history, forecast_lines, reach, scatter_of
from octavo.observation import Observation
from octavo.plan.cells import load_of, make_cells
from octavo.plan.model import Plan
from octavo.store.records import RunRecord, TrialRecord
from octavo.store.store import Store

PLAN = changed_plan({"loads = 2": 'loads = 6\nbudget = "10m"'})
CELLS = make_cells(PLAN)
METRICS = {"tps": {"title": "TPS", "unit": "1/s", "better": "higher"}}


def trials(plan: Plan, rounds: int, deviation: float) -> list[TrialRecord]:
    source = np.random.default_rng(1)
    return [
        TrialRecord(
            cell.id, number, 1, 1, load_of(cell, number, plan.loads), "ok", None, 0.0, 1.0, 1,
            (Observation("tps", 1000 * float(np.exp(source.normal(0, deviation))), "1/s"),),
        )
        for number in range(1, rounds + 1)
        for cell in make_cells(plan)
    ]  # fmt: skip


def add(path: Path, name: str, started: float, deviation: float, host: str = "") -> None:
    store = Store.open(path)
    plan = PLAN.model_copy(update={"name": name})
    environment = {"host": {"hostname": host or platform.node()}}
    record = RunRecord(
        f"{name}-{started:g}", name, "finished", "", 1, started, started, plan.model_dump(mode="json"), "", "", METRICS,
        environment,
    )  # fmt: skip
    store.add_finished_run(record, make_cells(plan), trials(plan, 20, deviation))
    store.close()


def test_the_scatter_of_a_run_is_found_again() -> None:
    found = scatter_of(PLAN, CELLS, trials(PLAN, 200, 0.02), "tps")
    assert set(found) == {"read-only", "read-write"}
    for one in found.values():
        assert one.of_trials**0.5 == pytest.approx(0.02, rel=0.1)
        assert one.of_loads**0.5 < 0.01


def test_without_history_it_says_so(tmp_path: Path) -> None:
    assert find_history(PLAN, tmp_path / "none.sqlite") is None
    (line,) = forecast_lines(PLAN, CELLS, 60.0, tmp_path / "none.sqlite")
    assert line.startswith("smallest difference that can be decided: unknown")
    add(tmp_path / "other.sqlite", "small", 1.0, 0.01, "elsewhere")
    assert find_history(PLAN, tmp_path / "other.sqlite") is None


def test_the_same_plan_comes_before_a_newer_one(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    for name, started in (("small", 1.0), ("small", 2.0), ("another", 3.0)):
        add(store, name, started, 0.01)
    history = find_history(PLAN, store)
    assert history is not None and history.run == "small-2"
    assert history.of("no such condition").of_trials > 0


def test_conditions_are_named_as_in_reports(tmp_path: Path) -> None:
    add(tmp_path / "store.sqlite", "small", 1.0, 0.005)
    plan = changed_plan(
        {"loads = 2": 'loads = 6\nbudget = "10m"', "\n[factors]": '\n[factors]\nmemory = ["none", "1GB"]'}
    )
    _, *lines = forecast_lines(plan, make_cells(plan), 60.0, tmp_path / "store.sqlite")
    assert {line.split(":")[0].strip().split(", ")[0] for line in lines} == {"no memory limit", "1 GB of memory"}


def test_a_line_a_condition_for_the_rounds_that_the_budget_has_room_for(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    add(store, "small", 1.0, 0.005)
    heading, *lines = forecast_lines(PLAN, CELLS, 60.0, store)
    assert heading == "smallest difference that 10 rounds can decide, if trials scatter as in small-1:"
    assert [line.split(":")[0].strip() for line in lines] == ["read-only", "read-write"]
    assert all("enough to decide 'same within 3 %'" in line for line in lines)
    few = forecast_lines(PLAN, CELLS, 400.0, store)
    assert few[0].startswith("smallest difference that 1 round can decide,") and "too few" in few[1]
    for asked, rounds in ((4, 4), (50, 10)):  # --rounds sets both
        limited = PLAN.model_copy(update={"most_rounds": asked, "rounds": asked})
        heading = forecast_lines(limited, CELLS, 60.0, store)[0]
        assert heading.startswith(f"smallest difference that {rounds} rounds can decide")


def test_more_rounds_reach_further_and_more_scatter_less() -> None:
    condition = conditions_of(PLAN, CELLS, ())[0]

    def smallest(rounds: int, of_trials: float, of_loads: float = 0.0) -> float:
        seen = reach(condition, Scatter(of_trials**2, of_loads**2), PLAN, rounds)
        assert seen is not None
        return seen.smallest

    assert smallest(12, 0.01) < smallest(6, 0.01) < smallest(4, 0.01) < smallest(4, 0.03)
    assert smallest(60, 0.01, 0.01) > 2 * smallest(60, 0.01)  # there are six loads, however many rounds
    assert reach(condition, Scatter(1e-4, 0.0), PLAN, 2) is None
    alone = small_plan()
    assert reach(conditions_of(alone, make_cells(alone), ())[0], Scatter(1e-4, 0.0), alone, 4) is not None


def test_four_of_five_runs_tell_what_is_forecast() -> None:
    """Simulated: six rounds on six loads, trials that scatter by 1 %."""
    condition = conditions_of(PLAN, CELLS, ())[0]
    seen = reach(condition, Scatter(0.01**2, 0.0), PLAN, 6)
    assert seen is not None
    source = np.random.default_rng(2)
    effect = np.zeros((3, 1))
    effect[condition.question.targets] = np.log1p(seen.smallest)
    told = 0
    for _ in range(150):
        values = effect + source.normal(0, 0.01, (3, 6))
        made = Layout(values, np.tile(np.arange(1, 7), (3, 1)), np.arange(3), np.arange(1, 7),
                      condition.question.roles.index(0))  # fmt: skip
        told += int((analyse_rounds(made, condition.question, range(1, 7)).stopped > 0).sum())
    assert 0.7 <= told / 150 <= 0.97

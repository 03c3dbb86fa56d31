"""The conditions that get the rest of a budget."""

import math
from dataclasses import replace

from tests.unit.plans import small_plan

from octavo.lab.budget import seconds_measured, seconds_of, within_budget
from octavo.plan.cells import make_cells
from octavo.store.records import TrialRecord

CELLS = make_cells(small_plan())
READ, WRITE = (cell for cell in CELLS if not cell.baseline and not cell.control)
CHEAP = dict.fromkeys((cell.id for cell in CELLS), 10.0)


def trial(cell: str, started: float, ended: float, number: int = 1) -> TrialRecord:
    return TrialRecord(cell, number, 1, 1, 1, "ok", None, started, ended, 1)


def chosen(read: float, write: float, seconds: float, costs: dict[str, float] = CHEAP) -> set[str]:
    found = within_budget(CELLS, {READ.id: read, WRITE.id: write}, costs, seconds)
    return {cell.condition for cell in found}


BOTH, FIRST, SECOND = {READ.condition, WRITE.condition}, {READ.condition}, {WRITE.condition}


def test_what_suffices_for_all_goes_to_all() -> None:
    assert chosen(2, 3, 150) == BOTH  # a round of a condition is three trials of ten seconds


def test_what_does_not_goes_to_what_it_answers() -> None:
    assert chosen(2, 9, 150) == FIRST
    assert chosen(9, 2, 150) == SECOND
    assert chosen(math.inf, 2, 150) == SECOND
    assert chosen(3, 3, 100) == FIRST


def test_where_nothing_is_in_reach_all_go_on() -> None:
    assert chosen(9, 9, 150) == chosen(math.inf, math.inf, 150) == BOTH


def test_time_counts_not_rounds() -> None:
    slow = {cell.id: 100.0 if cell.condition == READ.condition else 10.0 for cell in CELLS}
    assert chosen(2, 5, 700, slow) == SECOND


def test_of_a_condition_the_nearest_cells_count() -> None:
    cells = make_cells(small_plan(data_block=["2kB", "4kB", "8kB"]))
    costs = dict.fromkeys((cell.id for cell in cells), 10.0)
    near, far = (
        [cell.id for cell in cells if cell.condition == one.condition and not cell.baseline and not cell.control]
        for one in (WRITE, READ)
    )
    forecast = {near[0]: 1.0, near[1]: 50.0, far[0]: 3.0, far[1]: 3.0}
    # One cell in 40 s, compared with two in 120 s.
    assert {cell.condition for cell in within_budget(cells, forecast, costs, 110.0)} == SECOND
    assert {cell.condition for cell in within_budget(cells, forecast, costs, 170.0)} == BOTH


def test_what_runs_side_by_side_takes_its_time_once() -> None:
    together = [trial("a", 0, 10), trial("b", 0, 10), trial("a", 20, 25, 2)]
    assert seconds_measured(together) == 15
    cells = [replace(READ, id=name) for name in ("a", "b", "c")]
    assert seconds_of(cells, together) == {"a": 5.0, "b": 5.0, "c": 5.0}
    assert seconds_of(cells, [trial("a", 0, 10), trial("b", 10, 40)]) == {"a": 10.0, "b": 30.0, "c": 20.0}
    assert seconds_of(cells, []) == {"a": 0.0, "b": 0.0, "c": 0.0}

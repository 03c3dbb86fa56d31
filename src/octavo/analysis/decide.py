"""Which cells need more trials: what a run asks after each round."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from octavo.analysis.condition import Condition, conditions_of, layout_of
from octavo.analysis.interim import (
    InterimAnalyses,
    InterimAnalysis,
    Role,
    after_round,
    analyse_rounds,
    begin,
    single_analysis,
)
from octavo.analysis.layout import Layout
from octavo.analysis.trials import TrialKey, given_up, used_trials, values_of
from octavo.analysis.verdict import VerdictRule, rounds_needed
from octavo.plan.cells import Cell
from octavo.plan.model import Plan
from octavo.store.records import TrialRecord


@dataclass(frozen=True, slots=True)
class DecisionProgress:
    """How a run stands: cells that are settled, cells that are open, and how many more rounds the slowest open cell
    is likely to need; None when rounds alone would not do, or nothing is known yet."""

    settled: int
    open: int
    rounds: int | None


def undecided(plan: Plan, cells: Sequence[Cell], trials: Sequence[TrialRecord], metric: str) -> frozenset[str]:
    """The ids of the cells that need more rounds, as `open_cells`."""
    return frozenset(open_cells(plan, cells, trials, metric))


def open_cells(plan: Plan, cells: Sequence[Cell], trials: Sequence[TrialRecord], metric: str) -> dict[str, float]:
    """The cells that need more rounds, by id, as of these trials of the metric that verdicts speak of; and how many
    are likely to settle it: 1 before the first look, infinity where no number would, 0 for negative controls.

    Baselines and controls are not among them; they go on as long as any cell of their condition does. So do the
    negative controls, which are. It depends on the trials alone, so that a resumed run goes on alike; a last round
    in which a cell has no trial yet is left out. A cell that failed in each of its first two rounds is given up, and
    so is a condition whose baseline did. Where nothing else is compared, the negative controls are asked about.
    """
    result: dict[str, float] = {}
    for condition, going_on, course in _standing(plan, cells, trials, metric):
        if not going_on:
            continue
        result |= dict.fromkeys((cell.id for cell in condition.cells_of(Role.NEGATIVE)), 0.0)
        rows = {cell.id: row for row, cell in enumerate(condition.cells)}
        for cell in going_on:
            needed = _more(condition, course.looks[-1], rows[cell.id]) if course.looks else 1
            result[cell.id] = math.inf if needed is None else float(needed)
    lost = given_up(trials)
    return {cell: needed for cell, needed in result.items() if cell not in lost}


def outlook(plan: Plan, cells: Sequence[Cell], trials: Sequence[TrialRecord], metric: str) -> DecisionProgress:
    """How the run stands, as of these trials."""
    settled = open_cells = 0
    needed: list[int | None] = []
    for condition, going_on, course in _standing(plan, cells, trials, metric):
        open_cells += len(going_on)
        settled += len(condition.question.asked) - len(going_on)
        rows = {cell.id: row for row, cell in enumerate(condition.cells)}
        last = course.looks[-1] if course.looks else None
        needed += [_more(condition, last, rows[cell.id]) for cell in going_on]
    known = [more for more in needed if more is not None]
    return DecisionProgress(settled, open_cells, max(known) if known and len(known) == len(needed) else None)


def rule_of(condition: Condition, look: InterimAnalysis | None, *, for_row: int | None = None) -> VerdictRule:
    """What the estimates of a look are held against. Controls themselves have no noise floor."""
    question = condition.question
    of_control = for_row is not None and question.roles[for_row] is not Role.COMPARED
    found = [] if look is None or of_control else [look.estimate(row) for row in question.controls]
    return VerdictRule(
        question.threshold,
        question.precision,
        tuple(estimate for estimate in found if estimate is not None),
        has_floor=question.has_floor and not of_control,
        most_loads=question.loads,
    )


def course_of(condition: Condition, layout: Layout | None, trials: Sequence[TrialRecord]) -> InterimAnalyses:
    """The looks at a condition's primary number, after each complete round in order; one look for a fixed plan."""
    question = condition.question
    course = begin(question)
    if layout is None:
        return course
    if question.once:
        return InterimAnalyses((single_analysis(layout, question),), course.stopped)
    mine = {cell.id for cell in condition.cells}
    present: dict[int, set[str]] = {}
    for trial in trials:
        if trial.cell in mine:
            present.setdefault(trial.round, set()).add(trial.cell)
    *earlier, last = sorted(present)
    course = analyse_rounds(layout, question, earlier)
    expected = expected_in(condition, course, last) - given_up(trials)
    return after_round(course, layout, question, last) if expected <= present[last] else course


def expected_in(condition: Condition, course: InterimAnalyses, round_number: int) -> set[str]:
    """The cells that are measured in a round, by what was settled before it."""
    asked = condition.question.asked
    settled = (course.stopped > 0) & (course.stopped < round_number)
    if asked and settled[asked].all():
        return set()
    return {cell.id for row, cell in enumerate(condition.cells) if not settled[row]}


def _standing(
    plan: Plan, cells: Sequence[Cell], trials: Sequence[TrialRecord], metric: str
) -> list[tuple[Condition, list[Cell], InterimAnalyses]]:
    """Every condition with its open cells and its looks."""
    used = used_trials(trials)
    values = _primary(used, metric)
    lost = given_up(trials)
    result: list[tuple[Condition, list[Cell], InterimAnalyses]] = []
    for condition in conditions_of(plan, cells, trials):
        course = course_of(condition, layout_of(condition, used, values), trials)
        going_on = [cell for row in course.open(condition.question) if (cell := condition.cells[row]).id not in lost]
        if condition.cells[condition.question.rows(Role.BASELINE)[0]].id in lost:
            going_on = []
        result.append((condition, going_on, course))
    return result


def _more(condition: Condition, last: InterimAnalysis | None, row: int) -> int | None:
    estimate = None if last is None else last.estimate(row)
    return None if estimate is None else rounds_needed(estimate, rule_of(condition, last, for_row=row))


def _primary(used: Mapping[TrialKey, TrialRecord], metric: str) -> dict[TrialKey, float]:
    found = {place: values_of(trial, items=False).get((None, metric)) for place, trial in used.items()}
    return {place: value for place, value in found.items() if value is not None}

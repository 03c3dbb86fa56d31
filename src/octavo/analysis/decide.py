"""Which cells need more trials after a round."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

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
class AnalysedCondition:
    """A condition with its analyses so far."""

    condition: Condition
    history: InterimAnalyses


@dataclass(frozen=True, slots=True)
class DecisionProgress:
    """How many cells are decided or narrow enough, how many are open, and the rounds that the slowest open one will
    probably need; None if more rounds are not enough, or nothing is known yet."""

    settled: int
    open: int
    rounds: int | None


def undecided(plan: Plan, cells: Sequence[Cell], trials: Sequence[TrialRecord], metric: str) -> frozenset[str]:
    """The ids of the cells that need more rounds, as `open_cells`."""
    return frozenset(open_cells(plan, cells, trials, metric))


def open_cells(plan: Plan, cells: Sequence[Cell], trials: Sequence[TrialRecord], metric: str) -> dict[str, float]:
    """The cells that need more rounds, by id, as of these trials of the primary metric, and how many will probably
    decide them: 1 before the first analysis, infinity if no number would, 0 for negative controls.

    Baselines and controls are not included; they are measured as long as any cell of their condition is open, as are
    the negative controls, which are included. It depends on the trials alone, so that a resumed run continues alike; a
    last round in which a cell has no trial yet is ignored. A cell that is given up (`given_up`) is none, and so is
    all of a condition whose baseline is. If nothing else is compared, the negative controls are.
    """
    result: dict[str, float] = {}
    for condition, still_open, history in _histories(plan, cells, trials, metric):
        if not still_open:
            continue
        result |= dict.fromkeys((cell.id for cell in condition.cells_of(Role.NEGATIVE)), 0.0)
        rows = {cell.id: row for row, cell in enumerate(condition.cells)}
        for cell in still_open:
            needed = _more(condition, history.analyses[-1], rows[cell.id]) if history.analyses else 1
            result[cell.id] = math.inf if needed is None else float(needed)
    lost = given_up(trials)
    return {cell: needed for cell, needed in result.items() if cell not in lost}


def decision_progress(
    plan: Plan, cells: Sequence[Cell], trials: Sequence[TrialRecord], metric: str
) -> DecisionProgress:
    """The progress of the decisions, as of these trials."""
    settled = open_cells = 0
    needed: list[int | None] = []
    for condition, still_open, history in _histories(plan, cells, trials, metric):
        open_cells += len(still_open)
        settled += len(condition.question.targets) - len(still_open)
        rows = {cell.id: row for row, cell in enumerate(condition.cells)}
        last = history.analyses[-1] if history.analyses else None
        needed += [_more(condition, last, rows[cell.id]) for cell in still_open]
    known = [more for more in needed if more is not None]
    return DecisionProgress(settled, open_cells, max(known) if known and len(known) == len(needed) else None)


def rule_of(condition: Condition, analysis: InterimAnalysis | None, *, for_row: int | None = None) -> VerdictRule:
    """The rule for the verdicts of an analysis. Controls themselves have no noise floor."""
    question = condition.question
    of_control = for_row is not None and question.roles[for_row] is not Role.COMPARED
    found = [] if analysis is None or of_control else [analysis.estimate(row) for row in question.controls]
    return VerdictRule(
        question.threshold,
        question.precision,
        tuple(estimate for estimate in found if estimate is not None),
        has_floor=question.has_floor and not of_control,
        most_loads=question.loads,
    )


def interim_analyses(condition: Condition, layout: Layout | None, trials: Sequence[TrialRecord]) -> InterimAnalyses:
    """The analyses of a condition's primary metric after each complete round, in order; one for a fixed plan."""
    question = condition.question
    history = begin(question)
    if layout is None:
        return history
    if question.once:
        return InterimAnalyses((single_analysis(layout, question),), history.stopped)
    mine = {cell.id for cell in condition.cells}
    present: dict[int, set[str]] = {}
    for trial in trials:
        if trial.cell in mine:
            present.setdefault(trial.round, set()).add(trial.cell)
    *earlier, last = sorted(present)
    history = analyse_rounds(layout, question, earlier)
    expected = expected_in(condition, history, last) - given_up(trials)
    return after_round(history, layout, question, last) if expected <= present[last] else history


def expected_in(condition: Condition, history: InterimAnalyses, round_number: int) -> set[str]:
    """The cells that are measured in a round, given the decisions before it."""
    targets = condition.question.targets
    settled = (history.stopped > 0) & (history.stopped < round_number)
    if targets and settled[targets].all():
        return set()
    return {cell.id for row, cell in enumerate(condition.cells) if not settled[row]}


def analysed_conditions(
    plan: Plan,
    cells: Sequence[Cell],
    trials: Sequence[TrialRecord],
    used: Mapping[TrialKey, TrialRecord],
    values: Mapping[TrialKey, float],
) -> list[AnalysedCondition]:
    """The analyses of every condition, with the confidence that belongs to their number: the largest number of
    conditions in which something differs at the level that this number gives each of them."""
    of_condition: dict[str, list[TrialRecord]] = {}
    condition_of = {cell.id: cell.condition for cell in cells}
    for trial in trials:
        of_condition.setdefault(condition_of[trial.cell], []).append(trial)
    numbers: dict[str, dict[TrialKey, float]] = {}
    for place, value in values.items():
        numbers.setdefault(condition_of[place[2]], {})[place] = value
    tables = [
        (one, layout_of(one, used, numbers.get(one.name, {})), of_condition.get(one.name, []))
        for one in conditions_of(plan, cells, trials)
    ]

    def analysed(affected: int) -> list[AnalysedCondition]:
        found: list[AnalysedCondition] = []
        for condition, layout, its_trials in tables:
            its = replace(condition, question=replace(condition.question, affected=affected))
            found.append(AnalysedCondition(its, interim_analyses(its, layout, its_trials)))
        return found

    return with_effects_shared(len(tables), analysed)


def with_effects_shared(conditions: int, analysed: Callable[[int], list[AnalysedCondition]]) -> list[AnalysedCondition]:
    """The analyses at the largest number of affected conditions that they confirm (Benjamini and Hochberg's step-up;
    of tests that may be looked at at any time: R. Johari, P. Koomen, L. Pekelis, D. Walsh, Oper. Res. 70, 2022)."""
    affected = max(1, conditions)
    while True:
        found = analysed(affected)
        confirmed = sum(one.history.has_effect(one.condition.question) for one in found)
        if affected == 1 or confirmed >= affected:
            return found
        affected = max(1, confirmed)


def _histories(
    plan: Plan, cells: Sequence[Cell], trials: Sequence[TrialRecord], metric: str
) -> list[tuple[Condition, list[Cell], InterimAnalyses]]:
    """Every condition with its open cells and its analyses."""
    used = used_trials(trials)
    lost = given_up(trials)
    result: list[tuple[Condition, list[Cell], InterimAnalyses]] = []
    for one in analysed_conditions(plan, cells, trials, used, _primary(used, metric)):
        condition, history = one.condition, one.history
        still_open = [cell for row in history.open(condition.question) if (cell := condition.cells[row]).id not in lost]
        if condition.cells[condition.question.rows(Role.BASELINE)[0]].id in lost:
            still_open = []
        result.append((condition, still_open, history))
    return result


def _more(condition: Condition, last: InterimAnalysis | None, row: int) -> int | None:
    estimate = None if last is None else last.estimate(row)
    return None if estimate is None else rounds_needed(estimate, rule_of(condition, last, for_row=row))


def _primary(used: Mapping[TrialKey, TrialRecord], metric: str) -> dict[TrialKey, float]:
    found = {place: values_of(trial, items=False).get((None, metric)) for place, trial in used.items()}
    return {place: value for place, value in found.items() if value is not None}

"""Which cells need more trials after a round."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from octavo.analysis.condition import Condition, conditions_of, layout_of, values_by_condition
from octavo.analysis.interim import (
    InterimAnalyses,
    InterimAnalysis,
    Role,
    after_round,
    begin,
    single_analysis,
)
from octavo.analysis.layout import Layout
from octavo.analysis.trials import TrialKey, given_up, used_trials, values_of_wholes
from octavo.analysis.verdict import VerdictRule, rounds_needed
from octavo.plan.cells import Cell
from octavo.plan.model import Plan
from octavo.store.records import TrialRecord


@dataclass(frozen=True, slots=True)
class AnalysedCondition:
    """A condition with its table, None without any trial of the baseline, and its analyses so far."""

    condition: Condition
    layout: Layout | None
    history: InterimAnalyses

    def after_round(self, number: int) -> "AnalysedCondition":
        """With the analysis after one more round."""
        assert self.layout is not None
        return replace(self, history=after_round(self.history, self.layout, self.condition.question, number))

    def at_level(self, affected: int) -> "AnalysedCondition":
        """With the confidence that each condition has when so many are affected."""
        question = replace(self.condition.question, affected=affected)
        return replace(
            self, condition=replace(self.condition, question=question), history=self.history.at_level(question)
        )


@dataclass(frozen=True, slots=True)
class DecisionProgress:
    """How many cells are decided or narrow enough, how many are open, how many undecided ones are given up or have a
    baseline that is, and the rounds that the slowest open one will probably need; None if more rounds are not enough,
    or nothing is known yet."""

    settled: int
    open: int
    given_up: int
    rounds: int | None


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
    settled = open_cells = targets = 0
    needed: list[int | None] = []
    for condition, still_open, history in _histories(plan, cells, trials, metric):
        open_cells += len(still_open)
        targets += len(condition.question.targets)
        settled += len(condition.question.targets) - len(history.open(condition.question))
        rows = {cell.id: row for row, cell in enumerate(condition.cells)}
        last = history.analyses[-1] if history.analyses else None
        needed += [_more(condition, last, rows[cell.id]) for cell in still_open]
    known = [more for more in needed if more is not None]
    rounds = max(known) if known and len(known) == len(needed) else None
    return DecisionProgress(settled, open_cells, targets - settled - open_cells, rounds)


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
    """The interim analyses of every condition, made in the order in which rounds ended, each at the confidence that
    follows from the number of conditions affected by then."""
    condition_of = {cell.id: cell.condition for cell in cells}
    rounds: dict[str, dict[int, list[TrialRecord]]] = {}
    for trial in trials:
        rounds.setdefault(condition_of[trial.cell], {}).setdefault(trial.round, []).append(trial)
    numbers = values_by_condition(values, cells)
    lost = given_up(trials)
    found: list[AnalysedCondition] = []
    ends: list[tuple[float, int, int]] = []
    for condition in conditions_of(plan, cells, trials):
        layout, question = layout_of(condition, used, numbers.get(condition.name, {})), condition.question
        history = begin(question)
        if layout is not None and question.once:
            history = InterimAnalyses((single_analysis(layout, question),), history.stopped)
        elif layout is not None:
            ended = -math.inf
            for number, of_round in sorted(rounds[condition.name].items()):
                ended = max(ended, *(trial.ended for trial in of_round))
                ends.append((ended, len(found), number))
        found.append(AnalysedCondition(condition, layout, history))
    levels: Levels = [{} for _ in found]
    for _, place, number in sorted(ends):
        one, its_rounds = found[place], rounds[found[place].condition.name]
        present = {trial.cell for trial in its_rounds[number]}
        # An earlier round is as whole as it will be.
        if number < max(its_rounds) or expected_in(one.condition, one.history, number) - lost <= present:
            found[place], levels[place] = one.after_round(number), {}
            found = at_confirmed_level(found, levels)
    return at_confirmed_level(found, levels)


# For each condition what it is at each number of affected conditions, and whether it is affected then. At one level it
# is the same whatever its level was before, so that this is computed once for each of its analyses.
Levels = list[dict[int, tuple[AnalysedCondition, bool]]]


def at_confirmed_level(found: Sequence[AnalysedCondition], levels: Levels) -> list[AnalysedCondition]:
    """The last analyses at the confidence of the largest number of affected conditions that they confirm (the step-up
    procedure of Y. Benjamini, Y. Hochberg, J. Roy. Statist. Soc. B 57, 1995; with tests that are valid at any time: R.
    Johari, P. Koomen, L. Pekelis, D. Walsh, Operations Research 70, 2022). Earlier decisions stay. `levels` keeps what
    was computed, and loses what it has of a condition that is analysed again."""
    affected = max(1, len(found))
    while True:
        for one, known in zip(found, levels, strict=True):
            if affected not in known:
                at = one.at_level(affected)
                known[affected] = at, at.history.has_effect(at.condition.question)
        confirmed = sum(known[affected][1] for known in levels)
        if affected == 1 or confirmed >= affected:
            return [known[affected][0] for known in levels]
        affected = max(1, confirmed)


def _histories(
    plan: Plan, cells: Sequence[Cell], trials: Sequence[TrialRecord], metric: str
) -> list[tuple[Condition, list[Cell], InterimAnalyses]]:
    """Every condition with its open cells and its analyses."""
    used = used_trials(trials)
    lost = given_up(trials)
    result: list[tuple[Condition, list[Cell], InterimAnalyses]] = []
    for one in analysed_conditions(plan, cells, trials, used, values_of_wholes(used, metric)):
        condition, history = one.condition, one.history
        still_open = [cell for row in history.open(condition.question) if (cell := condition.cells[row]).id not in lost]
        if condition.cells[condition.question.rows(Role.BASELINE)[0]].id in lost:
            still_open = []
        result.append((condition, still_open, history))
    return result


def _more(condition: Condition, last: InterimAnalysis | None, row: int) -> int | None:
    estimate = None if last is None else last.estimate(row)
    return None if estimate is None else rounds_needed(estimate, rule_of(condition, last, for_row=row))

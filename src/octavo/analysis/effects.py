"""Effects of every metric and cell against the baseline, as of the analysis that decided the cell."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from octavo.analysis.condition import Condition, layout_of, values_by_condition
from octavo.analysis.contrasts import contrasts
from octavo.analysis.decide import analysed_conditions, expected_in, rule_of
from octavo.analysis.interim import InterimAnalyses, InterimAnalysis, Role, analyse, single_analysis
from octavo.analysis.interval import WIDEST, Estimate
from octavo.analysis.layout import Layout
from octavo.analysis.trials import Key, TrialKey, given_up
from octavo.analysis.variance_components import FEWEST_BETWEEN_LOADS
from octavo.analysis.verdict import noise_floor, verdict
from octavo.observation import verdict_terms
from octavo.plan.cells import Cell
from octavo.plan.model import Plan
from octavo.store.records import TrialRecord

Rows = list[dict[str, Any]]

# Before the first interim analysis an interval is shown as if it were that one's, and decides nothing.
BEFORE_THE_FIRST = "undecided (needs more rounds for a first analysis)"


@dataclass(frozen=True, slots=True)
class Effects:
    """The document's effects, noise floors and model, as rows of plain values."""

    effects: Rows
    noise_floor: Rows
    model: Rows
    rounds_finished: int


def effects_of(
    plan: Plan,
    cells: Sequence[Cell],
    trials: Sequence[TrialRecord],
    used: Mapping[TrialKey, TrialRecord],
    values: Mapping[Key, Mapping[TrialKey, float]],
    metrics: Mapping[str, Mapping[str, Any]],
) -> Effects:
    """The effects of all cells but the baselines. The first of `metrics` is the primary one; the others are taken
    at the analysis that decided the cell."""
    effects: Rows = []
    floors: Rows = []
    model: Rows = []
    primary: Key = (None, next(iter(metrics)))
    order = {name: place for place, name in enumerate(metrics)}
    keys = sorted(values, key=lambda key: (key != primary, order.get(key[1], len(order)), key[0] or ""))
    seen = {(trial.round, trial.cell) for trial in trials if trial.status != "skipped"}
    last_round = max((number for number, _ in seen), default=0)
    awaited: set[str] = set()
    parts = {key: values_by_condition(of_key, cells) for key, of_key in values.items()}
    for analysed in analysed_conditions(plan, cells, trials, used, values.get(primary, {})):
        condition, history = analysed.condition, analysed.history
        expected = expected_in(condition, history, last_round)
        # A condition without any trial in it sat the round out: the budget went to others.
        if any((last_round, cell.id) in seen for cell in condition.cells):
            awaited |= expected
        for key in keys:
            layout = layout_of(condition, used, parts[key].get(condition.name, {}))
            if layout is None:
                continue
            deciding = _deciding_analyses(condition, layout, history, is_primary=key == primary)
            if not deciding:  # a baseline alone
                continue
            words = verdict_terms(metrics.get(key[1], {}))
            # A control beside which nothing is compared decides nothing, and waits for no analysis.
            early = bool(condition.question.targets) and not (condition.question.once or history.analyses)
            effects.extend(
                _effect(condition, row, key, at, estimate, words, early=early)
                for row, at in deciding.items()
                if (estimate := at.estimate(row)) is not None
            )
            last = max(deciding.values(), key=lambda at: at.round)
            floors.extend(_noise_floor(condition, key, last))
            if key == primary:
                model.append(_model(condition, key, last, history))
    place = {cell.id: number for number, cell in enumerate(cells)}
    effects.sort(key=lambda row: place[row["cell"]])
    whole = awaited - given_up(trials) <= {cell for number, cell in seen if number == last_round}
    rounds = len({number for number, _ in seen})
    return Effects(effects, floors, model, rounds if whole or not rounds else rounds - 1)


def _deciding_analyses(
    condition: Condition, layout: Layout, history: InterimAnalyses, *, is_primary: bool
) -> dict[int, InterimAnalysis]:
    """For every row but the baseline the analysis that decided it, else the last one."""
    question = condition.question
    rows = [row for row, role in enumerate(question.roles) if role is not Role.BASELINE]
    if question.once or not history.analyses:
        only = single_analysis(layout, question)
        return dict.fromkeys(rows, only)
    at = {one.round: one for one in history.analyses}
    last = history.analyses[-1].round
    rounds = {row: int(history.stopped[row]) or last for row in rows}
    if not is_primary:
        at = {
            number: analyse(
                contrasts(layout.until(history.limits(number))), question, number, at[number].first, at[number].number
            )
            for number in set(rounds.values())
            if int(layout.rounds[0]) <= number
        }
    return {row: at[number] for row, number in rounds.items() if number in at}


def _effect(
    condition: Condition,
    row: int,
    key: Key,
    at: InterimAnalysis,
    estimate: Estimate,
    words: tuple[str, str],
    *,
    early: bool,
) -> dict[str, Any]:
    """The row of an effect. `early`: there was no interim analysis yet, so that nothing is decided."""
    rule = rule_of(condition, at, for_row=row)
    word = verdict(estimate, rule, words)
    return {
        "cell": condition.cells[row].id,
        "condition": condition.name,
        "metric": key[1],
        "item": key[0],
        "ratio": estimate.ratio,
        "low": estimate.low,
        "high": estimate.high,
        "verdict": BEFORE_THE_FIRST if early and not word.startswith("undecided (needs") else word,
        "conditional": estimate.conditional,
        "loads": estimate.loads,
        "rounds": estimate.rounds,
        "degrees_of_freedom": estimate.degrees_of_freedom,
        "look": 0 if early else at.number,
        "negative_control": condition.question.roles[row] is Role.NEGATIVE,
        "alarm": at.is_alarm(condition.question, row),
        "own_scatter": estimate.own,
        "noise_floor": _fraction(rule.floor) if rule.has_floor else None,
        # Of a fleet: on how many hosts, how much the ratio differs between them, and whether it speaks of others.
        "hosts": estimate.hosts,
        "host_deviation_percent": _percent(estimate.of_hosts),
        "hosts_in_general": estimate.hosts_in_general,
    }


def _noise_floor(condition: Condition, key: Key, last: InterimAnalysis) -> Rows:
    """The control whose interval reaches farthest, before any without an interval; no row where nothing was seen of
    any."""
    found = [(row, estimate) for row in condition.question.controls if (estimate := last.estimate(row)) is not None]
    if not found:
        return []
    row, widest = max(
        found, key=lambda pair: (pair[1].half_width is not None, noise_floor((pair[1],)) or abs(pair[1].log_ratio))
    )
    return [
        {
            "condition": condition.name,
            "metric": key[1],
            "item": key[0],
            "cell": condition.cells[row].id,
            "ratio": widest.ratio,
            "low": widest.low,
            "high": widest.high,
            "floor": _fraction(noise_floor(tuple(estimate for _, estimate in found))),
        }
    ]


def _model(condition: Condition, key: Key, last: InterimAnalysis, history: InterimAnalyses) -> dict[str, Any]:
    """What the intervals of a condition rest on; deviations of a single trial, in percent."""
    question, parts = condition.question, last.contrasts.components
    compared = question.rows(Role.COMPARED)
    known = [float(value) for value in last.critical[compared] if math.isfinite(value)]
    together = parts.load_square if parts.residual_square is None else None
    return {
        "condition": condition.name,
        "metric": key[1],
        "item": key[0],
        "load_deviation_percent": _percent(parts.load_variance),
        "load_degrees_of_freedom": parts.load_freedom,
        "residual_deviation_percent": _percent(parts.residual_square),
        "residual_degrees_of_freedom": parts.residual_freedom,
        # Each load of a dataset gave one trial: the two cannot be told apart, and need not be.
        "together_deviation_percent": _percent(together),
        # The same by level, where each level of a factor has a pool of its own; else null.
        "by_group": _by_group(condition, last),
        "loads_in_general": parts.general,
        "fewest_between_loads": FEWEST_BETWEEN_LOADS,
        "loads": int(last.contrasts.loads.max()),
        "rounds": int(last.contrasts.rounds.max()),
        "hosts": 1 if last.contrasts.hosts is None else int(last.contrasts.hosts.max()),
        "hosts_in_general": last.contrasts.hosts_in_general is not None
        and bool(last.contrasts.hosts_in_general[compared].all()),
        # A single analysis, at the end, is no interim one.
        "looks": 0 if question.once else len(history.analyses),
        "first_look": history.analyses[0].first if history.analyses and not question.once else None,
        "comparisons": len(compared),
        "confidence": question.confidence,
        "critical_value": max(known, default=None),
        "method": "Dunnett, one analysis at the end"
        if question.once
        else "Dunnett, repeated at every interim analysis (Lan-DeMets)",
    }


def _by_group(condition: Condition, last: InterimAnalysis) -> Rows | None:
    if last.contrasts.by_group is None or condition.groups is None:
        return None
    squares, freedom = last.contrasts.by_group
    found = {level: row for row, level in enumerate(condition.groups)}
    return [
        {
            "level": level,
            "deviation_percent": _percent(float(squares[row])),
            "degrees_of_freedom": round(float(freedom[row]), 1),
        }
        for level, row in found.items()
    ]


def _percent(variance: float | None) -> float | None:
    return None if variance is None else 100 * math.expm1(math.sqrt(variance))


def _fraction(log: float | None) -> float | None:
    return math.expm1(log) if log is not None and log <= WIDEST else None

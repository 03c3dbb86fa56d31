"""Runs side by side: cells that they have in common, their values and their effects, with intervals on the differences.

The first run is the reference. Per cell, metric and item there are two questions: does the value differ (`value`: the
machine, version or setting as a whole), and does the effect against the run's own baseline (`effect`)?
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from octavo.analysis.cell_means import CellMeans, cell_means
from octavo.analysis.condition import Condition, conditions_of, layout_of, values_by_condition
from octavo.analysis.contrasts import contrasts
from octavo.analysis.interim import Role, single_analysis
from octavo.analysis.interval import CONFIDENCE, WIDEST
from octavo.analysis.trials import CUT_OFF, SECONDS, Key, TrialKey, used_trials, values_by_key
from octavo.analysis.verdict import judge
from octavo.errors import UsageError
from octavo.observation import verdict_terms
from octavo.plan.cells import Cell, condition_label, short_label
from octavo.plan.model import Plan
from octavo.store.records import RunRecord, TrialRecord
from octavo.units import parse_duration

Kind = Literal["value", "effect"]
Rows = list[dict[str, Any]]
# An effect is how much a run gains by it.
_OF_EFFECTS = {"faster": "gains more", "better": "gains more", "slower": "gains less", "worse": "gains less"}


@dataclass(frozen=True)
class StoredRun:
    """A run as the store has it."""

    record: RunRecord
    plan: Plan
    cells: Sequence[Cell]
    trials: Sequence[TrialRecord]


@dataclass(frozen=True, slots=True)
class _Number:
    """On the log scale; the variance is NaN where it is not known. `floor` is the run's noise floor: 0 where the plan
    has no controls, infinite where those that it has gave none."""

    centre: float
    variance: float
    freedom: float
    floor: float
    conditional: bool


# A cell as both runs know it: its levels of the factors that tell cells apart.
Name = tuple[tuple[str, str], ...]
_Numbers = dict[tuple[Kind, Key, Name], _Number]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows of plain values; `shared` are the cells that the comparison could use, `only` by run those it could not;
    `lost` by run the shared cells whose trials there are all invalid or failed, and in the other run are not."""

    comparisons: Rows
    shared: list[dict[str, Any]]
    only: dict[str, list[str]]
    lost: dict[str, list[str]]


def compare(
    reference: StoredRun, other: StoredRun, metric: str, comparisons: int, telling: Sequence[str]
) -> Comparison:
    """The other run against the reference. `telling` are the factors that name cells, `comparisons` how many
    intervals are to hold at once: those of values of the primary metric over all runs."""
    mine, theirs = _names(reference, telling), _names(other, telling)
    first, second = _numbers(reference, mine), _numbers(other, theirs)
    confidence = CONFIDENCE ** (1 / max(comparisons, 1))
    threshold = max(reference.plan.threshold_fraction, other.plan.threshold_fraction)
    words = {name: in_words(name, reference.plan.baseline) for name in mine}
    unlike = unlike_units(reference, other)
    rows: Rows = []
    for kind, key, name in first:
        if (theirs_here := second.get((kind, key, name))) is not None and key[1] not in unlike:
            change = verdict_terms(reference.record.metrics.get(key[1], {}))
            by_name = {"kind": kind, "reference": reference.record.id, "run": other.record.id,
                    "condition": words[name][0], "cell": words[name][1], "metric": key[1], "item": key[0]}  # fmt: skip
            rows.append(by_name | _difference(first[kind, key, name], theirs_here, kind, confidence, threshold, change))
    (tried, valid), (tried_there, valid_there) = _measured(reference, mine), _measured(other, theirs)
    rows.sort(key=lambda row: (row["item"] is not None, row["metric"] != metric, row["kind"] != "value"))
    return Comparison(
        rows,
        [
            {"condition": words[name][0], "cell": words[name][1], "levels": dict(name)}
            for name in mine
            if name in theirs
        ],
        {
            run.record.id: [_spelled(name) for name in names if name not in others]
            for run, names, others in ((reference, mine, theirs), (other, theirs, mine))
        },
        {
            reference.record.id: [_spelled(name) for name in mine if name in valid_there and name in tried - valid],
            other.record.id: [_spelled(name) for name in theirs if name in valid and name in tried_there - valid_there],
        },
    )


def _spelled(name: Name) -> str:
    return " ".join(level for _, level in name)


def _measured(run: StoredRun, names: Mapping[Name, Cell]) -> tuple[set[Name], set[Name]]:
    """The cells that were tried, and those of them that have a valid trial."""
    tried = {trial.cell for trial in run.trials if trial.status != "skipped"}
    valid = {trial.cell for trial in used_trials(run.trials).values()}
    return (
        {name for name, cell in names.items() if cell.id in tried},
        {name for name, cell in names.items() if cell.id in valid},
    )


def newly_cancelled(reference: StoredRun, other: StoredRun, telling: Sequence[str]) -> Rows:
    """Items of shared cells of which a run was cancelled at the time limit in the other run, and none in the reference,
    which has times of them. `limit`: seconds, None where the plan has none; `longest`: the reference's longest run;
    `cancelled` of the other run's `trials` of the cell."""
    mine, theirs = _names(reference, telling), _names(other, telling)
    first, second = _by_cell(reference), _by_cell(other)
    rows: Rows = []
    for name, cell in mine.items():
        before, now = first.get(cell.id, []), second.get(theirs[name].id, []) if name in theirs else []
        known, times = _cancelled(before), _longest(before)
        condition, label = in_words(name, reference.plan.baseline)
        rows += [
            {"reference": reference.record.id, "run": other.record.id, "condition": condition, "cell": label,
             "item": item, "limit": _limit(theirs[name]), "longest": times[item], "cancelled": count,
             "trials": len(now)}
            for item, count in _cancelled(now).items()
            if item in times and item not in known
        ]  # fmt: skip
    return rows


def _by_cell(run: StoredRun) -> dict[str, list[TrialRecord]]:
    """The trials that count, by cell."""
    found: dict[str, list[TrialRecord]] = {}
    for trial in used_trials(run.trials).values():
        found.setdefault(trial.cell, []).append(trial)
    return found


def _cancelled(trials: Sequence[TrialRecord]) -> Counter[str | None]:
    """In how many of the trials a run of each item was cancelled."""
    return Counter(
        item
        for trial in trials
        for item in dict.fromkeys(one.item for one in trial.observations if one.metric == CUT_OFF and one.value > 0)
    )


def _longest(trials: Sequence[TrialRecord]) -> dict[str | None, float]:
    """The longest run of each item in seconds."""
    found: dict[str | None, float] = {}
    for one in (one for trial in trials for one in trial.observations if one.metric == SECONDS):
        found[one.item] = max(one.value, found.get(one.item, 0.0))
    return found


def _limit(cell: Cell) -> float | None:
    """The time limit of the cell's queries in seconds."""
    try:
        return parse_duration(cell.levels.get("query_timeout", "none"))
    except UsageError:
        return None


def distinguishing_factors(runs: Sequence[StoredRun]) -> list[str]:
    """The factors that tell cells apart: those with several levels within any run, and that every run has."""
    found = dict.fromkeys(name for run in runs for cell in run.cells for name in cell.levels)
    varying = [name for name in found if any(len({cell.levels.get(name) for cell in run.cells}) > 1 for run in runs)]
    return [name for name in varying if all(name in cell.levels for run in runs for cell in run.cells)]


def unlike_units(reference: StoredRun, other: StoredRun) -> set[str]:
    """The metrics that two runs have in different units, so that their values cannot be compared."""
    mine, theirs = ({name: its.get("unit") for name, its in run.record.metrics.items()} for run in (reference, other))
    return {name for name, unit in mine.items() if unit and theirs.get(name) and unit != theirs[name]}


def shared_names(reference: StoredRun, other: StoredRun, telling: Sequence[str]) -> int:
    """How many cells two runs have in common, controls left out."""
    return len(_names(reference, telling).keys() & _names(other, telling).keys())


def in_words(name: Name, baseline: Mapping[str, str]) -> tuple[str, str]:
    """The condition, and the cell in it: levels of what the baseline names.

    >>> in_words((("data_block", "4kB"), ("mode", "read-only"), ("clients", "8")), {"data_block": "8kB"})
    ('read-only, clients 8', '4kB')
    """

    condition = ", ".join(condition_label(*pair) for pair in name if pair[0] not in baseline)
    return condition, "/".join(short_label(*pair) for pair in name if pair[0] in baseline) or "all trials"


def _names(run: StoredRun, telling: Sequence[str]) -> dict[Name, Cell]:
    """The run's cells but its controls, by what names them in any run; without those that no name tells apart."""
    found: dict[Name, list[Cell]] = {}
    for cell in run.cells:
        if not cell.control:
            found.setdefault(tuple((factor, cell.levels[factor]) for factor in telling), []).append(cell)
    return {name: cells[0] for name, cells in found.items() if len(cells) == 1}


def _numbers(run: StoredRun, names: Mapping[Name, Cell]) -> _Numbers:
    used = used_trials(run.trials)
    values = {key: values_by_condition(of_key, run.cells) for key, of_key in values_by_key(used).items()}
    by_cell = {cell.id: name for name, cell in names.items()}
    found: _Numbers = {}
    for condition in conditions_of(run.plan, run.cells, run.trials):
        for key, parts in values.items():
            found |= _of_condition(condition, used, key, parts.get(condition.name, {}), by_cell)
    return found


def _of_condition(
    condition: Condition,
    used: Mapping[TrialKey, TrialRecord],
    key: Key,
    values: Mapping[TrialKey, float],
    names: Mapping[str, Name],
) -> _Numbers:
    layout = layout_of(condition, used, values)
    if layout is None:
        return {}
    question = condition.question
    ratios = contrasts(layout)
    floor = single_analysis(layout, question).floor(question)
    stands: CellMeans = cell_means(layout)
    found: _Numbers = {}
    for row, cell in enumerate(condition.cells):
        if (name := names.get(cell.id)) is None:
            continue
        if np.isfinite(stands.centre[row]):
            found["value", key, name] = _Number(
                float(stands.centre[row]),
                float(stands.variance[row]),
                float(stands.freedom[row]),
                floor,
                bool(stands.conditional[row]),
            )
        if question.roles[row] is not Role.BASELINE and np.isfinite(ratios.centre[row]):
            found["effect", key, name] = _Number(
                float(ratios.centre[row]),
                float(ratios.variance[row]),
                float(ratios.freedom[row]),
                floor,
                bool(ratios.conditional[row]),
            )
    return found


def _difference(
    first: _Number, second: _Number, kind: Kind, confidence: float, threshold: float, words: tuple[str, str]
) -> dict[str, Any]:
    """Second over first: B. L. Welch's interval on the log scale (Biometrika 34, 1947), and what it decides."""
    from scipy.special import stdtrit

    centre = second.centre - first.centre
    variance = first.variance + second.variance
    half = freedom = None
    if math.isfinite(variance):
        parts = first.variance**2 / first.freedom + second.variance**2 / second.freedom
        freedom = max(1, math.floor(variance**2 / parts + 1e-9)) if parts > 0 else 1
        half = float(stdtrit(freedom, (1 + confidence) / 2)) * math.sqrt(variance)
        half = half if half <= WIDEST else None
    floor = max(first.floor, second.floor)
    return {
        "from": math.exp(first.centre),
        "to": math.exp(second.centre),
        "ratio": math.exp(centre),
        "low": None if half is None else math.exp(centre - half),
        "high": None if half is None else math.exp(centre + half),
        "degrees_of_freedom": freedom,
        "noise_floor": math.expm1(min(floor, WIDEST)) if math.isfinite(floor) else None,
        "conditional": first.conditional or second.conditional,
        "verdict": _word(centre, half, floor, threshold, words, kind),
    }


def _word(centre: float, half: float | None, floor: float, threshold: float, words: tuple[str, str], kind: Kind) -> str:
    if half is None:
        return "undecided (no interval)"
    if math.isinf(floor):
        return "undecided (no noise floor: no valid control)"
    judged = judge(np.asarray(centre), np.asarray(half), floor, threshold, 0.0)
    if judged.same:
        return f"same within {threshold * 100:g} %"
    if not judged.different:
        return "undecided"
    word = words[0] if centre > 0 else words[1]
    return word if kind == "value" else _OF_EFFECTS.get(word, word)

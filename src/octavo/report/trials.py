"""Single trials as points: value, ratio to the baseline trial of the round, order in the run.

Only what the charts show; the estimates and intervals come from the document. If a run has more trials than a chart can
show, the trials of every n-th round are taken: whole rounds, so that all cells are represented equally.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from octavo.plan.parts import host_of_part
from octavo.report.document import Document, Row
from octavo.report.memo import once

Values = Mapping[str | None, float]

# More marks than this hide each other, and make a page of megabytes.
MOST = 1_200


@dataclass(frozen=True)
class TrialPoint:
    """One trial in a chart; `value` is a ratio or in the unit of the primary metric."""

    trial: int
    cell: str
    condition: str
    round: int
    host: int
    load: str
    order: int
    used: bool
    value: float


def geometric_mean(values: Iterable[float]) -> float | None:
    """Geometric mean of the positive finite values, None without any.

    >>> geometric_mean([2.0, 8.0]), geometric_mean([])
    (4.0, None)
    """
    logs = [math.log(value) for value in values if math.isfinite(value) and value > 0]
    return math.exp(sum(logs) / len(logs)) if logs else None


def values(trial: Row, metric: str, *, whole: bool) -> Values:
    """A trial's value of a metric by item: the mean of its repetitions, as in the estimates.

    `whole`: the run's trials have a value of the whole, which alone counts. A trial without it has none: those of its
    items are a selection when others were cancelled. Load steps are never averaged with queries.
    """
    seen: dict[str | None, list[float]] = {}
    for row in trial["observations"]:
        if row["metric"] == metric and row["value"] is not None and math.isfinite(row["value"]):
            seen.setdefault(row["item"], []).append(row["value"])
    if whole:
        seen = {None: seen[None]} if None in seen else {}
    elif any(not str(item).startswith("load.") for item in seen):
        seen = {item: found for item, found in seen.items() if not str(item).startswith("load.")}
    means = {item: math.fsum(found) / len(found) for item, found in seen.items()}
    return {item: mean for item, mean in means.items() if mean > 0}


@once
def _has_whole(document: Document, metric: str) -> bool:
    """Whether any trial has a value of the whole."""
    return any(
        row["metric"] == metric and row["item"] is None and row["value"] is not None
        for trial in document["trials"]
        for row in trial["observations"]
    )


@once
def ordered(document: Document) -> list[tuple[int, Row]]:
    """Trials in the order in which they ran, numbered from 1."""

    def when(trial: Row) -> tuple[int, int, int]:
        return trial["round"], trial.get("position") or 0, trial.get("attempt") or 1

    rows: list[Row] = list(document["trials"])
    if all(trial.get("started") for trial in rows):
        rows.sort(key=lambda trial: (str(trial["started"]), *when(trial)))
    else:
        rows.sort(key=when)
    return list(enumerate(rows, 1))


def step(document: Document) -> int:
    """Of every how many rounds the charts show one: 1, unless there are more than MOST trials."""
    rounds = {trial["round"] for trial in document["trials"]}
    return max(1, min(len(rounds), math.ceil(len(document["trials"]) / MOST)))


@once
def shown(document: Document) -> list[tuple[int, Row]]:
    """The trials that the charts show, each with its number in the order of the whole run."""
    rounds = set(sorted({trial["round"] for trial in document["trials"]})[:: step(document)])
    return [(order, trial) for order, trial in ordered(document) if trial["round"] in rounds]


@once
def _conditions(document: Document) -> dict[str, str]:
    return {cell["id"]: str(cell["condition"]) for cell in document["cells"]}


def _point(condition: str, order: int, trial: Row, value: float) -> TrialPoint:
    load = f"load {trial['load']}" if trial.get("load") is not None else "no load"
    host = host_of_part(trial.get("part") or 1)
    return TrialPoint(
        trial["id"], trial["cell"], condition, trial["round"], host, load, order, bool(trial["used"]), value
    )


@once
def measured_points(document: Document) -> list[TrialPoint]:
    """The trials that have the primary metric (used or not) in the metric's unit, in the order of the run."""
    metric = document["run"]["primary_metric"]
    whole = _has_whole(document, metric)
    conditions = _conditions(document)
    found: list[TrialPoint] = []
    for order, trial in shown(document):
        value = geometric_mean(values(trial, metric, whole=whole).values())
        if value is not None:
            found.append(_point(conditions.get(trial["cell"], ""), order, trial, value))
    return found


@once
def ratio_points(document: Document) -> list[TrialPoint]:
    """Used trials divided by the used baseline trial of their condition, in the same part of the same round.

    Where there is a baseline trial of the same load, it is that one.
    """
    metric = document["run"]["primary_metric"]
    whole = _has_whole(document, metric)
    cells = {cell["id"]: cell for cell in document["cells"]}
    used = [(order, trial) for order, trial in shown(document) if trial["used"] and trial["cell"] in cells]
    bases: dict[tuple[str, int, int], list[Row]] = {}
    for _, trial in used:
        if cells[trial["cell"]]["baseline"]:
            bases.setdefault(_place(cells, trial), []).append(trial)
    found: list[TrialPoint] = []
    for order, trial in used:
        cell = cells[trial["cell"]]
        candidates = bases.get(_place(cells, trial), [])
        same_load = [base for base in candidates if base.get("load") == trial.get("load")]
        if cell["baseline"] or not candidates:
            continue
        above = values(trial, metric, whole=whole)
        ratios: list[float] = []
        for base in same_load or candidates:
            below = values(base, metric, whole=whole)
            ratios += [above[item] / below[item] for item in above if item in below]
        ratio = geometric_mean(ratios)
        if ratio is not None:
            found.append(_point(str(cell["condition"]), order, trial, ratio))
    return found


def _place(cells: Mapping[str, Row], trial: Row) -> tuple[str, int, int]:
    """Within what ratios are taken: condition, round, and the part of a round that did not fit the disk at once."""
    return cells[trial["cell"]]["condition"], trial["round"], trial.get("part") or 1


def drift_points(document: Document) -> list[TrialPoint]:
    """Used trials divided by the geometric mean of their cell's trials here, on the same host: drift and noise are
    left."""
    points = [point for point in measured_points(document) if point.used]
    by_cell: dict[tuple[str, int], list[float]] = {}
    for point in points:
        by_cell.setdefault((point.cell, point.host), []).append(point.value)
    means = {place: geometric_mean(values) for place, values in by_cell.items() if len(values) > 1}
    return [replace(one, value=one.value / mean) for one in points if (mean := means.get((one.cell, one.host)))]

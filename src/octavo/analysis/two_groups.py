"""Numbers that fall into two groups, such as a load step that sometimes takes many times as long.

A mean of two groups is a value that never occurs, and more trials do not narrow its interval.
"""

import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from octavo.analysis.plan_identity import together
from octavo.analysis.trials import TIMES, TrialKey, cut_off
from octavo.plan.cells import Cell
from octavo.plan.parts import host_of_part
from octavo.store.records import TrialRecord

# Fewer numbers than these are never said to be two groups, nor is a group that has less than a tenth of them.
FEWEST = 12
SMALLEST_SHARE = 0.1
LEVEL = 0.01
# Samples of normal numbers, or a multiple of these where so many could not show a chance small enough.
_SIMULATED = 20_000
# Normal numbers at once: 32 MB in each of a few arrays.
_MOST_AT_ONCE = 4_000_000
# What of a trial's facts may go with a group.
_FACTS = ("wal_segment",)

Floats = NDArray[np.float64]


def two_groups(
    cells: Sequence[Cell], used: Mapping[TrialKey, TrialRecord], metric: str, by: str, threshold: float
) -> list[dict[str, Any]]:
    """The items and conditions whose values fall into two groups at one level of the factor `by`, over all cells.

    The values' logarithms are cut in two where the groups' own sums of squares are smallest (W. D. Fisher, On grouping
    for maximum homogeneity, J. Amer. Statist. Assoc. 53, 1958), and the share of the variance between the groups is
    compared with 20,000 or more samples of as many normal numbers: it must have a chance below 1 % over everything
    tested in a condition together (Bonferroni), and groups must be further apart than `threshold`. A row names the
    factor, the host, or the trials' fact, that has other levels in one group than in the other, where there is one.
    Times of a cell's item of which a run was cancelled are left out, because those that are left are of the faster
    group only.
    """
    cancelled = cut_off(used) if metric in TIMES else set[tuple[str, str | None]]()
    by_id = {cell.id: cell for cell in cells}
    values: dict[tuple[str, str, str], list[tuple[float, dict[str, str]]]] = {}
    for trial in used.values():
        cell = by_id[trial.cell]
        about = {**cell.levels, **{name: str(its) for name, its in (trial.facts or {}).items() if name in _FACTS}}
        about["host"] = str(host_of_part(trial.part))  # the same everywhere but in a fleet
        first = min((one.repetition for one in trial.observations), default=1)
        for one in trial.observations:
            # One number for each trial, so that runs of one load do not pass for many.
            if one.metric != metric or one.item is None or (trial.cell, one.item) in cancelled:
                continue
            if one.value > 0 and one.repetition == first:
                plan = {"plan": together(its)} if (its := (trial.facts or {}).get("plans", {}).get(one.item)) else {}
                group = values.setdefault((cell.condition, one.item, cell.levels.get(by, "")), [])
                group.append((one.value, about | plan))
    looked = {key: found for key, found in values.items() if len(found) >= FEWEST}
    comparisons = Counter(condition for condition, *_ in looked)
    rows: list[dict[str, Any]] = []
    for (condition, item, level), found in looked.items():
        found.sort(key=lambda pair: pair[0])
        logs = np.log([value for value, _ in found])
        at, share = _cut(logs)
        apart = float(logs[at:].mean() - logs[:at].mean())
        chance = _chance(len(logs), share, comparisons[condition])
        if chance * comparisons[condition] >= LEVEL or apart <= math.log1p(threshold):
            continue
        low, high = found[:at], found[at:]
        rows.append(
            {
                "condition": condition,
                "item": item,
                "metric": metric,
                "factor": by,
                "level": level,
                "low": _group(low),
                "high": _group(high),
                "ratio": math.exp(apart),
                "chance": chance,
                "goes_with": _goes_with(low, high),
            }
        )
    return sorted(rows, key=lambda row: -row["ratio"])


def _cut(logs: Floats) -> tuple[int, float]:
    """Where sorted numbers are best cut, and the share of their variance that is then between the groups."""
    least = max(2, math.ceil(SMALLEST_SHARE * len(logs)))
    share = _between(logs[None, :])[0, least - 1 : len(logs) - least]
    place = int(np.argmax(share))
    return least + place, float(share[place])


def _between(logs: Floats) -> Floats:
    """For rows of sorted numbers: the share of the variance between the groups of a cut after each number."""
    centred = logs - logs.mean(axis=1, keepdims=True)
    count = logs.shape[1]
    sizes: Floats = np.arange(1, count, dtype=np.float64)
    sums = np.cumsum(centred, axis=1)[:, :-1]
    total = np.maximum((centred**2).sum(axis=1, keepdims=True), 1e-300)
    shares: Floats = sums**2 * (1 / sizes + 1 / (count - sizes)) / total
    return shares


def _chance(count: int, share: float, comparisons: int) -> float:
    """How often as many normal numbers show a share as large or larger; not below one in the number simulated, which is
    small enough for so many comparisons."""
    simulated = _shares_of_normal(count, math.ceil(comparisons / LEVEL / _SIMULATED))
    return float((1 + (simulated >= share).sum()) / (1 + len(simulated)))


@functools.cache
def _shares_of_normal(count: int, times: int) -> Floats:
    source = np.random.default_rng(count)
    least = max(2, math.ceil(SMALLEST_SHARE * count))
    at_once = min(_SIMULATED, max(1, _MOST_AT_ONCE // count))
    found: list[Floats] = []
    for _ in range(math.ceil(times * _SIMULATED / at_once)):
        samples = np.sort(source.standard_normal((at_once, count)), axis=1)
        found.append(_between(samples)[:, least - 1 : count - least].max(axis=1))
    return np.concatenate(found)


def _group(found: Sequence[tuple[float, Mapping[str, str]]]) -> dict[str, Any]:
    return {"trials": len(found), "from": found[0][0], "to": found[-1][0]}


def _goes_with(
    low: Sequence[tuple[float, Mapping[str, str]]], high: Sequence[tuple[float, Mapping[str, str]]]
) -> dict[str, Any] | None:
    """The factor whose levels are wholly in one group or the other."""
    for name in low[0][1]:
        levels = [list(dict.fromkeys(about[name] for _, about in group if name in about)) for group in (low, high)]
        if all(levels) and not set(levels[0]) & set(levels[1]):
            return {"factor": name, "low": levels[0], "high": levels[1]}
    return None

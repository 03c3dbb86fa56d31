"""Spending a budget: how long trials take, and which conditions get the rest of the budget.

A budget that cannot decide every cell is spent on the conditions that it can decide, most cells per hour first. The
unit is the condition, because its cells share a baseline and a control. The other conditions wait: their interim
analyses follow their own rounds, so their intervals remain valid when they continue. When nothing more can be decided,
all conditions continue.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from octavo.plan.cells import Cell
from octavo.store.records import TrialRecord

# For each open cell, by id, the number of rounds likely to settle it. 0: it continues as long as the others do.
# Infinity: no number of rounds would settle it.
Forecast = Mapping[str, float]


def seconds_measured(trials: Sequence[TrialRecord]) -> float:
    """The total duration of the trials in seconds; the time of concurrent trials counts once."""
    total, end = 0.0, -math.inf
    for started, ended in sorted((trial.started, trial.ended) for trial in trials):
        total += max(0.0, ended - max(started, end))
        end = max(end, ended)
    return total


def seconds_of(cells: Sequence[Cell], trials: Sequence[TrialRecord]) -> dict[str, float]:
    """The duration of a trial of each cell in a round, in seconds, from measured ones; the overall mean for a cell
    without any.

    Concurrent trials share their time.
    """
    measured = [trial for trial in trials if trial.status != "skipped"]
    by_round: dict[int, list[TrialRecord]] = {}
    for trial in measured:
        by_round.setdefault(trial.round, []).append(trial)
    found: dict[str, list[float]] = {}
    for mine in by_round.values():
        spans = sum(trial.ended - trial.started for trial in mine)
        share = seconds_measured(mine) / spans if spans > 0 else 1.0
        for trial in mine:
            found.setdefault(trial.cell, []).append((trial.ended - trial.started) * share)
    every = [seconds for of_cell in found.values() for seconds in of_cell]
    mean = fmean(every) if every else 0.0
    return {cell.id: fmean(found[cell.id]) if cell.id in found else mean for cell in cells}


def within_budget(
    going_on: Sequence[Cell], forecast: Forecast, seconds: Mapping[str, float], seconds_left: float
) -> list[Cell]:
    """The cells to measure in the next round: all of them if the rest of the budget is likely to settle all, or none;
    otherwise those of the conditions in which it is likely to settle some cells, most cells per hour first."""
    rounds: dict[str, list[float]] = {}
    costs: dict[str, float] = {}
    for cell in going_on:
        costs[cell.condition] = costs.get(cell.condition, 0.0) + seconds[cell.id]
        if needed := forecast.get(cell.id, 0.0):
            rounds.setdefault(cell.condition, []).append(needed)
    if sum(max(needed) * costs[name] for name, needed in rounds.items()) <= seconds_left:
        return list(going_on)
    best = {name: _most_an_hour(needed, costs[name], seconds_left) for name, needed in rounds.items()}
    chosen: set[str] = set()
    left = seconds_left
    for name in sorted(best, key=lambda name: best[name][0]):
        pace, total = best[name]
        if math.isfinite(pace) and total <= left:
            chosen.add(name)
            left -= total
    return [cell for cell in going_on if cell.condition in chosen] if chosen else list(going_on)


def _most_an_hour(rounds: Sequence[float], cost: float, seconds_left: float) -> tuple[float, float]:
    """The fewest seconds per settled cell, and the time to settle that many; infinite if nothing fits."""
    ordered = sorted(rounds)
    plans = [(needed * cost / count, needed * cost) for count, needed in enumerate(ordered, 1)]
    return min((plan for plan in plans if plan[1] <= seconds_left), default=(math.inf, math.inf))

"""Estimates from the turns of a round: ratios with their errors, carry-over to the next slice, autocorrelation of
turns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

# The normal quantile of a two-sided 95 % interval, for the line shown while a round runs, not for a verdict.
_Z = 1.96
_FEWEST_TURNS = 3


@dataclass(frozen=True, slots=True)
class TurnRatio:
    """A cell's ratio to the baseline in this round, and the standard error of its logarithm over turns. The error is 0
    if turns measure different things and therefore show no error."""

    ratio: float
    error: float

    @property
    def interval(self) -> tuple[float, float]:
        """About 95 % for this round on these loads, not a verdict."""
        return self.ratio * math.exp(-_Z * self.error), self.ratio * math.exp(_Z * self.error)


@dataclass(frozen=True, slots=True)
class AfterEffects:
    """`carry_over`: the largest difference, as a logarithm, between the effects of predecessors on the slices after
    them, with its standard error. `autocorrelation`: that of the cells' deviations between neighbouring turns."""

    carry_over: float
    error: float
    autocorrelation: float


def ratio_of(rates: Sequence[Sequence[float]], cell: int, baseline: int) -> TurnRatio | None:
    """The ratio from rates by turn and cell; None with fewer than three turns in which both cells had transactions.

    Correlation of neighbouring turns widens the error, as in a first-order autoregression.
    """
    steps = [math.log(row[cell] / row[baseline]) for row in rates if row[cell] > 0 and row[baseline] > 0]
    if len(steps) < _FEWEST_TURNS:
        return None
    mean = math.fsum(steps) / len(steps)
    deviations = [step - mean for step in steps]
    variance = math.fsum(one * one for one in deviations) / (len(steps) - 1)
    alike = min(0.9, max(0.0, _lag_one(deviations)))
    return TurnRatio(math.exp(mean), math.sqrt(variance / len(steps) * (1 + alike) / (1 - alike)))


def total_ratio_of(totals: Sequence[float], cell: int, baseline: int) -> TurnRatio | None:
    """The ratio of the cells' seconds, as in the verdict; None before both have any. It has no error, because
    differences between queries are not scatter."""
    if not totals or min(totals[cell], totals[baseline]) <= 0:
        return None
    return TurnRatio(totals[cell] / totals[baseline], 0.0)


def after_effects(
    rates: Sequence[Sequence[float]], orders: Sequence[Sequence[int]], turns: Sequence[int]
) -> AfterEffects | None:
    """Least squares of ln rate = turn + cell + predecessor; None if there are too few turns.

    `rates` has a row for each of `turns`; `orders` has the order of every turn that ran, including others.
    """
    cells = len(rates[0]) if rates else 0
    if cells < 2 or len(rates) < _FEWEST_TURNS * cells or any(rate <= 0 for row in rates for rate in row):
        return None
    rows: list[np.ndarray] = []
    values: list[np.ndarray] = []
    for turn, row in zip(turns, rates, strict=True):
        if turn == 0:  # no cell ran before its first slice
            continue
        before = orders[turn - 1][-1]
        design = np.zeros((cells, 2 * cells))
        for place, cell in enumerate(orders[turn]):
            design[place, cell] = 1
            design[place, cells + before] = 1
            before = cell
        logs = np.log([row[cell] for cell in orders[turn]])
        # Subtracting a turn's mean removes what its slices have in common.
        rows.append(design - design.mean(axis=0))
        values.append(logs - logs.mean())
    matrix, wanted = np.vstack(rows), np.concatenate(values)
    inverse = np.linalg.pinv(matrix)
    found = inverse @ wanted
    left = wanted - matrix @ found
    freedom = len(wanted) - len(rows) - int(np.linalg.matrix_rank(matrix))
    if freedom < 1:
        return None
    scatter = float(left @ left) / freedom
    carried = found[cells:]
    high, low = int(np.argmax(carried)), int(np.argmin(carried))
    contrast = inverse[cells + high] - inverse[cells + low]
    error = math.sqrt(scatter * float(contrast @ contrast))
    return AfterEffects(float(carried[high] - carried[low]), error, _autocorrelation(rates))


def _autocorrelation(rates: Sequence[Sequence[float]]) -> float:
    logs = np.log(np.asarray(rates, dtype=float))
    left = logs - logs.mean(axis=1, keepdims=True)
    left -= left.mean(axis=0)
    return float(np.mean([_lag_one(list(column)) for column in left.T]))


def _lag_one(deviations: Sequence[float]) -> float:
    whole = math.fsum(one * one for one in deviations)
    if whole == 0:
        return 0.0
    return math.fsum(one * other for one, other in pairwise(deviations)) / whole

"""Alpha spending: the error that each interim analysis may spend, and the level left for an interval."""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# The analysis by which half of alpha is spent: a compromise between early and late verdicts, by simulation.
HALF_SPENT = 2.0
# Levels at which the recursion is run; between them the share is interpolated.
_STEP = math.log(2)


@dataclass(frozen=True, slots=True)
class Survivors:
    """The part of a sum's distribution that has not crossed a boundary yet, on quadrature nodes of its positive half.

    `time` is the sum's variance; the distribution is symmetric.
    """

    time: float
    nodes: NDArray[np.float64]
    masses: NDArray[np.float64]


START = Survivors(0.0, np.zeros(1), np.full(1, 0.5))


def advance(before: Survivors, time: float, spend: float) -> tuple[float, Survivors]:
    """The boundary |S| = b that is crossed first at this time with probability `spend`, and what survives it.

    S has independent normal increments whose variances are the steps of time (recursive numerical integration:
    P. Armitage, C. K. McPherson, B. C. Rowe, Repeated significance tests on accumulating data, J. Roy. Statist.
    Soc. A 132, 1969; C. Jennison, B. W. Turnbull, Group Sequential Methods, 2000, ch. 19). In standard errors the
    boundary is b / √time.
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    deviation = math.sqrt(time - before.time)

    def crossing(boundary: float) -> float:
        tails = ndtr((before.nodes - boundary) / deviation) + ndtr((-before.nodes - boundary) / deviation)
        return 2 * float(before.masses @ tails)

    # The logarithm, because what is spent may be tiny.
    wanted = math.log(spend)
    boundary = float(
        brentq(lambda value: math.log(max(crossing(value), 1e-300)) - wanted, 0, 30 * math.sqrt(time), xtol=1e-9)
    )
    nodes, weights = _gauss(16 + math.ceil(4 * boundary / deviation))
    nodes, weights = boundary * (nodes + 1) / 2, boundary * weights / 2
    across = (nodes[:, None] - before.nodes) / deviation
    mirrored = (nodes[:, None] + before.nodes) / deviation
    density = (np.exp(-(across**2) / 2) + np.exp(-(mirrored**2) / 2)) @ before.masses
    return boundary, Survivors(time, nodes, weights * density / (deviation * math.sqrt(2 * math.pi)))


def next_analysis(round_number: int) -> int:
    """The round after which the next analysis is due: the next one, or of many rounds 5 % more.

    The time of an analysis grows with the cube of the rounds, and it adds little to the one before.

    >>> next_analysis(4), next_analysis(40), next_analysis(1000)
    (5, 42, 1050)
    """
    return max(round_number + 1, round_number * 21 // 20)


def nominal_share(level: float, first: int, number: int) -> float:
    """The level of one analysis, as a share of the level that all may spend together.

    Analyses are after round `first` and then by `next_analysis`; `number` counts them from 1. Alpha spent up to one
    grows as number / (number + HALF_SPENT): the last one need not be known (K. K. G. Lan, D. L. DeMets,
    Discrete sequential boundaries for clinical trials, Biometrika 70, 1983).
    """
    place = math.log(level) / _STEP
    below = math.floor(place)
    low, high = (_log_share(math.exp(_STEP * step), first, number) for step in (below, below + 1))
    return math.exp(low + (high - low) * (place - below))


def _log_share(level: float, first: int, number: int) -> float:
    from scipy.special import log_ndtr

    for earlier in range(1, number):  # in order, so that the recursion is never deep
        _spend(level, first, earlier)
    boundary, survivors = _spend(level, first, number)
    return math.log(2) + float(log_ndtr(-boundary / math.sqrt(survivors.time))) - math.log(level)


@functools.cache
def _spend(level: float, first: int, number: int) -> tuple[float, Survivors]:
    before = START if number == 1 else _spend(level, first, number - 1)[1]
    spend = level * (_spent(number) - _spent(number - 1))
    return advance(before, float(_round(first, number)), spend)


@functools.cache
def _round(first: int, number: int) -> int:
    return first if number == 1 else next_analysis(_round(first, number - 1))


def _spent(number: int) -> float:
    return number / (number + HALF_SPENT)


@functools.cache
def _gauss(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.polynomial.legendre.leggauss(count)

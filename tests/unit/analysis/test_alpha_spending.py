"""Boundaries for repeated analyses, compared with published ones and with their defined error rate."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from octavo.analysis.alpha_spending import HALF_SPENT, START, Survivors, advance, next_analysis, nominal_share

LOOKS = 5


def boundaries(spent: list[float]) -> list[float]:
    """In standard errors, for equal steps of information."""
    found: list[float] = []
    survivors = START
    for number, (before, after) in enumerate(pairwise([0.0, *spent]), 1):
        boundary, survivors = advance(survivors, number / len(spent), after - before)
        found.append(boundary / math.sqrt(number / len(spent)))
    return found


def test_obrien_fleming_like_spending() -> None:
    # K. K. G. Lan, D. L. DeMets, Biometrika 70, 1983: five analyses; 2.5 % to each side.
    spent = [4 * float(ndtr(ndtri(0.0125) / math.sqrt(number / LOOKS))) for number in range(1, LOOKS + 1)]
    assert boundaries(spent) == pytest.approx([4.8769, 3.3569, 2.6803, 2.2898, 2.0310], abs=2e-4)


def test_pocock_like_spending() -> None:
    spent = [0.05 * math.log(1 + (math.e - 1) * number / LOOKS) for number in range(1, LOOKS + 1)]
    assert boundaries(spent) == pytest.approx([2.4380, 2.4268, 2.4101, 2.3966, 2.3859], abs=2e-4)


def test_pococks_constant_spends_five_percent_in_five_looks() -> None:
    # S. J. Pocock, Biometrika 64, 1977: 2.413 at each of five analyses
    survivors, total = START, 0.0
    for number in range(1, LOOKS + 1):
        spend = float(brentq(_beyond, 1e-6, 0.05, args=(survivors, number)))
        _, survivors = advance(survivors, float(number), spend)
        total += spend
    assert total == pytest.approx(0.05, abs=1e-4)


def _beyond(spend: float, before: Survivors, number: int) -> float:
    return advance(before, float(number), spend)[0] / math.sqrt(number) - 2.413


@pytest.mark.parametrize("first", [2, 5])
def test_all_looks_together_spend_no_more_than_they_may(first: int) -> None:
    level, last = 0.05, 60
    critical = [-ndtri(level * nominal_share(level, first, number) / 2) for number in range(1, last + 1)]
    rounds = [first]
    while len(rounds) < last:
        rounds.append(next_analysis(rounds[-1]))
    steps = np.random.default_rng(1).normal(size=(20_000, rounds[-1]))
    sums = np.cumsum(steps, axis=1)[:, np.array(rounds) - 1] / np.sqrt(rounds)
    crossed = float((np.abs(sums) > critical).any(axis=1).mean())
    assert level * last / (last + HALF_SPENT) == pytest.approx(crossed, abs=0.005)

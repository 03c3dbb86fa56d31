"""Several cells against one baseline: critical values that hold for all of the comparisons at once."""

import functools
import math

import numpy as np
from numpy.typing import NDArray

# Nodes of the quadratures over the baseline's error and over the estimated standard deviation.
_NODES = 96
_SPAN = 8.5  # standard deviations to each side; beyond lies 1e-17


@functools.cache
def dunnett(comparisons: int, freedom: int, confidence: float) -> float:
    """The two-sided critical value d for that many comparisons with one baseline, correlation ½.

    P(max |T| ≤ d) = confidence, where T are Student's t with common degrees of freedom (C. W. Dunnett, A multiple
    comparison procedure for comparing several treatments with a control, J. Amer. Statist. Assoc. 50, 1955; New
    tables, Biometrics 20, 1964). With one comparison it is Student's t. Raises ValueError below one degree of
    freedom or one comparison.
    """
    from scipy.optimize import brentq
    from scipy.special import stdtrit

    if comparisons < 1 or freedom < 1:
        raise ValueError(f"no critical value for {comparisons} comparisons with {freedom} degrees of freedom")
    # Each alone, and by Bonferroni's inequality all together: the value lies between.
    lower = float(stdtrit(freedom, (1 + confidence) / 2))
    if comparisons == 1:
        return lower
    upper = float(stdtrit(freedom, 1 - (1 - confidence) / (2 * comparisons)))
    scales, weights = _estimated_deviation(freedom)
    found = brentq(
        lambda value: float(weights @ _all_within(value * scales, comparisons)) - confidence, lower, upper, xtol=1e-7
    )
    return float(found)


def _all_within(bounds: NDArray[np.float64], comparisons: int) -> NDArray[np.float64]:
    """P(|X| ≤ bound for all X), X standard normal with correlation ½: the baseline's error integrated out."""
    from scipy.special import ndtr

    # What is integrated is even: half of the nodes do.
    errors, weights = (half[_NODES // 2 :] for half in _gauss(-_SPAN, _SPAN))
    weights = 2 * weights * np.exp(-(errors**2) / 2) / math.sqrt(2 * math.pi)
    far = math.sqrt(2) * bounds[:, None]
    return (ndtr(far + errors) - ndtr(errors - far)) ** comparisons @ weights


@functools.cache
def _estimated_deviation(freedom: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights of the density of √(χ²/n), n degrees of freedom: the estimated over the true deviation."""
    from scipy.special import chdtri

    # Few degrees of freedom have a density that is steep at zero: nodes are spread over the logarithm.
    low, high = (math.log(float(chdtri(freedom, p)) / freedom) / 2 for p in (1 - 1e-12, 1e-15))
    logs, weights = _gauss(low, high)
    density = freedom * (logs - np.exp(2 * logs) / 2)
    weights = weights * np.exp(density - density.max())
    return np.exp(logs), weights / weights.sum()


def _gauss(low: float, high: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    nodes, weights = _legendre()
    return (high + low) / 2 + (high - low) / 2 * nodes, (high - low) / 2 * weights


@functools.cache
def _legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.polynomial.legendre.leggauss(_NODES)

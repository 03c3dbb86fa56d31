"""Least squares: the time of a page, a row, an index entry and an operator that fits all queries best.

Errors are relative: a query of 3 ms counts as much as one of 3 s. The estimate is fitted to each query's median over
the rounds, with no cost below zero (Lawson and Hanson, "Solving Least Squares Problems", 1974). The interval is that of
Student's t over fits to single rounds, which are independent of each other; as it is one of means, it is widened by the
most that medians of normal errors scatter more than means. Errors of the model are not in it; they show in the
residuals.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from octavo.costs.measure import ProbeRun
from octavo.costs.probes import CACHED, CACHED_RANDOM, INDEX_TUPLE, OPERATOR, RANDOM, SEQUENTIAL, TUPLE
from octavo.errors import OctavoError

UNITS = (SEQUENTIAL, RANDOM, CACHED, CACHED_RANDOM, TUPLE, INDEX_TUPLE, OPERATOR)
CONFIDENCE = 0.95
# The standard error of a median over that of a mean, of many normal numbers; of few it is less.
_OF_MEDIANS = math.sqrt(math.pi / 2)


@dataclass(frozen=True, slots=True)
class UnitCost:
    """Seconds that one unit takes, and the ends of its interval; `low` may be below zero."""

    unit: str
    seconds: float
    low: float
    high: float

    @property
    def resolved(self) -> bool:
        """Whether the interval excludes zero."""
        return self.seconds > 0 and self.low > 0


@dataclass(frozen=True, slots=True)
class Residual:
    """A query's median seconds, and those predicted by the fitted costs."""

    probe: str
    seconds: float
    predicted: float

    @property
    def relative(self) -> float:
        """The error of the prediction, as a fraction of the measured time."""
        return self.predicted / self.seconds - 1


@dataclass(frozen=True, slots=True)
class Fit:
    """The estimates by unit, and what every query leaves over."""

    estimates: Mapping[str, UnitCost]
    residuals: tuple[Residual, ...]


def fit(measured: Sequence[ProbeRun]) -> Fit:
    """Fits all units that any query has. Raises OctavoError with fewer queries than units, or fewer than 2 rounds."""
    rounds = sorted({one.round for one in measured})
    units = [unit for unit in UNITS if any(one.work.get(unit, 0.0) > 0 for one in measured)]
    kinds = {one.probe for one in measured}
    if len(kinds) < len(units) or len(rounds) < 2:
        raise OctavoError(f"{len(kinds)} queries in {len(rounds)} rounds are too few for {len(units)} costs")
    middle = [
        _median([one for one in measured if one.probe == kind]) for kind in dict.fromkeys(m.probe for m in measured)
    ]
    best = _solve(middle, units)
    single = np.array([_solve([one for one in measured if one.round == number], units) for number in rounds])
    of_means = stats.t.ppf((1 + CONFIDENCE) / 2, len(rounds) - 1) * single.std(axis=0, ddof=1) / len(rounds) ** 0.5
    spread = _OF_MEDIANS * of_means
    estimates = {
        unit: UnitCost(unit, float(value), float(value - half), float(value + half))
        for unit, value, half in zip(units, best, spread, strict=True)
    }
    predicted = _matrix(middle, units) @ best
    return Fit(
        estimates,
        tuple(Residual(one.probe, one.seconds, float(made)) for one, made in zip(middle, predicted, strict=True)),
    )


def _median(runs: Sequence[ProbeRun]) -> ProbeRun:
    units = {unit for one in runs for unit in one.work}
    work = {unit: statistics.median(one.work.get(unit, 0.0) for one in runs) for unit in units}
    return ProbeRun(runs[0].probe, 0, statistics.median(one.seconds for one in runs), work)


def _matrix(runs: Sequence[ProbeRun], units: Sequence[str]) -> np.ndarray:
    return np.array([[one.work.get(unit, 0.0) for unit in units] for one in runs])


def _solve(runs: Sequence[ProbeRun], units: Sequence[str]) -> np.ndarray:
    """Seconds by unit. Columns are scaled to one size: a page may take a million times what an operator takes."""
    seconds = np.array([one.seconds for one in runs])
    matrix = _matrix(runs, units) / seconds[:, None]
    size = np.linalg.norm(matrix, axis=0)
    size[size == 0] = 1.0
    solution, _ = optimize.nnls(matrix / size, np.ones(len(runs)))
    return solution / size

"""The effect of a cell and its 95 % interval, from log ratios grouped by load (docs/method.md, "The interval")."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from octavo.analysis.pairing import LogRatio

CONFIDENCE = 0.95
# From this many loads on, the load is the replicate and the verdict speaks of loads in general.
LOADS_FOR_GENERAL = 4


@dataclass(frozen=True, slots=True)
class Estimate:
    """On the log scale: the mean over loads of the loads' means, and half the width of its interval.

    `half_width` is None when there are too few rounds to know the spread. `conditional` says that the
    interval holds for these loads only.
    """

    log_ratio: float
    half_width: float | None
    degrees_of_freedom: int
    loads: int
    rounds: int
    conditional: bool

    @property
    def ratio(self) -> float:
        """Cell / baseline."""
        return math.exp(self.log_ratio)

    @property
    def low(self) -> float | None:
        """The interval's lower end, as a ratio."""
        return None if self.half_width is None else math.exp(self.log_ratio - self.half_width)

    @property
    def high(self) -> float | None:
        """The interval's upper end, as a ratio."""
        return None if self.half_width is None else math.exp(self.log_ratio + self.half_width)


def estimate(ratios: Sequence[LogRatio], comparisons: int = 1) -> Estimate:
    """The estimate from at least one log ratio.

    With several comparisons against one baseline each interval is widened so that all of them hold at once
    at CONFIDENCE (Z. Šidák, J. Amer. Statist. Assoc. 62, 1967); a little wider than Dunnett's.

    Four or more loads: Student's t over the loads' means. Fewer: the loads are taken as given, and the
    spread is that of rounds within loads, pooled over loads (one-way fixed-effects analysis of variance;
    Montgomery, Design and Analysis of Experiments, chapter 3).
    """
    by_load: dict[int, list[float]] = {}
    for ratio in ratios:
        by_load.setdefault(ratio.load, []).append(ratio.value)
    means = [_mean(values) for values in by_load.values()]
    centre = _mean(means)
    loads = len(means)
    conditional = loads < LOADS_FOR_GENERAL
    if conditional:
        freedom = len(ratios) - loads
        squares = math.fsum(
            (value - mean) ** 2 for values, mean in zip(by_load.values(), means, strict=True) for value in values
        )
        # The mean of loads' means weighs a load's rounds by 1 / (loads × rounds in it).
        weight = math.fsum(1 / len(values) for values in by_load.values()) / loads**2
    else:
        freedom = loads - 1
        squares = math.fsum((mean - centre) ** 2 for mean in means)
        weight = 1 / loads
    half_width = None
    if freedom >= 1:
        half_width = student_quantile(freedom, comparisons) * math.sqrt(squares / freedom * weight)
    return Estimate(centre, half_width, freedom, loads, len(ratios), conditional)


@functools.cache
def student_quantile(degrees_of_freedom: int, comparisons: int = 1) -> float:
    """Student's t for two-sided intervals that hold at CONFIDENCE for all comparisons together."""
    from scipy.special import stdtrit

    each: float = CONFIDENCE ** (1 / comparisons)
    return float(stdtrit(degrees_of_freedom, (1 + each) / 2))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)

"""The effect of a cell and its 95 % interval, from log ratios grouped by load (docs/method.md, "The interval")."""

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


def estimate(ratios: Sequence[LogRatio]) -> Estimate:
    """The estimate from at least one log ratio.

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
        half_width = student_quantile(freedom) * math.sqrt(squares / freedom * weight)
    return Estimate(centre, half_width, freedom, loads, len(ratios), conditional)


def student_quantile(degrees_of_freedom: float) -> float:
    """Student's t for a two-sided interval at CONFIDENCE."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, (1 + CONFIDENCE) / 2))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)

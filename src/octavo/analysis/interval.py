"""An effect with its interval, and the critical values that make intervals hold (docs/method.md, "The interval")."""

import functools
import math
from dataclasses import dataclass
from typing import Literal

CONFIDENCE = 0.95

# On the log scale. An interval that reaches farther than a million times says nothing, and may be past any number.
WIDEST = math.log(1e6)


@dataclass(frozen=True, slots=True)
class Estimate:
    """On the log scale: the mean over loads of the loads' means, and half the width of its interval.

    `half_width` and `critical`, the standard errors in it, are None if there are too few trials to estimate the spread.
    `of_loads` is the part of the variance that only more loads reduce. `conditional` says that the interval holds for
    these loads only, `own` that it uses the cell's own scatter, `analyses` for how many interim analyses it is
    adjusted; 0 is a single one at the end. `of_hosts` is the variance of the true ratio between hosts, None on one;
    `hosts_in_general` says that the interval holds for hosts like these.
    """

    log_ratio: float
    half_width: float | None
    degrees_of_freedom: int
    loads: int
    rounds: int
    conditional: bool
    critical: float | None = None
    of_loads: float = 0.0
    own: bool = False
    analyses: int = 0
    hosts: int = 1
    of_hosts: float | None = None
    hosts_in_general: bool = False

    @property
    def ratio(self) -> float:
        """Cell / baseline."""
        return math.exp(self.log_ratio)

    @property
    def low(self) -> float | None:
        """The interval's lower end, as a ratio; None without an interval, or if it is unbounded."""
        return self._end(-1)

    @property
    def high(self) -> float | None:
        """The interval's upper end, likewise."""
        return self._end(1)

    def _end(self, side: Literal[-1, 1]) -> float | None:
        if self.half_width is None or self.half_width > WIDEST:
            return None
        return math.exp(self.log_ratio + side * self.half_width)


@functools.cache
def critical_value(comparisons: int, freedom: int, confidence: float, first: int = 0, number: int = 0) -> float:
    """Standard errors to each side, so that all comparisons hold simultaneously, at every analysis.

    Without interim analyses it is Dunnett's. With `number` of them from round `first` on (`next_analysis`), the level
    that Dunnett's value has for one comparison is what all of them may spend on it; the share of this one is that of a
    normal statistic, used with Student's t (the significance-level approach: C. Jennison, B. W. Turnbull,
    Group Sequential Methods, 2000, ch. 3 and 4; repeated confidence intervals: J. Roy. Statist. Soc. B 51, 1989).
    """
    from scipy.special import stdtr, stdtrit

    from octavo.analysis.alpha_spending import nominal_share
    from octavo.analysis.dunnett import dunnett

    once = dunnett(comparisons, freedom, confidence)
    if number == 0:
        return once
    level = 2 * float(stdtr(freedom, -once))
    return -float(stdtrit(freedom, level * nominal_share(level, first, number) / 2))

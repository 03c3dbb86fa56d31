"""From an interval to a word: faster, slower, same within x %, undecided (needs n more)."""

import math
from dataclasses import dataclass
from typing import Literal

from octavo.analysis.interval import Estimate, student_quantile

Better = Literal["higher", "lower"] | None

_Decision = Literal["same", "different"]

_MOST = 1000  # a need beyond this is no plan, and is said as "more than"


@dataclass(frozen=True, slots=True)
class Rule:
    """What an estimate is held against.

    `threshold`: the smallest difference of practical interest, as a fraction. `control`: the A/A estimate
    whose far end is the noise floor, None when the plan has no control. `has_control`: whether it should
    have one, so that a control without numbers is not taken for a floor of zero.
    """

    threshold: float
    control: Estimate | None = None
    has_control: bool = True


def verdict(estimate: Estimate, rule: Rule, better: Better) -> str:
    """The word for an estimate.

    Same: the whole interval, and the noise floor, lie within the threshold. Decided: the interval excludes 1
    and the estimate lies beyond the noise floor. Everything else is undecided.
    """
    floor = noise_floor(rule.control) if rule.has_control else 0.0
    if estimate.half_width is None or floor is None:
        return "undecided (needs 1 more)"  # a second round of any load gives an interval
    decided = _decided(estimate.log_ratio, estimate.half_width, floor, rule.threshold)
    if decided == "same":
        return f"same within {rule.threshold * 100:g} %"
    if decided == "different":
        return _direction(estimate.log_ratio, better)
    return _undecided(estimate, rule)


def noise_floor(control: Estimate | None) -> float | None:
    """The far end of the A/A interval on the log scale; None while it is not known."""
    if control is None or control.half_width is None:
        return None
    return abs(control.log_ratio) + control.half_width


def _decided(
    log_ratio: float, half_width: float, floor: float, threshold: float
) -> Literal["same", "different"] | None:
    bound = math.log1p(threshold)
    if abs(log_ratio) + half_width <= bound and floor <= bound:
        return "same"
    if abs(log_ratio) > half_width and abs(log_ratio) > floor:
        return "different"
    return None


def _direction(log_ratio: float, better: Better) -> str:
    if better is None:
        return "more" if log_ratio > 0 else "less"
    return "faster" if (log_ratio > 0) == (better == "higher") else "slower"


def _undecided(estimate: Estimate, rule: Rule) -> str:
    """How many more replicates would decide, if the centres and the spreads stay as they are.

    The replicate is the round as long as the verdict is conditional, the load after that. A half-width
    shrinks with the square root of the replicates and with Student's t at their degrees of freedom; what
    the control's own centre is off by does not shrink.
    """
    unit = "" if estimate.conditional else " loads"
    for more in range(1, _MOST + 1):
        floor = 0.0
        if rule.has_control and rule.control is not None:
            floor = abs(rule.control.log_ratio) + _shrunk(rule.control, more)
        if _decided(estimate.log_ratio, _shrunk(estimate, more), floor, rule.threshold):
            return f"undecided (needs {more} more{unit})"
    if estimate.conditional:
        return "undecided (needs more loads)"
    return f"undecided (needs more than {_MOST} more loads)"


def _shrunk(estimate: Estimate, more: int) -> float:
    """The half-width after that many more replicates."""
    assert estimate.half_width is not None
    now = estimate.rounds if estimate.conditional else estimate.loads
    freedom = estimate.degrees_of_freedom
    t_ratio = student_quantile(freedom + more) / student_quantile(freedom)
    return estimate.half_width * t_ratio * math.sqrt(now / (now + more))

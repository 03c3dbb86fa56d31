"""From an interval to a word: faster, slower, same within x %, undecided (needs n more)."""

import math
from typing import Literal

from octavo.analysis.interval import Estimate, student_quantile

Better = Literal["higher", "lower"] | None

_MOST_ROUNDS = 1000  # a need beyond this is no plan, and is said as "more than"


def verdict(estimate: Estimate, floor: float | None, threshold: float, better: Better) -> str:
    """The word for an estimate.

    `floor` is the noise floor on the log scale (the far end of the A/A interval), None without a control;
    `threshold` the smallest difference of practical interest as a fraction.

    Same: the whole interval lies within the threshold. Decided: the interval excludes 1 and the estimate
    lies beyond the noise floor. Everything else is undecided.
    """
    bound = math.log1p(threshold)
    half_width = estimate.half_width
    size = abs(estimate.log_ratio)
    if half_width is not None:
        if size + half_width <= bound:
            return f"same within {threshold * 100:g} %"
        if size > half_width and (floor is None or size > floor):
            return _direction(estimate.log_ratio, better)
    return _undecided(estimate, floor, bound)


def _direction(log_ratio: float, better: Better) -> str:
    if better is None:
        return "more" if log_ratio > 0 else "less"
    return "faster" if (log_ratio > 0) == (better == "higher") else "slower"


def _undecided(estimate: Estimate, floor: float | None, bound: float) -> str:
    """How many more rounds would shrink the interval, and with it the noise floor, enough to decide.

    The width shrinks with the square root of the rounds (and with Student's t at their degrees of freedom).
    """
    if estimate.half_width is None:
        return "undecided (needs 1 more)"  # a second round of any load
    size = abs(estimate.log_ratio)
    target = size if size > bound else bound - size
    widest = max(estimate.half_width, floor or 0.0)
    spread = widest / student_quantile(estimate.degrees_of_freedom)
    for more in range(1, _MOST_ROUNDS + 1):
        freedom = estimate.degrees_of_freedom + more
        if student_quantile(freedom) * spread * math.sqrt(estimate.rounds / (estimate.rounds + more)) < target:
            return f"undecided (needs {more} more)"
    return f"undecided (needs more than {_MOST_ROUNDS} more)"

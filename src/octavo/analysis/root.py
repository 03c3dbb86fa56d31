"""The root of a function between two values."""

import sys
from collections.abc import Callable

_MOST_STEPS = 100
_RELATIVE = 4 * sys.float_info.epsilon


def root(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Where the function is zero, within the tolerance. Raises ValueError unless its signs differ at the two ends.

    Brent's method, step by step as scipy.optimize.brentq, whose package takes a third of a second to import: R. P.
    Brent, Algorithms for Minimization without Derivatives, 1973, ch. 4.

    >>> round(root(lambda x: x * x - 2, 0, 2, 1e-9), 6)
    1.414214
    """
    before, here = low, high
    f_before, f_here = function(before), function(here)
    if f_before == 0 or f_here == 0:
        return before if f_before == 0 else here
    if (f_before < 0) == (f_here < 0):
        raise ValueError("the function has one sign at both ends")
    across, f_across = before, f_before  # the other end of the bracket
    step_before = step = 0.0
    for _ in range(_MOST_STEPS):
        if f_before != 0 and f_here != 0 and (f_before < 0) != (f_here < 0):
            across, f_across = before, f_before
            step_before = step = here - before
        if abs(f_across) < abs(f_here):
            before, here, across = here, across, here
            f_before, f_here, f_across = f_here, f_across, f_here
        delta = (tolerance + _RELATIVE * abs(here)) / 2
        half = (across - here) / 2
        if f_here == 0 or abs(half) < delta:
            return here
        tried = None
        if abs(step_before) > delta and abs(f_here) < abs(f_before):
            if before == across:
                tried = -f_here * (here - before) / (f_here - f_before)
            else:
                slope = (f_before - f_here) / (before - here)
                slope_across = (f_across - f_here) / (across - here)
                tried = -f_here * (f_across * slope_across - f_before * slope)
                tried /= slope_across * slope * (f_across - f_before)
        if tried is not None and 2 * abs(tried) < min(abs(step_before), 3 * abs(half) - delta):
            step_before, step = step, tried
        else:
            step_before = step = half
        before, f_before = here, f_here
        here += step if abs(step) > delta else (delta if half > 0 else -delta)
        f_here = function(here)
    raise ValueError(f"no root within {tolerance} after {_MOST_STEPS} steps")

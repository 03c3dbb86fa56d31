"""Full-page images by the number of transactions since a checkpoint, also beyond the length of the trace.

A page has an image at its first change after a checkpoint. If each page is changed at random at its own rate, images
per transaction are a mixture of exponentials of the transactions since the checkpoint. Three equal parts of a recording
therefore bound the parts that follow: at the least, images decrease as they did from the first part to the third; at
the most, a part of them never ends (M. Krein, A. Nudelman, "The Markov Moment Problem and Extremal Problems", 1977).
The likely value assumes that the rates have a gamma distribution, the negative binomial model of new species in a
longer catch (R. Fisher, A. Corbet, C. Williams 1943; B. Efron, R. Thisted, "Estimating the number of unseen species",
Biometrika 63, 1976), fitted to the recorded images by maximum likelihood. Pages that are all changed equally often are
its limiting case.
"""

import functools
import math
from collections.abc import Iterable
from itertools import pairwise

from scipy import optimize

from octavo.predict.counts import Points
from octavo.predict.rates import Rates

# The scales of the fit, in recorded lengths: where it begins, and its bounds.
_FIRST_SCALES = (0.03, 0.3, 3.0, 30.0)
_SCALES = (math.log(1e-3), math.log(1e3))
_POWERS = (math.log(1e-2), math.log(1e4))
# The fewest points to which the distribution is fitted.
_FEWEST_POINTS = 6
_NO_FIT = 1e300


def total(one: Rates, transactions: float, recorded: float, beyond: float = 0.0) -> float:
    """Images of so many transactions since a checkpoint. Beyond the recorded number, `beyond` selects the likely value
    (0), the least (-1) or the most (1)."""

    def inside(count: float) -> float:
        return (one.images(count) or 0.0) * count

    if transactions <= recorded:
        return inside(transactions)
    first, second, whole = (inside(recorded * part / 3) for part in (1, 2, 3))
    least, most = bounds((first, second - first, whole - second), 3 * (transactions / recorded - 1))
    likely = min(most, max(least, _fitted(one.images_by_length, recorded, transactions, whole) - whole))
    return whole + likely + abs(beyond) * ((most if beyond > 0 else least) - likely)


def bounds(parts: tuple[float, float, float], more: float) -> tuple[float, float]:
    """The least and the most images in so many more parts.

    >>> [round(end) for end in bounds((400.0, 200.0, 100.0), 2.0)]  # equal rates: 50 and 25
    [75, 75]
    >>> [round(end) for end in bounds((500.0, 200.0, 100.0), 2.0)]
    [65, 122]
    """
    first, middle, last = parts
    if last <= 0 or first <= last:
        return max(0.0, last) * more, max(0.0, last) * more
    least = _geometric(last, math.sqrt(last / first), more)
    if middle <= last or first - middle <= middle - last:
        return least, last * more
    ratio = (middle - last) / (first - middle)
    ending = last - (middle - last) * ratio / (1 - ratio)
    return least, max(least, ending * more + _geometric(last - ending, ratio, more))


def _geometric(last: float, ratio: float, more: float) -> float:
    return last * ratio * (1 - ratio**more) / (1 - ratio)


def _fitted(points: Points, recorded: float, transactions: float, whole: float) -> float:
    found = _gamma(points, recorded)
    if found is None:
        return whole
    return whole * _accumulated(transactions / recorded, *found) / _accumulated(1.0, *found)


@functools.lru_cache(maxsize=256)
def _gamma(points: Points, recorded: float) -> tuple[float, float] | None:
    """The power and the scale (in recorded lengths) of the decrease of images per transaction, (1 + t / scale) ^
    -power; None where there are too few points."""
    inside = [(count / recorded, images) for count, images in points if 0 < count <= 1.001 * recorded]
    if len(inside) < _FEWEST_POINTS or inside[-1][1] <= 0:
        return None
    places = [0.0, *(place for place, _ in inside)]
    new = [later - earlier for earlier, later in pairwise([0.0, *(images for _, images in inside)])]

    def unlikely(logarithms: Iterable[float]) -> float:
        power, scale = (math.exp(one) for one in logarithms)
        reached = [_accumulated(place, power, scale) for place in places]
        parts = [later - earlier for earlier, later in pairwise(reached)]
        if any(part <= 0 < images for part, images in zip(parts, new, strict=True)):
            return _NO_FIT
        return -sum(
            images * math.log(part / reached[-1]) for part, images in zip(parts, new, strict=True) if images > 0
        )

    fits = [
        optimize.minimize(
            unlikely, (0.0, math.log(scale)), method="Nelder-Mead", bounds=(_POWERS, _SCALES),
            options={"xatol": 1e-3, "fatol": 1e-3, "maxiter": 400},
        )
        for scale in _FIRST_SCALES
    ]  # fmt: skip
    best = min(fits, key=lambda fit: float(fit.fun))
    return math.exp(float(best.x[0])), math.exp(float(best.x[1]))


def _accumulated(place: float, power: float, scale: float) -> float:
    """The integral of (1 + t / scale) ^ -power from 0 to `place`.

    >>> round(_accumulated(2.0, 0.0, 1.0), 3), round(_accumulated(1.0, 1.0, 1.0), 3)
    (2.0, 0.693)
    """
    logarithm, decline = math.log1p(place / scale), power - 1
    if abs(decline * logarithm) < 1e-9:
        return scale * logarithm
    return scale * -math.expm1(-decline * logarithm) / decline

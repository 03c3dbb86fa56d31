"""Properties of a device from its measured curves and series: pure functions over numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import sqrt

# A drop is believed when the rate after it is below this share of the rate before, …
_DROP = 0.8
# … when each side has this many samples, and the sides lie this many standard errors apart.
_FEWEST_SAMPLES = 5
_STANDARD_ERRORS = 6.0


@dataclass(frozen=True, slots=True)
class LatencyLine:
    """Latency of a request as a line: `seconds + bytes / bytes_per_second`."""

    seconds: float
    bytes_per_second: float
    largest_error: float
    """The worst relative deviation of a measured point from the line."""

    @property
    def bend(self) -> float:
        """Bytes at which transferring takes as long as everything else: a smaller request costs mostly its latency."""
        return self.seconds * self.bytes_per_second


def latency_line(sizes: Sequence[int], seconds: Sequence[float]) -> LatencyLine | None:
    """The line with the smallest squared relative errors; None when larger requests do not take longer."""
    # A relative error has the weight 1 / seconds; what is squared has the weight squared.
    weights = [1 / one**2 for one in seconds]
    size, second = _mean(sizes, weights), _mean(seconds, weights)
    spread = sum(weight * (one - size) ** 2 for one, weight in zip(sizes, weights, strict=True))
    points = list(zip(sizes, seconds, strict=True))
    together = sum(weight * (one - size) * (took - second) for (one, took), weight in zip(points, weights, strict=True))
    slope = together / spread
    intercept = second - slope * size
    if slope <= 0 or intercept <= 0:
        return None
    return LatencyLine(intercept, 1 / slope, max(abs((intercept + slope * one) / took - 1) for one, took in points))


def smallest_reaching(sizes: Sequence[int], rates: Sequence[float], share: float) -> int:
    """The smallest size whose rate is at least this share of the highest one."""
    most = max(rates)
    return next(size for size, rate in zip(sizes, rates, strict=True) if rate >= share * most)


@dataclass(frozen=True, slots=True)
class RateDrop:
    """A rate that dropped once, as when a token bucket runs empty."""

    after_seconds: float
    rate_before: float
    rate_after: float

    @property
    def fill(self) -> float:
        """The requests served above the later rate before the drop: the bucket's fill level at the start."""
        return (self.rate_before - self.rate_after) * self.after_seconds


def find_drop(rates: Sequence[float], interval: float) -> RateDrop | None:
    """Where a series of rates, one each `interval` seconds, falls for good; None when it does not.

    The split that leaves the smallest sum of squares (one change point, least squares). It has to be a fall to below
    80 %, by six standard errors, with five samples at each side.
    """
    splits = range(_FEWEST_SAMPLES, len(rates) - _FEWEST_SAMPLES + 1)
    if not splits:
        return None
    # Sums of what lies before each place, about the mean of all: nothing is lost to cancellation.
    centre = sum(rates) / len(rates)
    sums = [0.0, *accumulate(rate - centre for rate in rates)]
    squares = [0.0, *accumulate((rate - centre) ** 2 for rate in rates)]

    def part(begin: int, end: int) -> _Part:
        total, count = sums[end] - sums[begin], end - begin
        return _Part(count, centre + total / count, max(0.0, squares[end] - squares[begin] - total**2 / count))

    sides = {split: (part(0, split), part(split, len(rates))) for split in splits}
    split = min(splits, key=lambda at: sum(side.squares for side in sides[at]))
    before, after = sides[split]
    fall = before.mean - after.mean
    error = sqrt(before.error_squared + after.error_squared)
    if after.mean >= _DROP * before.mean or fall < _STANDARD_ERRORS * error:
        return None
    return RateDrop(split * interval, before.mean, after.mean)


@dataclass(frozen=True, slots=True)
class _Part:
    """Samples between two splits: how many, their mean, the sum of squares about it."""

    count: int
    mean: float
    squares: float

    @property
    def error_squared(self) -> float:
        """The standard error of the mean, squared."""
        return self.squares / (self.count - 1) / self.count


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)

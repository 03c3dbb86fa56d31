"""What curves and series of a device say about it: pure functions over measured numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# A drop is believed when the rate after it is below this share of the rate before, …
_DROP = 0.8
# … when each side has this many samples, and the sides lie this many standard errors apart.
_FEWEST_SAMPLES = 5
_STANDARD_ERRORS = 6.0


@dataclass(frozen=True, slots=True)
class Line:
    """Latency of a request as a line: `seconds + bytes / bytes_per_second`."""

    seconds: float
    bytes_per_second: float
    largest_error: float
    """The worst relative deviation of a measured point from the line."""

    @property
    def bend(self) -> float:
        """Bytes at which transferring takes as long as everything else: a smaller request costs mostly its latency."""
        return self.seconds * self.bytes_per_second


def latency_line(sizes: Sequence[int], seconds: Sequence[float]) -> Line | None:
    """The line with the smallest squared relative errors; None when larger requests do not take longer."""
    measured = np.asarray(seconds)
    design = np.column_stack([np.ones(len(sizes)), np.asarray(sizes, dtype=float)]) / measured[:, None]
    (intercept, slope), *_ = np.linalg.lstsq(design, np.ones(len(sizes)))
    if slope <= 0 or intercept <= 0:
        return None
    errors = np.abs(design @ np.array([intercept, slope]) - 1)
    return Line(float(intercept), float(1 / slope), float(errors.max()))


def smallest_reaching(sizes: Sequence[int], rates: Sequence[float], share: float) -> int:
    """The smallest size whose rate is at least this share of the highest one."""
    most = max(rates)
    return next(size for size, rate in zip(sizes, rates, strict=True) if rate >= share * most)


@dataclass(frozen=True, slots=True)
class Drop:
    """A rate that fell once: what a token bucket looks like when it runs empty."""

    after_seconds: float
    rate_before: float
    rate_after: float

    @property
    def fill(self) -> float:
        """What was served above the later rate before it fell: the bucket's fill, as far as it was full."""
        return (self.rate_before - self.rate_after) * self.after_seconds


def find_drop(rates: Sequence[float], interval: float) -> Drop | None:
    """Where a series of rates, one each `interval` seconds, falls for good; None when it does not.

    The split that leaves the smallest sum of squares (one change point, least squares). It has to be a fall to below
    80 %, by six standard errors, with five samples at each side.
    """
    series = np.asarray(rates, dtype=float)
    splits = range(_FEWEST_SAMPLES, len(series) - _FEWEST_SAMPLES + 1)
    if not splits:
        return None
    split = min(splits, key=lambda at: _squares(series[:at]) + _squares(series[at:]))
    before, after = series[:split], series[split:]
    error = float(np.hypot(before.std(ddof=1) / np.sqrt(len(before)), after.std(ddof=1) / np.sqrt(len(after))))
    fall = float(before.mean() - after.mean())
    if after.mean() >= _DROP * before.mean() or fall < _STANDARD_ERRORS * error:
        return None
    return Drop(split * interval, float(before.mean()), float(after.mean()))


def _squares(part: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> float:
    return float(((part - part.mean()) ** 2).sum())

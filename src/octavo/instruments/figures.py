"""Figures: the meaning of an instrument's readings as data, and the arithmetic on them.

A reading has counters (which only grow) and gauges (which rise and fall), by item: a role, a kind of backend, or None
if there is only one. A figure defines how two readings become a number. Between neighbouring readings that is a point
of a series; between the first and the last it is an observation of the trial. A counter that decreased (a reset, a
32-bit overflow) gives no number for that interval.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from octavo.observation import Metric

Item = str | None
Reading = Mapping[Item, Mapping[str, float]]
Value = tuple[Metric, Item, float]


@dataclass(frozen=True, slots=True)
class Gauge:
    """The value of a gauge; the trial's observation is its highest, lowest or mean sample."""

    metric: Metric
    key: str
    scale: float = 1.0
    whole: Literal["max", "min", "mean"] = "max"


@dataclass(frozen=True, slots=True)
class Rate:
    """The growth of a counter per second."""

    metric: Metric
    key: str
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Ratio:
    """The growth of a counter divided by another's, if the other grew by at least `least` per second."""

    metric: Metric
    above: str
    below: str
    scale: float = 1.0
    least: float = 0.0


@dataclass(frozen=True, slots=True)
class Total:
    """The growth of a counter over the trial. It has no series, because that would be a rate."""

    metric: Metric
    key: str
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class PerTransaction:
    """The growth of a counter over the trial, per transaction."""

    metric: Metric
    key: str
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class ClientShare:
    """The CPU seconds of the workload's client, divided by a counter's growth over the trial."""

    metric: Metric
    key: str


@dataclass(frozen=True, slots=True)
class TrialWork:
    """The workload's totals, for figures of the trial that refer to them."""

    transactions: int = 0
    client_cpu_seconds: float | None = None


Figure = Gauge | Rate | Ratio | Total | PerTransaction | ClientShare

_NOTHING: Mapping[str, float] = {}


def points(figures: Sequence[Figure], before: Reading, after: Reading, seconds: float) -> Iterator[Value]:
    """The points of all series for the interval between two neighbouring readings.

    >>> reads = Rate(Metric("reads", "reads", "1/s"), "reads")
    >>> [value for _, _, value in points([reads], {None: {"reads": 5}}, {None: {"reads": 15}}, 2.0)]
    [5.0]
    """
    for item, now in after.items():
        then = before.get(item, _NOTHING)
        for figure in figures:
            match figure:
                case Gauge(metric, key, scale):
                    value = now[key] * scale if key in now else None
                case Rate(metric, key, scale):
                    growth = _growth(then, now, key)
                    value = growth * scale / seconds if growth is not None and seconds > 0 else None
                case Ratio(metric):
                    value = _ratio(figure, then, now, seconds)
                case _:
                    continue
            if value is not None:
                yield metric, item, value


def totals(
    figures: Sequence[Figure], first: Reading, last: Reading, seconds: float, work: TrialWork
) -> Iterator[Value]:
    """The counters' figures for the trial as a whole. Items whose counters did not change are left out."""
    moved = {item: now for item, now in last.items() if item is None or now != first.get(item)}
    yield from points([figure for figure in figures if isinstance(figure, Rate | Ratio)], first, moved, seconds)
    for item, now in moved.items():
        then = first.get(item, _NOTHING)
        for figure in figures:
            value = _of_trial(figure, then, now, work)
            if value is not None:
                yield figure.metric, item, value


def _of_trial(figure: Figure, then: Mapping[str, float], now: Mapping[str, float], work: TrialWork) -> float | None:
    if not isinstance(figure, Total | PerTransaction | ClientShare):
        return None
    growth = _growth(then, now, figure.key)
    match figure:
        case Total(_, _, scale):
            return growth * scale if growth is not None else None
        case PerTransaction(_, _, scale):
            return growth * scale / work.transactions if growth is not None and work.transactions else None
        case ClientShare():
            return work.client_cpu_seconds / growth if growth and work.client_cpu_seconds is not None else None


def fold(gauge: Gauge, samples: Sequence[float]) -> float:
    """The number that represents all samples of a gauge; there is at least one sample.

    >>> fold(Gauge(Metric("free", "free", "bytes"), "free", whole="min"), [3.0, 1.0, 2.0])
    1.0
    """
    match gauge.whole:
        case "max":
            return max(samples)
        case "min":
            return min(samples)
        case "mean":
            return sum(samples) / len(samples)


def _growth(then: Mapping[str, float], now: Mapping[str, float], key: str) -> float | None:
    """The growth of a counter; one that did not exist before began at zero."""
    if key not in now:
        return None
    growth = now[key] - then.get(key, 0.0)
    return growth if growth >= 0 else None


def _ratio(ratio: Ratio, then: Mapping[str, float], now: Mapping[str, float], seconds: float) -> float | None:
    above, below = _growth(then, now, ratio.above), _growth(then, now, ratio.below)
    if above is None or not below or below < ratio.least * seconds:
        return None
    return above * ratio.scale / below

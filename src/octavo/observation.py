"""What a trial yields: numbers with their names and units."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Metric:
    """What a number means. `better` says which side is the good one, when there is one."""

    name: str
    title: str
    unit: str
    better: Literal["higher", "lower"] | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """One number of a trial. `item` is a query or a load step, or None for the trial as a whole."""

    metric: str
    value: float
    unit: str
    item: str | None = None
    repetition: int = 1


def observe(metric: Metric, value: float, *, item: str | None = None, repetition: int = 1) -> Observation:
    """An observation of this metric, in its unit."""
    return Observation(metric.name, value, metric.unit, item, repetition)

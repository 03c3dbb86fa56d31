"""The results of a trial: numbers with their names and units."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

_TIMES = ("us", "ms", "s", "seconds", "min")
# What a metric may be in: reports know how to write these.
UNITS = frozenset({
    "1", "1/s", "1/min", "fraction", "bytes", "B", "bytes/s", "kB", "kB/s", "MB", "MB/s", "blocks", "seconds", "s",
    "ms", "us",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Metric:
    """The definition of a number. `better` is the better direction, if there is one.

    With `warns` a report prints its title if any trial has it: as an alarm, or among the limitations.
    """

    name: str
    title: str
    unit: str
    better: Literal["higher", "lower"] | None = None
    warns: Literal["alarm", "limit"] | None = None

    def as_dict(self) -> dict[str, Any]:
        """For the store, by its name."""
        facts = {"title": self.title, "unit": self.unit, "better": self.better}
        return facts | ({"warns": self.warns} if self.warns else {})


def title_in_prose(title: str) -> str:
    """A metric's title within a sentence: without the source in brackets.

    >>> title_in_prose("median time of a run (Execution Time)")
    'median time of a run'
    """
    return title.split(" (")[0]


def verdict_terms(metric: Mapping[str, Any]) -> tuple[str, str]:
    """The words for more and for less of a metric, by its unit and better direction.

    Faster and slower are for times and rates.

    >>> verdict_terms({"better": "lower", "unit": "ms"}), verdict_terms({"better": "lower", "unit": "bytes"})
    (('slower', 'faster'), ('worse', 'better'))
    >>> verdict_terms({"unit": "bytes"})
    ('more', 'less')
    """
    better, unit = metric.get("better"), metric.get("unit", "")
    if better is None:
        return "more", "less"
    good, bad = ("faster", "slower") if unit in _TIMES or unit.endswith(("/s", "/min")) else ("better", "worse")
    return (good, bad) if better == "higher" else (bad, good)


@dataclass(frozen=True, slots=True)
class Observation:
    """One number of a trial. `item` is a query or a load step, or None for the trial as a whole."""

    metric: str
    value: float
    unit: str
    item: str | None = None
    repetition: int = 1

    def __reduce__(self) -> tuple[type["Observation"], tuple[str, float, str, str | None, int]]:
        """A trial has hundreds: what dataclasses with slots do asks for the names of the fields for each."""
        return Observation, (self.metric, self.value, self.unit, self.item, self.repetition)


def observe(metric: Metric, value: float, *, item: str | None = None, repetition: int = 1) -> Observation:
    """An observation of this metric, in its unit."""
    return Observation(metric.name, value, metric.unit, item, repetition)

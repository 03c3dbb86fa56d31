"""A snapshot of a server: every available figure, and the reasons for unavailable ones."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg

from octavo.errors import OctavoError
from octavo.instruments import instruments
from octavo.instruments.base import Sampled, UnavailableError
from octavo.instruments.figures import Item
from octavo.instruments.running import backend_cpu_seconds
from octavo.instruments.sampler import Sampler, SamplerClock
from octavo.instruments.target import Target
from octavo.observation import Metric

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class ShownFigure:
    """A figure at this moment; a rate or a ratio is that of the interval that ends here."""

    instrument: str
    metric: Metric
    item: Item
    value: float


@dataclass(frozen=True, slots=True)
class ServerSnapshot:
    """The data of one view. Times in seconds; `cost_share` is the monitoring overhead as a share of the CPUs."""

    time: float
    seconds: float
    server: Mapping[str, Any]
    figures: tuple[ShownFigure, ...]
    blind: Mapping[str, str]
    cost_share: float
    _index: dict[tuple[str, Item], float] = field(default_factory=dict[tuple[str, Item], float])

    def __post_init__(self) -> None:
        self._index.update({(shown.metric.name, shown.item): shown.value for shown in self.figures})

    def value(self, metric: str, item: Item = None) -> float | None:
        """The figure's value, or None where it is not to be had."""
        return self._index.get((metric, item))

    def items(self, metric: str) -> list[str]:
        """The items that have a value of this metric, in the order of the alphabet."""
        return sorted(item for name, item in self._index if name == metric and item is not None)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "time": self.time,
            "seconds": self.seconds,
            "server": dict(self.server),
            "figures": [
                {
                    "instrument": shown.instrument,
                    "metric": shown.metric.name,
                    "item": shown.item,
                    "value": shown.value,
                    "unit": shown.metric.unit,
                    "title": shown.metric.title,
                }
                for shown in self.figures
            ],
            "blind": [{"instrument": name, "reason": reason} for name, reason in self.blind.items()],
            "cost_share": self.cost_share,
        }


class ServerMonitor:
    """All sampled instruments on one server, read when asked."""

    def __init__(
        self, target: Target, server: Mapping[str, Any], gone: Callable[[], bool], clock: SamplerClock | None = None
    ) -> None:
        self._gone = gone
        self._target = target
        self._server = server
        self._sampler = Sampler(clock, keeps=False)
        self._blind: dict[str, str] = {}
        self._unopened: dict[str, Sampled] = {}
        self._looked = self._sampler.began
        self._backend = backend_cpu_seconds(target) or 0.0
        for name, instrument in instruments().items():
            if isinstance(instrument, Sampled):
                self._open(name, instrument)

    def _open(self, name: str, instrument: Sampled) -> None:
        """Opens an instrument, or notes why it is not available. If the server was too busy to answer in time, the next
        sample tries again."""
        self._unopened.pop(name, None)
        self._blind.pop(name, None)
        try:
            self._sampler.add(name, instrument, instrument.open(self._target))
        except UnavailableError as error:
            self._blind[name] = str(error)
        except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable) as error:
            self._blind[name] = f"the server did not answer in time: {' '.join(str(error).split())}"
            self._unopened[name] = instrument

    def sample(self) -> ServerSnapshot:
        """Reads everything again. Raises OctavoError when the server has gone."""
        self._sampler.sample_now()
        if self._gone():
            raise OctavoError("the server no longer responds; see its log")
        now = self._sampler.clock.now()
        elapsed = now - self._looked
        self._looked = now
        for name, instrument in list(self._unopened.items()):
            self._open(name, instrument)
        shown = [
            ShownFigure(recording.name, metric, item, value)
            for recording in self._sampler.recordings
            for metric, item, value in recording.latest
        ]
        recordings = self._sampler.recordings
        off = {one.name: reason for one in recordings if (reason := one.off or one.reader.lacking())}
        spent = sum(recording.cpu_seconds for recording in self._sampler.recordings)
        spent += (backend_cpu_seconds(self._target) or 0.0) - self._backend
        machine = (now - self._sampler.began) * (os.cpu_count() or 1)
        return ServerSnapshot(
            time.time(),
            elapsed,
            self._server,
            tuple(shown),
            {**self._blind, **off},
            spent / machine if machine else 0.0,
        )

    def close(self) -> None:
        """Closes the instruments."""
        self._sampler.close()

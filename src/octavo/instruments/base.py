"""The interface of an instrument, for runs and `octavo watch`.

There are two kinds. A *sampled* instrument reads counters and gauges periodically, at its own period, on the sampler's
one thread; a table of figures defines both the series of a trial and its totals. Any other instrument reads before and
after the run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from octavo.instruments.figures import Figure, Reading
from octavo.instruments.target import Target
from octavo.observation import Metric, Observation
from octavo.postgres.cluster import Server
from octavo.workloads.base import WorkloadResult

# Ends the observation and returns its result. The argument is the workload's result, for figures per transaction.
Stop = Callable[[WorkloadResult], list[Observation]]


# Keeps our own statements out of pg_stat_statements; has no effect if that is not loaded.
NOT_COUNTED = b"SET pg_stat_statements.track = 'none'"


class UnavailableError(Exception):
    """The instrument is not available because of the kernel, permissions or the server's version; the message is the
    reason."""


class NotAskedError(UnavailableError):
    """The plan does not use the instrument: it is off without a message."""


@dataclass(frozen=True, slots=True)
class Reader:
    """An opened instrument: `read` takes a reading, `close` releases its resources.

    `read` raises UnavailableError if no more readings are possible in this run. `lacking`: what the last reading lacks,
    and why; None if it is complete.
    """

    read: Callable[[], Reading]
    close: Callable[[], None] = lambda: None
    lacking: Callable[[], str | None] = lambda: None


@runtime_checkable
class Sampled(Protocol):
    """An instrument that is sampled during the run."""

    @property
    def figures(self) -> Sequence[Figure]:
        """The figures computed from its readings."""
        ...

    @property
    def period(self) -> float:
        """Seconds between two readings."""
        ...

    @property
    def asks_server(self) -> bool:
        """Whether it queries the server, whose backends report the rest of their statistics when their clients
        leave."""
        ...

    def open(self, target: Target) -> Reader:
        """Prepares for reading. Raises UnavailableError when it is not possible here."""
        ...


@runtime_checkable
class Instrument(Protocol):
    """An instrument that starts just before the measured run and stops just after it."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics of its observations."""
        ...

    def start(self, server: Server) -> Stop:
        """Starts the observation. Raises UnavailableError when it is not possible here."""
        ...

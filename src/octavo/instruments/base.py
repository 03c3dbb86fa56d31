"""What the laboratory asks of an instrument."""

from collections.abc import Callable
from typing import Protocol

from octavo.observation import Metric, Observation
from octavo.postgres.cluster import Server
from octavo.workloads.base import WorkloadResult

# Ends the watching and gives what was seen; it is told what the workload did, for figures per transaction.
Stop = Callable[[WorkloadResult], list[Observation]]


class UnavailableError(Exception):
    """The kernel, a right or the server's version lacks what the instrument reads; the reason is the message."""


class Instrument(Protocol):
    """An instrument is started just before the measured run and stopped just after it."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What its observations mean."""
        ...

    def start(self, server: Server) -> Stop:
        """Starts watching. Raises UnavailableError when it cannot here."""
        ...


def per_transaction(total: float, result: WorkloadResult) -> float | None:
    """The total divided by the transactions, or None when there were none."""
    return total / result.transactions if result.transactions else None

"""Transactions per second of clients that compete for resources: a closed queueing network, by mean value analysis.

M. Reiser and S. S. Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks", J. ACM 27 (1980). A station
with several servers is modelled as one server with a part of its demand, and a delay (A. Seidmann, P. Schweitzer, S.
Shalev-Oren, "Computerized closed queueing network models of flexible manufacturing systems", 1987).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Station:
    """The service time in seconds that a transaction needs of a resource with so many servers."""

    name: str
    demand: float
    servers: int = 1


@dataclass(frozen=True, slots=True)
class Throughput:
    """Transactions per second and the response time in seconds, without think time. For each station, by name, its
    utilization and the seconds that a transaction spends there."""

    per_second: float
    latency: float
    used: dict[str, float]
    waited: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def bottleneck(self) -> str:
        """The station with the highest utilization."""
        return max(self.used, key=lambda name: self.used[name]) if self.used else ""


def throughput(stations: Sequence[Station], clients: int, delay: float = 0.0, think: float = 0.0) -> Throughput:
    """The throughput of so many clients. `delay` is time of a transaction without queueing; `think` is between
    transactions.

    One client never waits; many clients reach the rate of the slowest station.

    >>> cpu = [Station("cpu", 0.001, 2)]
    >>> round(throughput(cpu, 1).per_second), round(throughput(cpu, 100).per_second)
    (1000, 2000)
    """
    queues = [station for station in stations if station.demand > 0]
    parts = [station.demand / station.servers for station in queues]
    fixed = delay + sum(station.demand - part for station, part in zip(queues, parts, strict=True))
    lengths = [0.0] * len(parts)
    rate, response, waits = 0.0, fixed, parts
    for population in range(1, max(1, clients) + 1):
        waits = [part * (1 + length) for part, length in zip(parts, lengths, strict=True)]
        response = fixed + sum(waits)
        if response + think <= 0:
            return Throughput(float("inf"), 0.0, {})
        rate = population / (response + think)
        lengths = [rate * wait for wait in waits]
    return Throughput(
        rate,
        response,
        {one.name: rate * part for one, part in zip(queues, parts, strict=True)},
        {one.name: wait for one, wait in zip(queues, waits, strict=True)},
    )

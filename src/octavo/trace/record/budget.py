"""The share of time that is recorded through probes, so that the overhead on the server stays within its limit."""

from dataclasses import dataclass

from octavo.trace.record.probes import MICROSECONDS_AN_EVENT
from octavo.trace.record.server import AccessCounters

# The seconds of a slice with probes; shorter ones would consist mostly of attaching.
SLICE_SECONDS = 2.0
_SHORTEST_SLICE = 0.5
# The seconds for attaching and detaching.
_ATTACH_SECONDS = 1.0
# The assumed slowdown by probes until it is measured, a half: pgbench -S became 58 % slower.
FIRST_SLOWDOWN = 0.5


@dataclass(frozen=True, slots=True)
class Cost:
    """Lookups per second, the share of the busy processors that probes would use, and the share of the time to
    record."""

    lookups: float
    share: float
    duty: float

    @property
    def slower(self) -> float:
        """How much slower sessions that are busy all the time would be with probes, as a fraction.

        >>> Cost(0.0, 1.0, 0.05).slower
        0.5
        """
        return self.share / (1 + self.share)


def busy_processors(processors: int, sessions: float) -> float:
    """How many processors so many active sessions keep busy, at most. A few sessions are slowed down by their own
    probes, however many processors the host has.

    >>> busy_processors(64, 2.0), busy_processors(2, 8.0), busy_processors(2, 0.1)
    (2.0, 2, 1.0)
    """
    return min(processors, max(1.0, sessions))


def cost_of(before: AccessCounters, after: AccessCounters, processors: float, most_overhead: float | None) -> Cost:
    """Estimates the cost from the server's counters at two times, and the processors that it keeps busy.

    >>> one, two = AccessCounters(0.0, 0, 0, 0, 0), AccessCounters(1.0, 30_000, 0, 0, 0)
    >>> cost = cost_of(one, two, 2, 0.05)
    >>> cost.lookups, round(cost.share, 3), round(cost.duty, 3)
    (30000.0, 0.225, 0.222)
    """
    lookups = (after.lookups - before.lookups) / max(1e-3, after.at - before.at)
    share = lookups * MICROSECONDS_AN_EVENT / 1e6 / processors
    duty = 1.0 if most_overhead is None or share <= most_overhead else most_overhead / share
    return Cost(lookups, share, duty)


def slowdown(with_probes: float, without: float) -> float:
    """How much slower transactions are while probes are attached, as a fraction.

    >>> slowdown(40.0, 100.0), slowdown(1.0, 0.0)
    (0.6, 0.0)
    """
    return 1 - with_probes / without if without else 0.0


def slice_seconds(whole: float, slower: float, most: float) -> float:
    """The length of a slice in seconds; it is shorter if the whole time is too short for a long one.

    >>> slice_seconds(60.0, 0.5, 0.05), slice_seconds(20.0, 0.5, 0.05), slice_seconds(1.0, 0.5, 0.05)
    (2.0, 1.0, 0.5)
    """
    return min(SLICE_SECONDS, max(_SHORTEST_SLICE, most * whole / slower - _ATTACH_SECONDS))


def idle_seconds(with_probes: float, elapsed: float, slower: float, most: float) -> float:
    """The pause in seconds that brings the average cost of the probes below the limit.

    >>> round(idle_seconds(3.0, 4.0, 0.5, 0.05)), idle_seconds(3.0, 40.0, 0.5, 0.05)
    (26, 0.0)
    """
    return max(0.0, with_probes * slower / most - elapsed)


class Speed:
    """Transactions per second over several stretches of time, without those in which the counters were reset."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._counted_seconds = 0.0
        self._transactions = 0

    def add(self, before: AccessCounters, after: AccessCounters) -> None:
        self.seconds += after.at - before.at
        if after.transactions >= before.transactions:
            self._counted_seconds += after.at - before.at
            self._transactions += after.transactions - before.transactions

    @property
    def rate(self) -> float:
        return self._transactions / self._counted_seconds if self._counted_seconds else 0.0

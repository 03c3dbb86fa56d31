"""Messages between the coordinator and a host: orders to measure, and their results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from octavo.host.journal import Journal
from octavo.lab.bench import Bench, Clock
from octavo.lab.events import Notify
from octavo.plan.cells import Cell
from octavo.plan.model import Plan
from octavo.store.records import TrialRecord


def seed_of_host(seed: int, number: int) -> int:
    """The seed of a host. Every host has another order of cells, so a drift common to all hosts does not hit the same
    cells."""
    return (seed * 1_000_033 + number) % 2**31


@dataclass(frozen=True, slots=True)
class RunOrder:
    """A run as the coordinator describes it to a host. `number`: the host's number in this run, from 1. `room`: the
    space for its datasets in bytes, None before it is known. `octavo`: the digest of the coordinator's Octavo.
    `host_class`: the host's class from the hosts file, or as it said before the run; None if it did not answer."""

    run: str
    plan: Mapping[str, Any]
    cells: tuple[Cell, ...]
    seed: int
    host: str
    number: int
    octavo: str
    prepare: "Prepare"
    room: int | None = None
    host_class: str | None = None

    @property
    def seed_of_host(self) -> int:
        """See `seed_of_host`."""
        return seed_of_host(self.seed, self.number)

    def is_same(self, other: "RunOrder") -> bool:
        """Whether the other order is this one again. Its room may differ: the coordinator learns it from the host."""
        return replace(self, room=other.room) == other


@dataclass(frozen=True, slots=True)
class PartOrder:
    """A host's share of a round. `have`: for each outbox of this host, the last trial up to which the coordinator has
    all.

    `part`: the number of the first part when these cells are measured again in a round that the host has finished; None
    numbers the parts from the host's first. `done`: the host's trials of this round that the coordinator has, without
    observations.
    """

    run: str
    round: int
    cells: tuple[str, ...]
    have: Mapping[str, int]
    part: int | None = None
    done: tuple[TrialRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A host that is ready. `cannot`: the cells that it cannot run, by id, with the reason. `host_class`: its class.
    `loads`: the loads that it already has; see Ready. `measured`: the number of the last trial in its outbox."""

    environment: Mapping[str, Any]
    cannot: Mapping[str, str]
    room: int
    host_class: str = ""
    loads: Mapping[str, str] = field(default_factory=dict[str, str])
    measured: int = 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """The trials that a host has measured and the coordinator does not have yet, with their numbers in the outbox, in
    order.

    `now`: the host's clock at sending, in seconds since the epoch. `after`: the number of the last trial delivered
    before.
    """

    outbox: str
    trials: tuple[tuple[int, TrialRecord], ...]
    now: float
    notices: tuple[str, ...] = ()
    after: int = 0


@dataclass(frozen=True, slots=True)
class Ready:
    """A host prepared for a run. `close` releases what was held for the whole run. `loads`: the run's loads that the
    host has, by name, each with an identity that only copies of it share."""

    bench: Bench
    clock: Clock
    environment: Mapping[str, Any]
    close: Callable[[], None]
    cannot: Mapping[str, str] = field(default_factory=dict[str, str])
    room: int = 0
    loads: Callable[[], Mapping[str, str]] = dict[str, str]


class Prepare(Protocol):
    """Prepares a host for a run: its builds, its huge pages. It is pickled by name."""

    def __call__(self, order: RunOrder, plan: Plan, journal: Journal, notify: Notify) -> Ready: ...

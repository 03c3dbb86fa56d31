"""Messages between the coordinator and a host: orders to measure, and their results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from octavo.host.journal import Journal
from octavo.lab.bench import Bench, Clock
from octavo.lab.events import Notify
from octavo.plan.cells import Cell
from octavo.plan.model import Plan
from octavo.store.records import TrialRecord


def seed_of_host(seed: int, number: int) -> int:
    """Another order on every host: what drifts on all of them at once does not meet the same cells."""
    return (seed * 1_000_033 + number) % 2**31


@dataclass(frozen=True, slots=True)
class RunOrder:
    """A run as a host is told of it. `number` is the host's in this run, from 1; `room` what its datasets may take,
    in bytes, None before that is known; `octavo` the digest of the coordinator's Octavo; `host_class` the host's class
    where the file of hosts says it."""

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


@dataclass(frozen=True, slots=True)
class PartOrder:
    """A host's share of a round. `have`: of each outbox of this host up to which trial the coordinator has all.

    `part` is the number of its first part, where these cells are measured again in a round that the host has finished;
    else the parts are numbered from the first of the host's. `done`: what the coordinator has of the host in this
    round, without observations.
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
    `loads`: those that it has already; see Ready."""

    environment: Mapping[str, Any]
    cannot: Mapping[str, str]
    room: int
    host_class: str = ""
    loads: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a host has measured and the coordinator does not have yet: by number in its outbox, in order.

    `now` is the host's clock when it was sent, in seconds since the epoch. `after`: what was delivered before ends with
    this number.
    """

    outbox: str
    trials: tuple[tuple[int, TrialRecord], ...]
    now: float
    notices: tuple[str, ...] = ()
    after: int = 0


@dataclass(frozen=True, slots=True)
class Ready:
    """Where a host measures. `close` gives back what the whole run had; `loads` are the loads of the run that the host
    has by now: by name an identity that only copies have in common."""

    bench: Bench
    clock: Clock
    environment: Mapping[str, Any]
    close: Callable[[], None]
    cannot: Mapping[str, str] = field(default_factory=dict[str, str])
    room: int = 0
    loads: Callable[[], Mapping[str, str]] = dict[str, str]


class Prepare(Protocol):
    """Makes a host ready for a run: its builds, its huge pages. It travels by its name."""

    def __call__(self, order: RunOrder, plan: Plan, journal: Journal, notify: Notify) -> Ready: ...

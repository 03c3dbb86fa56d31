"""Events of a fleet during a run, as reported to the coordinator."""

from dataclasses import dataclass

from octavo.fleet.orders import Delivery, PartOrder, Report


@dataclass(frozen=True, slots=True)
class Came:
    """A host is there, for the first time or again."""

    host: str


@dataclass(frozen=True, slots=True)
class Left:
    """A host is away: what it was asked will not be answered."""

    host: str


@dataclass(frozen=True, slots=True)
class Began:
    """A host is ready for the run."""

    host: str
    report: Report


@dataclass(frozen=True, slots=True)
class Delivered:
    """A host has measured what `order` says, or had something left. `received`: when that was here, in seconds since
    the epoch."""

    host: str
    delivery: Delivery
    received: float
    order: PartOrder | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A host cannot do it."""

    host: str
    why: str


HostEvent = Came | Left | Began | Delivered | Refused

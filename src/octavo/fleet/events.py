"""Events of a fleet during a run, as reported to the coordinator."""

from dataclasses import dataclass

from octavo.fleet.orders import Delivery, PartOrder, Report


@dataclass(frozen=True, slots=True)
class Came:
    """A host has connected, for the first time or again."""

    host: str


@dataclass(frozen=True, slots=True)
class Left:
    """A host has disconnected: it will not answer pending requests."""

    host: str


@dataclass(frozen=True, slots=True)
class Began:
    """A host is ready for the run."""

    host: str
    report: Report


@dataclass(frozen=True, slots=True)
class Delivered:
    """A host has measured `order`, or has delivered remaining trials (`order` is None). `received`: when they arrived
    at the coordinator, in seconds since the epoch."""

    host: str
    delivery: Delivery
    received: float
    order: PartOrder | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A host cannot carry out what it was asked for."""

    host: str
    why: str


HostEvent = Came | Left | Began | Delivered | Refused

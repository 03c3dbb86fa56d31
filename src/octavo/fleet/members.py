"""The hosts of a run as its rounds see them: the parts that each measures, and its state."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from octavo.fleet.events import HostEvent
from octavo.fleet.orders import PartOrder, Report
from octavo.plan.cells import Cell


class Hosts(Protocol):
    """Where parts are measured; see `dask_hosts`."""

    def measure(self, host: str, order: PartOrder) -> None:
        """Asks a host for a part, after what it was asked for before."""
        ...

    def narrow(self, run: str, cells: Collection[str]) -> None:
        """Tells all hosts that of what they were asked for only these cells are still open."""
        ...

    def hold(self, run: str, names: Collection[str]) -> None:
        """Tells these hosts that the run goes on, so that they do not give way to another one."""
        ...

    def next_event(self, seconds: float) -> HostEvent | None:
        """What happened next; None when nothing does for so long."""
        ...


class Crew(Protocol):
    """What is known of the hosts of a run; see `session`."""

    def begin(self, numbers: Mapping[str, int]) -> None:
        """Asks these hosts, with their numbers in the run, to make themselves ready."""
        ...

    def began(self, host: str, report: Report) -> str | None:
        """Takes what a host is; why it is not to take part, if so."""
        ...

    def keep(self) -> None:
        """Stores what `began` took."""
        ...


@dataclass(slots=True)
class Asked:
    """A part that a host was asked for. `since`: when it could begin with it."""

    order: PartOrder
    cells: Sequence[Cell]
    since: float


@dataclass(slots=True)
class Member:
    """A host in this run. `round`: the last one that it has finished, or that was finished without it."""

    name: str
    number: int
    state: Literal["away", "beginning", "ready", "refused"] = "away"
    round: int = 0
    asked: list[Asked] = field(default_factory=list[Asked])
    again: deque[tuple[int, Sequence[Cell], int]] = field(default_factory=deque[tuple[int, Sequence[Cell], int]])
    since: float = 0.0
    expected: bool = True
    cannot: Mapping[str, str] | None = None
    why: str = ""

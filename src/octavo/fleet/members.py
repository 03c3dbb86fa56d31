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
        """Queues a part on a host, after its earlier orders."""
        ...

    def narrow(self, run: str, cells: Collection[str]) -> None:
        """Tells all hosts that only these cells of their orders are still undecided."""
        ...

    def hold(self, run: str, names: Collection[str]) -> None:
        """Tells these hosts that the run is still active, so that no other run replaces it."""
        ...

    def next_event(self, seconds: float) -> HostEvent | None:
        """Returns the next event, or None when there is none within so many seconds."""
        ...


class Crew(Protocol):
    """What is known about the hosts of a run; see `session`."""

    def begin(self, numbers: Mapping[str, int]) -> None:
        """Asks these hosts, with their numbers in the run, to prepare for it."""
        ...

    def began(self, host: str, report: Report) -> str | None:
        """Records a host's report. Returns the reason when the host may not take part, otherwise None."""
        ...

    def keep(self) -> None:
        """Stores what `began` recorded."""
        ...


@dataclass(slots=True)
class Asked:
    """A part that a host was asked to measure. `since`: when the host could begin with it."""

    order: PartOrder
    cells: Sequence[Cell]
    since: float


@dataclass(slots=True)
class Member:
    """A host in this run. `round`: the last round that it has finished, or that the others finished without it.

    `since`: since when it has been away. `measured`: see Report. `failing`: it was lost and has measured nothing since,
    however often it has come back meanwhile. `expected`: the others wait for it.
    """

    name: str
    number: int
    state: Literal["away", "beginning", "ready", "refused"] = "away"
    round: int = 0
    asked: list[Asked] = field(default_factory=list[Asked])
    again: deque[tuple[int, Sequence[Cell], int]] = field(default_factory=deque[tuple[int, Sequence[Cell], int]])
    since: float = 0.0
    measured: int = 0
    failing: bool = False
    expected: bool = True
    cannot: Mapping[str, str] | None = None
    why: str = ""

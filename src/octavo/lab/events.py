"""What the laboratory tells while it works; how it is shown is not its concern."""

from collections.abc import Callable
from dataclasses import dataclass

from octavo.plan.cells import Cell
from octavo.store.records import TrialRecord


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """A build is made: `done` of `total` steps."""

    name: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Preparing:
    """Something of the preparation has begun, in words."""

    what: str


@dataclass(frozen=True, slots=True)
class TrialStarted:
    """A trial has begun."""

    cell: Cell
    round: int
    rounds: int
    number: int
    total: int


@dataclass(frozen=True, slots=True)
class TrialEnded:
    """A trial was stored. `ratios` are the primary metric's ratios to the baseline so far, by condition and label."""

    cell: Cell
    record: TrialRecord
    number: int
    total: int
    ratios: dict[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the user should know, said once."""

    text: str


Event = BuildProgress | Preparing | TrialStarted | TrialEnded | Notice
Notify = Callable[[Event], None]

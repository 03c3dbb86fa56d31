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
class Estimated:
    """What lies ahead, in seconds, before anything is known of it."""

    prepare_seconds: float
    trial_seconds: float
    trials: int


@dataclass(frozen=True, slots=True)
class RoundsStarted:
    """Everything is prepared and the rounds begin; `trials` are those of an earlier session."""

    cells: tuple[Cell, ...]
    trials: tuple[TrialRecord, ...]


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
    """A trial was stored."""

    cell: Cell
    record: TrialRecord
    number: int
    total: int


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the user should know, said once."""

    text: str


Event = BuildProgress | Preparing | Estimated | RoundsStarted | TrialStarted | TrialEnded | Notice
Notify = Callable[[Event], None]

"""Progress events of a run; others display them."""

from collections.abc import Callable
from dataclasses import dataclass

from octavo.plan.cells import Cell
from octavo.postgres.builds.stages import BuildStep
from octavo.store.records import TrialRecord


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """A build is made."""

    step: BuildStep


@dataclass(frozen=True, slots=True)
class Preparing:
    """Something of the preparation has begun, in words."""

    what: str


@dataclass(frozen=True, slots=True)
class Estimated:
    """What lies ahead, in seconds, before anything is known of it; the budget ends the run earlier.

    Without repetitions of invalid trials, which are `repeat_seconds` at most.
    """

    prepare_seconds: float
    trial_seconds: float
    repeat_seconds: float
    trials: int
    budget_seconds: float | None


@dataclass(frozen=True, slots=True)
class RoundsStarted:
    """The builds are there and the rounds begin; `trials` are those of an earlier session."""

    cells: tuple[Cell, ...]
    trials: tuple[TrialRecord, ...]


@dataclass(frozen=True, slots=True)
class RoundStarted:
    """A round begins, or goes on: how many cells are undecided, and how many decided. Neither those that
    cannot run nor those that are given up are counted.

    `waiting`: so many of the undecided ones are not measured in it, since the budget goes to others. `seconds_left` is
    what the budget still has, None without one; `rounds` is the most there can be.
    """

    round: int
    rounds: int | None
    undecided: int
    decided: int
    seconds_left: float | None
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class TrialStarted:
    """A trial has begun: its position within the round; `repetition` counts from 1 where an invalid one is repeated."""

    cell: Cell
    round: int
    number: int
    total: int
    repetition: int = 0


@dataclass(frozen=True, slots=True)
class TrialEnded:
    """A trial was stored; `number` and `repetition` as in TrialStarted."""

    cell: Cell
    record: TrialRecord
    number: int
    total: int
    repetition: int = 0


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the user should know, said once."""

    text: str


@dataclass(frozen=True, slots=True)
class TurnsGoOn:
    """A round in slices so far: by cell the ratio to the baseline with about 95 % for this round; no verdict.

    An interval without width is none.

    `done` is the part of what is wanted. `ended` says that this is all of the round.
    """

    round: int
    ratios: tuple[tuple[Cell, float, float, float], ...]
    done: float
    ended: bool


Event = (
    TurnsGoOn
    | BuildProgress
    | Preparing
    | Estimated
    | RoundsStarted
    | RoundStarted
    | TrialStarted
    | TrialEnded
    | Notice
)
Notify = Callable[[Event], None]

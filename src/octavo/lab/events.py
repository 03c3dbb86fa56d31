"""Progress events of a run; other modules display them."""

from collections.abc import Callable
from dataclasses import dataclass

from octavo.plan.cells import Cell
from octavo.postgres.builds.stages import BuildStep
from octavo.store.records import TrialRecord


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """A build is being made."""

    step: BuildStep


@dataclass(frozen=True, slots=True)
class Preparing:
    """A step of the preparation has begun; `what` describes it."""

    what: str


@dataclass(frozen=True, slots=True)
class Estimated:
    """The estimated time of the run in seconds, before it begins; the budget may end the run earlier.

    It excludes repetitions of invalid trials, which take at most `repeat_seconds`.
    """

    prepare_seconds: float
    trial_seconds: float
    repeat_seconds: float
    trials: int
    budget_seconds: float | None


@dataclass(frozen=True, slots=True)
class RoundsStarted:
    """The builds exist and the rounds begin. `trials`: those of earlier sessions."""

    cells: tuple[Cell, ...]
    trials: tuple[TrialRecord, ...]


@dataclass(frozen=True, slots=True)
class RoundStarted:
    """A round begins or continues: the numbers of undecided and decided cells. Cells that cannot run, or were given up,
    are not counted.

    `waiting`: the number of undecided cells that this round does not measure, because the budget goes to others.
    `seconds_left`: the rest of the budget, None without one. `rounds`: the maximum.
    """

    round: int
    rounds: int | None
    undecided: int
    decided: int
    seconds_left: float | None
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class TrialStarted:
    """A trial has begun: its position within the round. `repetition` counts from 1 for repetitions of an invalid
    trial."""

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
    """Information for the user, shown once."""

    text: str


@dataclass(frozen=True, slots=True)
class TurnsGoOn:
    """The state of a round in slices: by cell the ratio to the baseline with about 95 % for this round, not a verdict.

    An interval of zero width means that there is none.

    `done` is the completed fraction. `ended`: the round is complete.
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

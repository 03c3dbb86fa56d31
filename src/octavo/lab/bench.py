"""The interface between the sequence of trials and a trial: a bench measures one cell, a clock gives the time."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from octavo.observation import Observation
from octavo.plan.cells import Cell
from octavo.series import Series
from octavo.store.records import TrialStatus


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result of one trial, with its validity."""

    status: TrialStatus
    reason: str | None
    observations: tuple[Observation, ...] = ()
    settings: Mapping[str, str] | None = None
    build: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    series: tuple[Series, ...] = ()


class Bench(Protocol):
    """Where cells are measured: PostgreSQL on this host, or a stand-in in tests of order and stopping."""

    def cannot_run(self, cell: Cell) -> str | None:
        """Why this host cannot run the cell, or None if it can."""
        ...

    def parts(self, cells: Sequence[Cell]) -> list[list[Cell]]:
        """A round's cells in as few parts as disk and memory allow, each with its baselines."""
        ...

    def prepare(self, cells: Sequence[Cell], round_number: int) -> None:
        """Prepares everything that the cells need in this round, before its first trial. A cell that fails here fails
        its trials."""
        ...

    def measure(self, cell: Cell, *, load: int, seed: int) -> Measurement:
        """Runs one trial. An error of the trial is a `failed` measurement, not an exception."""
        ...

    def takes_turns(self, cells: Sequence[Cell]) -> bool:
        """Whether these cells, all of one round and condition, should be measured at once, by `measure_by_turns`."""
        ...

    def measure_by_turns(
        self, cells: Sequence[Cell], loads: Sequence[int], *, round_number: int, seed: int
    ) -> list[Measurement] | None:
        """Runs one trial of each cell at once. Returns None when this proved useless; then they are measured one by
        one.

        The first cell is the baseline if there is one. An error of a trial is a `failed` measurement.
        """
        ...


class Clock(Protocol):
    """The source of the time."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...


class WallClock:
    """The host's clock."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

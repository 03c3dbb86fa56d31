"""Turns over the pieces of a trial, such as queries: a slice is one piece of one cell, and ends when the piece does.

Piece by piece all cells take turns in a balanced order, each alone while the others stand still, so that what is
compared lies seconds apart and not a whole trial. A turn in which others took more of the CPU from one slice than from
another is run again for all cells, as long as no more than half as many turns again are needed; of a piece's turns the
least disturbed one counts. Which that is depends on what others did, and on no cell's numbers.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import psycopg

from octavo.errors import OctavoError
from octavo.lab.failure_reason import failure_reason
from octavo.lab.slices.count import DisturbanceLimits, Slice, disturbance
from octavo.lab.slices.freeze import Freezer
from octavo.lab.slices.turns import Meter, TurnsClock
from octavo.workloads.base import Piece, PieceRun, Pieces

# Turns that are run again, as a share of those that there must be.
_MOST_AGAIN = 0.5


@dataclass(slots=True)
class PieceRunner:
    """A cell with its pieces, standing still between its slices. `ran` is for how long it has not, in seconds;
    `error` says why it is out."""

    freezer: Freezer
    pieces: Pieces
    ran: float = 0.0
    error: str | None = None

    def run(self, piece: Piece, clock: TurnsClock) -> tuple[float, float, PieceRun | None]:
        """One slice: when the cell was let go and when it was stopped, and what it gave; None puts the cell out."""
        began = clock.now()
        self.freezer.thaw()
        found: PieceRun | None = None
        try:
            found = self.pieces.run(piece)
        except (OctavoError, psycopg.Error) as error:
            self.error = failure_reason(error)
        ended = clock.now()
        self.freezer.freeze()
        self.ran += clock.now() - began
        return began, ended, found


@dataclass(slots=True)
class PieceTurns:
    """What ran: by turn the slices of the cells that were in, by place; seconds of the pieces' turns that count."""

    slices: list[list[Slice]] = field(default_factory=list[list[Slice]])
    disturbances: list[float] = field(default_factory=list[float])
    kept: int = 0
    seconds: list[list[float]] = field(default_factory=list[list[float]])

    def facts(self) -> dict[str, Any]:
        """For the facts of each cell's trial."""
        every = [one for turn in self.slices for one in turn]
        facts: dict[str, Any] = {
            "interleave": "slices",
            "turns": len(self.slices),
            "turns_dropped": len(self.slices) - self.kept,
            "turns_disturbed": sum(one > 1 for one in self.disturbances),
        }
        if every:
            facts |= {
                "slice_seconds": median(one.ended - one.began for one in every),
                "steal_share": math.fsum(one.steal for one in every) / len(every),
                "foreign_cpu_share": math.fsum(one.foreign for one in every) / len(every),
            }
        return facts


@dataclass(slots=True)
class _Turn:
    """One turn that ran: how disturbed it was, and by place what each cell gave."""

    disturbance: float
    runs: dict[int, PieceRun]


def run(
    runners: Sequence[PieceRunner],
    names: Sequence[Piece],
    orders: Iterator[list[int]],
    limits: DisturbanceLimits,
    meter: Meter,
    clock: TurnsClock,
    show: Callable[[PieceTurns], None],
) -> PieceTurns:
    """All pieces of all cells. A cell whose piece fails has no more slices. `show` is called after each piece."""
    turns = PieceTurns()
    again = math.floor(_MOST_AGAIN * len(names))
    for piece in names:
        best: _Turn | None = None
        while True:
            order = [place for place in next(orders) if runners[place].error is None]
            if not order:
                return turns
            turn = _one(runners, piece, order, limits, meter, clock, turns)
            if best is None or turn.disturbance < best.disturbance:
                best = turn
            if turn.disturbance <= 1 or again == 0:
                break
            again -= 1
        turns.kept += 1
        for found in best.runs.values():
            found.keep()
        if len(best.runs) == len(runners):
            turns.seconds.append([best.runs[place].seconds for place in range(len(runners))])
        show(turns)
    return turns


def _one(
    runners: Sequence[PieceRunner],
    piece: Piece,
    order: Sequence[int],
    limits: DisturbanceLimits,
    meter: Meter,
    clock: TurnsClock,
    turns: PieceTurns,
) -> _Turn:
    number = len(turns.slices)
    slices: list[Slice] = []
    runs: dict[int, PieceRun] = {}
    before = meter.read()
    for place in order:
        began, ended, found = runners[place].run(piece, clock)
        after = meter.read()
        slices.append(Slice(number, began, ended, *meter.shares(before, after)))
        before = after
        if found is not None:
            runs[place] = found
    turns.slices.append(slices)
    turns.disturbances.append(disturbance(slices, limits))
    return _Turn(turns.disturbances[-1], runs)

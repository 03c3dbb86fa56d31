"""Turns over the pieces of a trial, such as queries: all cells take turns on one piece, then on the next.

If a cell can be paused within a piece, all cells begin the piece, and each runs in short slices, in a balanced order,
until its piece has ended: compared slices are fractions of a second apart, and slow noise of the machine affects all
cells equally. A piece's time is that of its slices. If it cannot (cold caches, limited devices, no control groups) a
slice is a whole piece.

A turn in which others took more CPU from one cell than from another is repeated for all cells, up to half as many turns
again; the least disturbed turn of a piece counts. Which one that is depends on other processes, never on a cell's
results. A piece that cannot be repeated, such as a step of a load, counts in any case.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from octavo.lab.failure_reason import failure_reason
from octavo.lab.slices.count import DisturbanceLimits, Slice, disturbance
from octavo.lab.slices.disturbance import CpuSnapshot
from octavo.lab.slices.freeze import Freezer, nothing_to_prepare
from octavo.lab.slices.turns import Meter, TurnsClock
from octavo.workloads.base import BegunPiece, Piece, PieceRun, Pieces

# The most repeated turns, as a share of the required ones.
_MOST_AGAIN = 0.5


@dataclass(slots=True)
class PieceRunner:
    """A cell with its pieces, paused between its slices. `ran` is its running time in seconds; `error` is the reason
    why it dropped out. `prepare` is called before each slice, and is not part of it."""

    freezer: Freezer
    pieces: Pieces
    ran: float = 0.0
    error: str | None = None
    prepare: Callable[[], None] = nothing_to_prepare
    _begun: BegunPiece | None = None
    _sent: bool = False
    _cancelled: bool = False

    def begin(self, piece: Piece, clock: TurnsClock) -> None:
        """Prepares a piece, which is not part of its time."""
        self._begun, self._sent, self._cancelled = None, False, False

        def prepare() -> None:
            self._begun = self.pieces.begin(piece)

        self._let_go(prepare, clock)

    def run(self, seconds: float, used: float, clock: TurnsClock) -> tuple[float, float, bool]:
        """Runs one slice of at most `seconds` of a piece that has already run for `used` seconds. Returns when the cell
        was continued and when it was paused, and whether the piece has ended. The slice ends when the piece ends or
        fails."""
        begun, ended, until = self._begun, False, 0.0
        assert begun is not None

        def go_on() -> None:
            nonlocal ended, until
            try:
                if not self._sent:
                    begun.running.go()
                    self._sent = True
                if used >= begun.timeout and not self._cancelled:
                    begun.running.cancel()
                    self._cancelled = True
                left = math.inf if self._cancelled else begun.timeout - used
                ended = begun.running.wait(min(seconds, left))
            finally:
                until = clock.now()

        began, stood_still = self._let_go(go_on, clock)
        return began, until if ended else stood_still, ended or self.error is not None

    def end(self, seconds: float, clock: TurnsClock) -> PieceRun | None:
        """The result of the piece, which took so many seconds; None drops the cell."""
        found: PieceRun | None = None

        def finish() -> None:
            nonlocal found
            assert self._begun is not None
            found = self._begun.end(seconds)

        if self.error is None:
            self._let_go(finish, clock)
        return found

    def _let_go(self, do: Callable[[], None], clock: TurnsClock) -> tuple[float, float]:
        self.prepare()
        began = clock.now()
        self.freezer.thaw()
        try:
            do()
        except Exception as error:  # except one that would fail every later trial
            self.error = failure_reason(error)
        self.freezer.freeze()
        ended = clock.now()
        self.ran += ended - began
        return began, ended


@dataclass(slots=True)
class PieceTurns:
    """The result: by turn each cell's slices combined, in the first order of the turn; the seconds of the turns that
    count, by item and repetition; the number of completed items. `slice_seconds` is the length of a slice, None if it
    was a whole piece."""

    slice_seconds: float | None = None
    slices: list[list[Slice]] = field(default_factory=list[list[Slice]])
    disturbances: list[float] = field(default_factory=list[float])
    kept: int = 0
    items: int = 0
    seconds: dict[str, list[list[float]]] = field(default_factory=dict[str, list[list[float]]])

    def totals(self) -> list[float]:
        """By cell, the seconds of the items so far, with the median of each item's repetitions."""
        medians = [[median(cell) for cell in zip(*repetitions, strict=True)] for repetitions in self.seconds.values()]
        return [math.fsum(cell) for cell in zip(*medians, strict=True)]

    def facts(self) -> dict[str, Any]:
        """The facts for each cell's trial."""
        every = [one for turn in self.slices for one in turn]
        facts: dict[str, Any] = {
            "interleave": "slices",
            "turns": len(self.slices),
            "turns_dropped": len(self.slices) - self.kept,
            "turns_disturbed": sum(one > 1 for one in self.disturbances),
        }
        if every:
            facts |= {
                "slice_seconds": self.slice_seconds or median(one.ended - one.began for one in every),
                "steal_share": math.fsum(one.steal for one in every) / len(every),
                "foreign_cpu_share": math.fsum(one.foreign for one in every) / len(every),
            }
        return facts


@dataclass(slots=True)
class _Turn:
    """One turn that ran: its disturbance, and the result of each cell by index."""

    disturbance: float
    runs: dict[int, PieceRun]


@dataclass(slots=True)
class _CellSlices:
    """A cell's slices of one turn: when the first began, their seconds, and the CPU that others took during them."""

    began: float | None = None
    seconds: float = 0.0
    steal: float = 0.0
    foreign: float = 0.0

    def add(self, began: float, ended: float, steal: float, foreign: float) -> None:
        """Adds a slice, with the shares of the machine that others took."""
        self.began = began if self.began is None else self.began
        self.seconds += ended - began
        self.steal += steal * (ended - began)
        self.foreign += foreign * (ended - began)

    def together(self, turn: int) -> Slice:
        """The slices as one, with the shares over all of its time."""
        began, seconds = self.began or 0.0, self.seconds
        shares = (self.steal / seconds, self.foreign / seconds) if seconds > 0 else (0.0, 0.0)
        return Slice(turn, began, began + seconds, *shares)


def run(
    runners: Sequence[PieceRunner],
    items: Sequence[str],
    orders: Iterator[list[int]],
    slice_seconds: float | None,
    limits: DisturbanceLimits,
    meter: Meter,
    clock: TurnsClock,
    show: Callable[[PieceTurns], None],
) -> PieceTurns:
    """Runs all items of all cells, in slices of `slice_seconds`, or whole if that is None. An item is repeated by all
    cells until half of them have run it long enough.

    A cell whose piece fails has no more slices. `show` is called after each piece.
    """
    turns = PieceTurns(slice_seconds)
    again = _MOST_AGAIN * len(items)
    turn_of = _sliced_turn if slice_seconds is not None else _whole_turn
    for piece in _pieces(runners, items, turns):
        again += _MOST_AGAIN if piece[1] > 1 else 0
        best: _Turn | None = None
        while True:
            inside = [place for place, runner in enumerate(runners) if runner.error is None]
            if not inside:
                return turns
            measured = _Measured(meter, clock, slice_seconds or math.inf)
            runs = turn_of(runners, piece, orders, measured)
            mine = [measured.cells[place].together(len(turns.slices)) for place in inside if place in measured.cells]
            turns.slices.append(mine)
            turns.disturbances.append(disturbance(mine, limits) if mine else 0.0)
            turn = _Turn(turns.disturbances[-1], runs)
            if best is None or turn.disturbance < best.disturbance:
                best = turn
            if turn.disturbance <= 1 or again < 1 or not all(runner.pieces.can_repeat for runner in runners):
                break
            again -= 1
        turns.kept += 1
        for found in best.runs.values():
            found.keep()
        if len(best.runs) == len(runners):
            seconds = [best.runs[place].seconds for place in range(len(runners))]
            turns.seconds.setdefault(piece[0], []).append(seconds)
        show(turns)
    return turns


def _pieces(runners: Sequence[PieceRunner], items: Sequence[str], turns: PieceTurns) -> Iterator[Piece]:
    """Yields each item repeatedly until half of the remaining cells have enough of it.

    Not until all have: if one is ten times as fast as the others, all would run it ten times as often.
    """
    for item in items:
        repetition = 0
        while not _half_have_enough(runners, item):
            repetition += 1
            yield item, repetition
        turns.items += 1


def _half_have_enough(runners: Sequence[PieceRunner], item: str) -> bool:
    lacking = [not runner.pieces.enough(item) for runner in runners if runner.error is None]
    return 2 * sum(lacking) <= len(lacking)


@dataclass(slots=True)
class _Measured:
    """The slices of the current turn."""

    meter: Meter
    clock: TurnsClock
    slice_seconds: float
    cells: dict[int, _CellSlices] = field(default_factory=dict[int, _CellSlices])
    _last: CpuSnapshot | None = None

    def slice_of(self, place: int, runner: PieceRunner) -> bool:
        """Runs one slice. Returns whether the piece has ended."""
        mine = self.cells.setdefault(place, _CellSlices())
        before = self._last or self.meter.read()
        began, ended, done = runner.run(self.slice_seconds, mine.seconds, self.clock)
        self._last = self.meter.read()
        mine.add(began, ended, *self.meter.shares(before, self._last))
        return done


def _whole_turn(
    runners: Sequence[PieceRunner], piece: Piece, orders: Iterator[list[int]], measured: _Measured
) -> dict[int, PieceRun]:
    """Runs one cell after the other, each with its whole piece."""
    runs: dict[int, PieceRun] = {}
    for place in next(orders):
        runner = runners[place]
        if runner.error is not None:
            continue
        runner.begin(piece, measured.clock)
        while runner.error is None and not measured.slice_of(place, runner):
            pass  # an interrupted piece has one more slice
        _end(runner, place, measured, runs)
    return runs


def _sliced_turn(
    runners: Sequence[PieceRunner], piece: Piece, orders: Iterator[list[int]], measured: _Measured
) -> dict[int, PieceRun]:
    """Begins the piece in all cells, runs them in slices until all have ended, then takes the results."""
    waiting = {place for place, runner in enumerate(runners) if runner.error is None}
    for place in sorted(waiting):
        runners[place].begin(piece, measured.clock)
    open_ = {place for place in waiting if runners[place].error is None}
    while open_:
        for place in next(orders):
            if place in open_ and measured.slice_of(place, runners[place]):
                open_.remove(place)
    runs: dict[int, PieceRun] = {}
    for place in sorted(waiting):
        _end(runners[place], place, measured, runs)
    return runs


def _end(runner: PieceRunner, place: int, measured: _Measured, runs: dict[int, PieceRun]) -> None:
    found = None if runner.error is not None else runner.end(measured.cells[place].seconds, measured.clock)
    if found is not None:
        runs[place] = found

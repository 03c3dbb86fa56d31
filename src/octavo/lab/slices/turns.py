"""The turns of a round: all cells are paused except the one whose slice it is."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from octavo.lab.slices.count import DisturbanceLimits, Slice, SliceCounts, disturbance
from octavo.lab.slices.disturbance import CpuSnapshot
from octavo.lab.slices.freeze import Freezer, nothing_to_prepare
from octavo.plan.model import LONGEST_SLICE

# The shorter the slices, the closer together in time are the compared ones, as long as a slice has enough transactions:
# `_MANY`, or as many as `_LONG` seconds have, but at least `_FEWEST`, which scatter by a fifth by chance alone.
USUAL = 0.05
_MANY, _LONG, _FEWEST = 200, 0.25, 20
# The pilot ends when a client has logged so many transactions (its log is written in blocks of about a hundred lines),
# or has run so long.
_PILOT_SLICE = 0.5
_PILOT_FEWEST = 200
_PILOT_SECONDS = 5.0
_PILOT_PATIENCE = 30.0  # with many threads it takes long until the first has a full block
# Dropped turns are replaced, up to this multiple of the requested ones. If others are never quiet, more rounds help
# more than more turns to choose from.
_MOST_TIMES = 1.5
_SHOW_SECONDS = 1.0


class Client(Protocol):
    """The interface of a cell's client to the turns."""

    def finished(self) -> list[tuple[float, float]]:
        """The transactions since the last call: the end of each (CLOCK_MONOTONIC), and its seconds."""
        ...

    def is_alive(self) -> bool:
        """Whether the client is still running."""
        ...


class Meter(Protocol):
    """The interface of a meter of CPU time taken by others."""

    def read(self) -> CpuSnapshot:
        """Takes a reading."""
        ...

    def shares(self, before: CpuSnapshot, after: CpuSnapshot) -> tuple[float, float]:
        """Steal and foreign CPU in between, as shares of the machine."""
        ...


class TurnsClock(Protocol):
    """CLOCK_MONOTONIC."""

    def now(self) -> float:
        """Seconds."""
        ...

    def sleep(self, seconds: float) -> None:
        """Waits."""
        ...


class Monotonic:
    """The host's clock."""

    def now(self) -> float:
        """Seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)


@dataclass(slots=True)
class Runner:
    """A cell with its client, paused between its slices. `ran` is its running time in seconds. `prepare` is called
    before each slice, and is not part of it."""

    freezer: Freezer
    client: Client
    tally: SliceCounts = field(default_factory=SliceCounts)
    ran: float = 0.0
    prepare: Callable[[], None] = nothing_to_prepare

    def run(self, seconds: float, clock: TurnsClock) -> tuple[float, float]:
        """Runs one slice; returns the times at which it was continued and at which it was stopped. The cell is paused
        on return."""
        self.prepare()
        began = clock.now()
        self.freezer.thaw()
        clock.sleep(seconds)
        ended = clock.now()
        self.freezer.freeze()
        self.ran += clock.now() - began
        return began, ended


@dataclass(frozen=True, slots=True)
class Pace:
    """The length of a slice, the time for which each cell is to be measured, and the limits that drop a turn."""

    slice_seconds: float
    wanted_seconds: float
    limits: DisturbanceLimits


@dataclass(slots=True)
class Turns:
    """The turns that ran: the order of each (by position of the runner), the kept ones, and the disturbance of each."""

    orders: list[list[int]] = field(default_factory=list[list[int]])
    kept: set[int] = field(default_factory=set[int])
    disturbances: list[float] = field(default_factory=list[float])

    @property
    def disturbed(self) -> int:
        """The number of disturbed turns."""
        return sum(one > 1 for one in self.disturbances)


def pilot(runners: Sequence[Runner], clock: TurnsClock) -> float:
    """Runs the first moments of every client, which are not counted. Returns the transactions per second of the slowest
    client that is still running; infinity if there is none."""
    rates: list[float] = []
    for runner in runners:
        seen, began = 0, runner.ran
        while runner.client.is_alive() and seen < _PILOT_FEWEST:
            if runner.ran - began >= (_PILOT_SECONDS if seen else _PILOT_PATIENCE):
                break
            runner.run(_PILOT_SLICE, clock)
            seen += len(finished := runner.client.finished())
            runner.tally.add(finished)
        if runner.client.is_alive() and runner.ran > began:
            rates.append(seen / (runner.ran - began))
    return min(rates, default=math.inf)


def slice_for(rate: float, shortest: float = USUAL) -> float:
    """The seconds of a slice that has enough transactions at this rate.

    >>> slice_for(5000.0), slice_for(2000.0), slice_for(500.0), slice_for(50.0), slice_for(0.0)
    (0.05, 0.1, 0.25, 0.4, 10.0)
    """
    if rate <= 0:
        return LONGEST_SLICE
    return min(LONGEST_SLICE, max(shortest, min(_MANY / rate, _LONG), _FEWEST / rate))


def run(
    runners: Sequence[Runner],
    orders: Iterator[list[int]],
    pace: Pace,
    meter: Meter,
    clock: TurnsClock,
    show: Callable[[Turns], None],
) -> Turns:
    """Runs turns until every cell has enough undisturbed ones.

    If half as many turns again are not enough, the least disturbed ones are kept. Which these are depends on other
    processes, never on a cell's results.

    A cell whose client has ended gets no more slices. `show` is called about once a second, while all cells are paused.
    """
    turns = Turns()
    seconds: list[float] = []
    kept_seconds, shown = 0.0, clock.now()
    few = max(1, math.ceil(pace.wanted_seconds / pace.slice_seconds))
    most = round(_MOST_TIMES * few)

    def within_reach() -> bool:
        return few - len(turns.kept) <= most - len(turns.orders)

    # Continue only while enough tries are left for the requested turns.
    while kept_seconds < pace.wanted_seconds and (len(turns.orders) < few or within_reach()):
        number = len(turns.orders)
        order = [place for place in next(orders) if runners[place].client.is_alive()]
        if not order:
            break
        slices: list[Slice] = []
        before = meter.read()
        for place in order:
            began, ended = runners[place].run(pace.slice_seconds, clock)
            after = meter.read()
            slices.append(Slice(number, began, ended, *meter.shares(before, after)))
            runners[place].tally.add_slice(slices[-1])
            before = after
        turns.orders.append(order)
        turns.disturbances.append(disturbance(slices, pace.limits))
        seconds.append(min(one.ended - one.began for one in slices))
        for runner in runners:
            runner.tally.add(runner.client.finished())
        if turns.disturbances[number] <= 1:
            turns.kept.add(number)
            kept_seconds += seconds[number]
        if clock.now() - shown >= _SHOW_SECONDS:
            shown = clock.now()
            show(turns)
    for number in sorted(set(range(len(turns.orders))) - turns.kept, key=lambda one: turns.disturbances[one]):
        if kept_seconds >= pace.wanted_seconds:
            break
        turns.kept.add(number)
        kept_seconds += seconds[number]
    return turns

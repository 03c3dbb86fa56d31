"""Counting: which transactions belong to a slice, and which turns are kept."""

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

# A slice begins with caches of another cell and processes that wake up: so much of it is not counted.
LEAD = 0.1


@dataclass(frozen=True, slots=True)
class Slice:
    """One cell's part of a turn, in seconds of CLOCK_MONOTONIC: when it was let go, and when it was stopped.

    `steal` and `foreign` are shares of the machine's CPU time that the hypervisor and strangers took meanwhile.
    """

    turn: int
    began: float
    ended: float
    steal: float = 0.0
    foreign: float = 0.0

    @property
    def counted_from(self) -> float:
        """From where on transactions count."""
        return self.began + LEAD * (self.ended - self.began)

    @property
    def seconds(self) -> float:
        """How long they count."""
        return self.ended - self.counted_from


@dataclass(slots=True)
class SliceCounts:
    """The slices of one cell, with the transactions that ended in each."""

    slices: list[Slice] = field(default_factory=list[Slice])
    counts: list[int] = field(default_factory=list[int])
    all_transactions: int = 0
    _began: list[float] = field(default_factory=list[float])
    _latencies: list["array[float]"] = field(default_factory=list["array[float]"])

    def add_slice(self, one: Slice) -> None:
        """A slice that has ended; they come in the order of time."""
        self.slices.append(one)
        self.counts.append(0)
        self._began.append(one.began)
        self._latencies.append(array("d"))

    def add(self, finished: Iterable[tuple[float, float]]) -> None:
        """Transactions: when each ended, and how long it took, in seconds. They come in any order, also late.

        One counts in the slice in which it ended. Its latency counts where it began there too: one across a border
        stood still for a while.
        """
        for ended, latency in finished:
            self.all_transactions += 1
            place = bisect_right(self._began, ended) - 1
            if place < 0:
                continue
            mine = self.slices[place]
            if mine.counted_from <= ended < mine.ended:
                self.counts[place] += 1
                if ended - latency >= mine.began:
                    self._latencies[place].append(latency)

    def rate(self, place: int) -> float:
        """Transactions a second of a slice, by its place in the list."""
        seconds = self.slices[place].seconds
        return self.counts[place] / seconds if seconds > 0 else 0.0

    def latencies(self, turns: set[int]) -> list[float]:
        """The latencies of these turns in seconds, sorted."""
        kept = (found for one, found in zip(self.slices, self._latencies, strict=True) if one.turn in turns)
        return sorted(latency for found in kept for latency in found)

    def of(self, turns: set[int]) -> tuple[int, float]:
        """Transactions of these turns, and the seconds over which they were counted."""
        mine = [(n, one) for n, one in zip(self.counts, self.slices, strict=True) if one.turn in turns]
        return sum(n for n, _ in mine), sum(one.seconds for _, one in mine)


@dataclass(frozen=True, slots=True)
class DisturbanceLimits:
    """The largest allowed difference in lost CPU time between slices of a turn, as shares of the machine.

    `tick_seconds` is the kernel's unit of CPU time, over all CPUs: a difference of one tick may be chance.
    """

    steal: float
    foreign: float
    tick_seconds: float


def disturbance(turn: Sequence[Slice], limits: DisturbanceLimits) -> float:
    """The difference in CPU time lost to others between slices of the turn, as a multiple of the limits: above 1 the
    turn is disturbed.

    A disturbance of all slices of a turn alike cancels in their ratios; a disturbance of one of them drops the turn for
    all cells, so that no cell can gain by it.
    """
    shortest = min(one.ended - one.began for one in turn)
    tick = limits.tick_seconds / shortest if shortest > 0 else 0.0
    both = ((limits.steal, [one.steal for one in turn]), (limits.foreign, [one.foreign for one in turn]))
    return max(_multiple(max(shares) - min(shares), most + tick) for most, shares in both)


def _multiple(apart: float, most: float) -> float:
    if most > 0:
        return apart / most
    return math.inf if apart > 0 else 0.0


def rates_by_turn(tallies: Sequence[SliceCounts], turns: set[int]) -> list[list[float]]:
    """Transactions a second: a row for each of these turns in its order, with the cells in theirs."""
    by_turn: list[Mapping[int, float]] = [
        {one.turn: tally.rate(place) for place, one in enumerate(tally.slices)} for tally in tallies
    ]
    return [[rates[turn] for rates in by_turn] for turn in sorted(turns)]

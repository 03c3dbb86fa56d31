"""Counting: the transactions that belong to a slice, and the turns that are kept."""

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

# The part of a slice that is not counted: it begins with the caches of another cell and with processes that wake up.
LEAD = 0.1


@dataclass(frozen=True, slots=True)
class Slice:
    """One cell's part of a turn, in seconds of CLOCK_MONOTONIC: when it was continued, and when it was paused.

    `steal` and `foreign` are the shares of the machine's CPU time used by the hypervisor and by foreign processes.
    """

    turn: int
    began: float
    ended: float
    steal: float = 0.0
    foreign: float = 0.0

    @property
    def counted_from(self) -> float:
        """The time from which transactions are counted."""
        return self.began + LEAD * (self.ended - self.began)

    @property
    def seconds(self) -> float:
        """The seconds in which transactions are counted."""
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
        """Adds a slice that has ended. Slices must be added in the order of time."""
        self.slices.append(one)
        self.counts.append(0)
        self._began.append(one.began)
        self._latencies.append(array("d"))

    def add(self, finished: Iterable[tuple[float, float]]) -> None:
        """Adds transactions by end time and duration, in seconds. They come in any order, also late.

        A transaction counts in the slice in which it ended. Its latency counts only if it also began there, because a
        transaction that spans slices was paused for a while.
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
        """The transactions per second of a slice, by its index."""
        seconds = self.slices[place].seconds
        return self.counts[place] / seconds if seconds > 0 else 0.0

    def latencies(self, turns: set[int]) -> list[float]:
        """The latencies of these turns in seconds, sorted."""
        kept = (found for one, found in zip(self.slices, self._latencies, strict=True) if one.turn in turns)
        return sorted(latency for found in kept for latency in found)

    def of(self, turns: set[int]) -> tuple[int, float]:
        """The number of transactions in these turns, and the seconds over which they were counted."""
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
    """The difference between slices of the turn in CPU time lost to others, as a multiple of the limits. Above 1 the
    turn is disturbed.

    A disturbance common to all slices of a turn cancels in their ratios. A disturbance of one of them drops the turn
    for all cells, so that no cell can profit from it.
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
    """Transactions per second: one row for each of these turns, in order, with the cells in theirs."""
    by_turn: list[Mapping[int, float]] = [
        {one.turn: tally.rate(place) for place, one in enumerate(tally.slices)} for tally in tallies
    ]
    return [[rates[turn] for rates in by_turn] for turn in sorted(turns)]

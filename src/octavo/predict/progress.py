"""The number of transactions of a trace up to a time in it.

A trace has page accesses, not transactions. Where its WAL was read again second by second (pg_walinspect), it has the
commits of each stretch. Within a stretch, and in traces without commits, all transactions are assumed to have the same
number of accesses. This number changes as a table becomes older: an update that finds no room on its page also changes
another page and the index.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy

# With fewer commits than this the transactions are not counted by them.
FEWEST_COMMITS = 100


@dataclass(frozen=True, slots=True)
class Progress:
    """Accesses of a simulated server and the transactions up to then; both increase from 0."""

    points: tuple[tuple[float, float], ...]

    def at(self, accesses: float) -> float:
        """Transactions up to so many accesses.

        >>> Progress(((0.0, 0.0), (600.0, 100.0), (1000.0, 300.0))).at(800.0)
        200.0
        """
        return between(self.points, accesses)


def progress(
    transactions: float, commits: Sequence[tuple[float, float]], known: Sequence[tuple[float, float]]
) -> Progress:
    """The progress of a trace with so many transactions. `commits`: times and the commits until then. `known`: times
    and a server's accesses until then, the last one at the end. With commits of only one stretch, or few of them, all
    transactions have the same number of accesses. The same holds outside of the stretches, for example in a part of a
    trace."""
    known = sorted(known)
    end = max(1.0, known[-1][1])
    evenly = Progress(((0.0, 0.0), (end, transactions)))
    if not is_by_stretch(commits):
        return evenly
    begin, last = (between(known, time) for time in (commits[0][0], commits[-1][0]))
    points = [(0.0, 0.0)]
    for time, count in commits:
        accesses = between(known, time)
        if points[-1][0] < accesses < end:
            there = begin + (last - begin) * count / commits[-1][1]
            points.append((accesses, transactions * there / end))
    return Progress((*points, (end, transactions)))


def is_by_stretch(commits: Sequence[tuple[float, float]]) -> bool:
    """Whether there are commits of several stretches, and enough of them."""
    return len(commits) > 2 and commits[-1][1] >= FEWEST_COMMITS


def between(points: Sequence[tuple[float, float]], place: float) -> float:
    """The value at a place, linear between the ordered points; outside of them the value of the first or last point."""
    places, values = zip(*points, strict=True)
    return float(numpy.interp(place, places, values))

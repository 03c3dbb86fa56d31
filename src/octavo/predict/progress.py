"""How many transactions of a trace there were by a time in it.

A trace has page accesses, not transactions. Where its WAL was read again second by second (pg_walinspect), the commits
of each stretch are in it; within a stretch, and in traces without them, transactions have equally many accesses. These
differ where a table becomes older: an update that finds no room on its page also changes another one and the index.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

# Fewer commits than this count no transactions.
FEWEST_COMMITS = 100


@dataclass(frozen=True, slots=True)
class Progress:
    """Accesses of a simulated server, and transactions up to then; both grow from 0."""

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
    """Of a trace with so many transactions. `commits` are times and the commits until then, `known` times and a
    server's accesses until then, the last one at the end. With commits of one stretch alone, or few of them, all
    transactions have equally many accesses; so have those outside of the stretches, as in a part of a trace."""
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
    """Whether these are of several stretches, and enough of them."""
    return len(commits) > 2 and commits[-1][1] >= FEWEST_COMMITS


def between(points: Sequence[tuple[float, float]], place: float) -> float:
    """The value at a place, linear between points in order; beyond them that of the first or last one."""
    at = bisect_left(points, place, key=lambda point: point[0])
    if at == 0 or at == len(points):
        return points[min(at, len(points) - 1)][1]
    (first, before), (last, after) = points[at - 1], points[at]
    return before + (after - before) * (place - first) / (last - first)

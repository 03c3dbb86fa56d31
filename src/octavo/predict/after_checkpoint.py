"""The time after a checkpoint: the counts of simulated servers there (`Size.has_checkpoints` is False).

They have one checkpoint, in the middle of the trace, so that what follows begins with full caches in which nothing is
dirty. What is written, and read to be written, is counted from there on for as many transactions as the time has: at
first the pages that are evicted are clean, and the kernel writes nothing that stays below its limits of amount and age.
Full-page images need no full caches: they are counted from the beginning of the trace on, when its tables are as old as
they were when the recording began.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from octavo.predict.counts import Counts, Points, at_marks, whole
from octavo.predict.progress import Progress
from octavo.predict.recorded import Recorded

# In each half of the trace, the closer together the nearer to its beginning: few transactions follow a checkpoint where
# they are slow.
_MARKS = 32
# What depends on how long ago the last checkpoint was, besides images.
_COUNTS = ("writer_writes", "dirty_evictions", "device_writes", "device_written_bytes", "pages_read_to_write")


@dataclass(frozen=True, slots=True)
class PhaseMarks:
    """Microseconds of the trace's clock at which counts are taken down: from the beginning of the trace to the
    checkpoint, and from it on. Those at the checkpoint's time are taken down before it."""

    before: list[int]
    after: list[int]


@dataclass(frozen=True, slots=True)
class Phases:
    """Series of a server, or of each of its miniatures, at these marks; the second one goes on to the end."""

    before: Sequence[Sequence[Counts]]
    after: Sequence[Sequence[Counts]]


def middle(trace: Recorded) -> float:
    """Seconds of the trace's clock at which it is half over. A checkpoint at each multiple of it is one in the trace:
    the second one is behind its end."""
    first, last = trace.summary["times"] or (0, 1)
    return ((first + last) // 2 + 1) / 1e6


def phase_marks(trace: Recorded) -> PhaseMarks:
    """Of a trace with its checkpoint in the middle."""
    first, last = trace.summary["times"] or (0, 1)
    half = round(middle(trace) * 1e6)
    return PhaseMarks([*_closer_at_first(first, half)[1:], half], _closer_at_first(half, last))


def phases_of(replicates: Sequence[Sequence[Counts]], marks: Sequence[int], wanted: PhaseMarks) -> Phases:
    """From the counts at all marks of each replicate."""
    return Phases(
        [at_marks(one, marks, wanted.before)[:-1] for one in replicates],
        [at_marks(one, marks, wanted.after) for one in replicates],
    )


def images(done: Progress, phases: Phases) -> Points:
    """Full-page images since the beginning of the trace."""
    series = [whole(parts) for parts in zip(*phases.before, strict=True)]
    return tuple((done.at(one["accesses"]), one["full_page_images"]) for one in series)


def since_checkpoint(done: Progress, replicates: Sequence[Sequence[Counts]]) -> dict[str, Points]:
    """Transactions since a checkpoint, and each count up to then, from series of which the first place is just before
    it. It begins behind the first access that follows, which comes with the checkpoint and all that it writes."""
    begin = max(
        next((at for at, one in enumerate(series) if one["taken_accesses"] > series[0]["taken_accesses"]), 0)
        for series in replicates
    )
    first, *later = [whole(parts) for parts in zip(*(series[begin:] for series in replicates), strict=True)]
    before = done.at(first["accesses"])
    return {
        name: tuple((done.at(one["accesses"]) - before, one[name] - first[name]) for one in later) for name in _COUNTS
    }


def _closer_at_first(start: int, last: int) -> list[int]:
    """Marks from `start` to short of `last`.

    >>> _closer_at_first(1000, 2024)[:4]
    [1000, 1001, 1004, 1009]
    """
    return [start + (last - start) * step**2 // _MARKS**2 for step in range(_MARKS)]

"""The time after a checkpoint: the counts of simulated servers in it (`Size.has_checkpoints` is False).

These servers have one checkpoint, in the middle of the trace, so that the time after it begins with full caches without
dirty pages. Writes, and reads for them, are counted from there for as many transactions as the time has. At first the
evicted pages are clean, and the kernel writes no page that stays below its limits of amount and age. Full-page images
do not need full caches: they are counted from the beginning of the trace, when its tables are as old as they were when
the recording began.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from octavo.predict.counts import Counts, Points, at_marks, whole
from octavo.predict.progress import Progress
from octavo.predict.recorded import Recorded

# The number of marks in each half of the trace, closer together near its beginning: few transactions follow a
# checkpoint where they are slow.
_MARKS = 32
# The counts, besides images, that depend on the time since the last checkpoint.
_COUNTS = ("writer_writes", "dirty_evictions", "device_writes", "device_written_bytes", "pages_read_to_write")


@dataclass(frozen=True, slots=True)
class PhaseMarks:
    """Microseconds of the trace's clock at which counts are recorded: from the beginning of the trace to the
    checkpoint, and from the checkpoint on. Counts at the checkpoint's time are recorded before it."""

    before: list[int]
    after: list[int]


@dataclass(frozen=True, slots=True)
class Phases:
    """The series of a server, or of each of its miniatures, at these marks; `after` continues to the end."""

    before: Sequence[Sequence[Counts]]
    after: Sequence[Sequence[Counts]]


def middle(trace: Recorded) -> float:
    """Seconds from the trace's first access to its middle. With a checkpoint at each multiple of it the trace has one
    checkpoint: the second is after its end."""
    first, last = trace.summary["times"] or (0, 1)
    return ((last - first) // 2 + 1) / 1e6


def phase_marks(trace: Recorded) -> PhaseMarks:
    """The marks for a trace with its checkpoint in the middle."""
    first, last = trace.summary["times"] or (0, 1)
    half = first + round(middle(trace) * 1e6)
    return PhaseMarks([*_closer_at_first(first, half)[1:], half], _closer_at_first(half, last))


def phases_of(replicates: Sequence[Sequence[Counts]], marks: Sequence[int], wanted: PhaseMarks) -> Phases:
    """The phases from the counts of each replicate at all marks."""
    return Phases(
        [at_marks(one, marks, wanted.before)[:-1] for one in replicates],
        [at_marks(one, marks, wanted.after) for one in replicates],
    )


def images(done: Progress, phases: Phases) -> Points:
    """Full-page images since the beginning of the trace."""
    series = [whole(parts) for parts in zip(*phases.before, strict=True)]
    return tuple((done.at(one["accesses"]), one["full_page_images"]) for one in series)


def since_checkpoint(done: Progress, replicates: Sequence[Sequence[Counts]]) -> dict[str, Points]:
    """Transactions since a checkpoint and each count up to then, from series whose first place is just before it. It
    begins after the first access that follows, which includes the checkpoint and all of its writes."""
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

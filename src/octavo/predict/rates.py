"""Counts per transaction of a simulated server, from its counts at marks of the trace.

The simulated caches are empty when a recording begins, so only the part after they were full is counted. The parts
between marks show the scatter of the counts.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from scipy import stats

from octavo.predict import after_checkpoint
from octavo.predict.counts import COUNTS, Counts, Points, of_so_many, whole
from octavo.predict.layout import fullness, growth_of_all
from octavo.predict.progress import Progress, progress
from octavo.predict.recorded import MOST_ELSEWHERE, Recorded
from octavo.predict.sampling import error_of
from octavo.predict.size import Size, traced_seconds
from octavo.trace.simulate import SimulatedServer

# Caches that are not full at this part of the trace are treated as never full.
_LATEST_WARM = 0.7
# Where caches are full from the beginning, the first tenth of the trace is skipped: it is not yet a running server.
_EARLIEST_WARM = 0.1
_FULL = 0.95
_UNKNOWN_ROOM = 0.5
_SURE = 0.975
_SIXTHS = 6
# If a cycle has fewer marks than this, counting the beginning of the trace, its end is taken from many cycles.
_FEW_MARKS = 6
# Other load on the machine changes a transaction's CPU by at most this part.
_MOST_PACE = 0.9
# These counts depend on the checkpoint cycle.
_CYCLIC = (
    "full_page_images", "checkpoint_writes", "writer_writes", "dirty_evictions", "device_writes",
    "device_written_bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rates:
    """Counts per transaction of one server with one layout of accesses within pages.

    `scatter` is the relative half width of the 95 % interval of the reads. First reads of pages are misses where the
    cache was full. Otherwise the part `first_hits` of them would have been hits in a running server's cache: of the
    pages not seen, the part for which it has room beside the pages seen. `cache_first_hits` is the same for the page
    cache.
    """

    layout: str
    each: dict[str, float]
    scatter: float
    is_full: bool
    first_hits: float
    cache_first_hits: float
    images_by_length: Points
    """Transactions since the begin of a checkpoint and the images up to then, from the trace's first cycle; from its
    first half where the time after a checkpoint was simulated."""
    fullness: float = 1.0
    """The fill of a page relative to the recorded size."""
    relation_bytes: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """The size of all relations: likely, low, high. It is kept here because a trace may have thousands of relations,
    and figures are computed hundreds of times."""
    images_spread: float = 0.0
    """The part by which the images of the trace's cycles differ from their mean, as its tables become older."""
    pace: float = 0.0
    """The part by which the accesses per second of a sixth of the trace may differ from the mean, with 95 %."""
    errors: Mapping[str, float] = field(default_factory=dict[str, float])
    """Relative half widths of the 95 % intervals of `each` for a sample of the pages; empty without a sample."""
    since_checkpoint: Mapping[str, Points] = field(default_factory=dict[str, Points])
    """The other counts by transactions since a checkpoint, where the time after one was simulated; otherwise empty."""

    def images(self, transactions: float) -> float | None:
        """Full-page images per transaction in a cycle of so many; None where the trace has too few images."""
        return of_so_many(self.images_by_length, transactions)

    def after_checkpoint(self, transactions: float) -> dict[str, float]:
        """Counts per transaction over the first so many after a checkpoint, for those counts that depend on it; empty
        where that time was not simulated."""
        found = {name: of_so_many(points, transactions) for name, points in self.since_checkpoint.items()}
        return {name: value for name, value in found.items() if value is not None}


def rates_of(
    trace: Recorded,
    size: Size,
    layout: str,
    point: SimulatedServer,
    counts: Sequence[Sequence[Counts]],
    cycle: float | None,
    phases: after_checkpoint.Phases | None = None,
) -> Rates:
    """The rates from the series of a server, or from those of each of its miniatures."""
    cycle = None if cycle is None else traced_seconds(trace, size, cycle)
    empty: Counts = dict.fromkeys((*COUNTS, "time"), 0.0)
    series = [empty, *(whole(parts) for parts in zip(*counts, strict=True))]
    end = series[-1]
    done = _progress(trace, series, phases)
    total = None
    if trace.elsewhere <= MOST_ELSEWHERE:
        total = sum(one["blocks"] for one in trace.relations) * trace.data_block
    seen = (end["first_reads"] + end["extends"]) * size.data_block
    seen_below = end["pages_read_first"] * size.kernel_page

    def warm(full: Callable[[Counts], bool]) -> int | None:
        latest = _LATEST_WARM * end["accesses"]
        return next((place for place, one in enumerate(series) if full(one) and one["accesses"] <= latest), None)

    filled = warm(lambda one: one["evictions"] > 0)
    cached = warm(
        lambda one: point.page_cache is None or one["pages_read_first"] * size.kernel_page >= _FULL * point.page_cache
    )
    earliest = next(place for place, one in enumerate(series) if one["accesses"] >= _EARLIEST_WARM * end["accesses"])
    begin = max(earliest, filled or 0, cached or 0)
    if filled is None or cached is None:
        begin = max(begin, next(p for p, one in enumerate(series) if one["accesses"] >= 0.5 * end["accesses"]))
    begin = min(begin, len(series) - 2)
    part = {name: end[name] - series[begin][name] for name in COUNTS}
    transactions = done.at(end["accesses"]) - done.at(series[begin]["accesses"])
    each = {name: value / max(1.0, transactions) for name, value in part.items()}
    of_all: tuple[str, ...] = ()
    if not size.has_checkpoints:
        of_all = ("full_page_images",)
    elif cycle is not None:  # images and checkpoints come in cycles
        of_all = _CYCLIC
    behind = series[_behind_whole_cycles(series, point)]
    for name in of_all:
        each[name] = behind[name] / max(1.0, done.at(behind["accesses"]))
    has_cycles = size.has_checkpoints and not size.is_as_recorded
    images = _images(done, series, cycle if has_cycles else cycle and trace.seconds * 2)
    if cycle is not None and size.has_checkpoints and size.data_factor > 1 and len(images) < _FEW_MARKS:
        images = _up_to(images, trace.tps * cycle, each["full_page_images"])
    since: dict[str, Points] = {}
    scattering = [{**one, "reads_of_device": one["device_reads"]} for one in series[begin:]]
    if phases is not None:
        since = after_checkpoint.since_checkpoint(done, phases.after)
        images = after_checkpoint.images(done, phases)
        for one in scattering:  # the reads for the checkpoint's writes come all at once
            one["reads_of_device"] -= one["pages_read_to_write"]
    return Rates(
        layout=layout,
        each=each,
        scatter=_scatter(scattering, "reads_of_device" if point.page_cache is not None else "reads"),
        is_full=filled is not None,
        first_hits=0.0 if filled is not None else _room(point.shared_buffers, seen, total),
        cache_first_hits=0.0
        if point.page_cache is None or cached is not None
        else _room(point.page_cache, seen_below, total),
        images_by_length=images,
        fullness=fullness(trace.relations, trace.data_block, size.data_block),
        relation_bytes=_relation_bytes(trace, size),
        images_spread=_images_spread(series, cycle) if has_cycles else 0.0,
        # In a trace of slices the parts also differ by their pauses.
        pace=0.0 if trace.summary["events"].get("pause_microseconds") else _pace(series),
        errors=_errors([[empty, *one] for one in counts], begin, of_all) if len(counts) > 1 else {},
        since_checkpoint=since,
    )


def _relation_bytes(trace: Recorded, size: Size) -> tuple[float, float, float]:
    grown = growth_of_all(trace.relations, trace.data_block, size.data_block)
    here = sum(one["blocks"] for one in trace.relations) * trace.data_block * size.data_factor
    return here * grown.likely, here * grown.low, here * grown.high


def _progress(trace: Recorded, series: Sequence[Counts], phases: after_checkpoint.Phases | None) -> Progress:
    """The progress at all marks at which the server's accesses are known."""
    parts = [] if phases is None else [phases.before, phases.after]
    known = [*series[1:], *(whole(one) for replicates in parts for one in zip(*replicates, strict=True))]
    first, _ = trace.summary["times"] or (0, 1)
    return progress(
        trace.transactions, trace.commits, [(float(first), 0.0), *((one["time"], one["accesses"]) for one in known)]
    )


def _behind_whole_cycles(series: Sequence[Counts], point: SimulatedServer) -> int:
    """The first place after the trace's last whole cycle, because a part of a cycle has no checkpoint. The last place
    if the cycle has no known length, or none is whole."""
    interval, begin = point.checkpoint_interval, point.checkpoint_from
    cycles = int((series[-1]["time"] - begin) // interval) if interval else 0
    if not interval or cycles < 1:
        return len(series) - 1
    behind = (place for place, one in enumerate(series) if one["time"] > begin + cycles * interval)
    return next(behind, len(series) - 1)


def _errors(replicates: Sequence[Sequence[Counts]], begin: int, of_all: Sequence[str]) -> dict[str, float]:
    """The error of each count, after `begin` or, for `of_all`, over the whole trace. Accesses and hits have none."""
    return {
        name: error_of([one[-1][name] - (0.0 if name in of_all else one[begin][name]) for one in replicates])
        for name in COUNTS
        if name not in ("accesses", "hits")
    }


def _room(capacity: float, seen: float, total: float | None) -> float:
    """The part of the unseen pages for which a cache has room beside the seen ones; half of them, which the interval
    extends to none and all, where the size of all data is unknown.

    >>> _room(100, 60, 80), _room(100, 60, 460), _room(100, 100, 460), _room(100, 60, None)
    (1.0, 0.1, 0.0, 0.5)
    """
    if total is None:
        return _UNKNOWN_ROOM
    unseen = total - seen
    return 1.0 if unseen <= 0 else min(1.0, max(0.0, capacity - seen) / unseen)


def _scatter(series: Sequence[dict[str, float]], name: str) -> float:
    """Relative half width of the mean over the parts between marks (batch means: A. Law, Simulation Modeling, ch.
    9)."""
    ratios = [
        (later[name] - earlier[name]) / (later["accesses"] - earlier["accesses"])
        for earlier, later in pairwise(series)
        if later["accesses"] > earlier["accesses"]
    ]
    mean = sum(ratios) / len(ratios) if ratios else 0.0
    if len(ratios) < 3 or mean <= 0:
        return 0.0 if mean <= 0 else 1.0
    deviation = math.sqrt(sum((one - mean) ** 2 for one in ratios) / (len(ratios) - 1))
    return float(stats.t.ppf(_SURE, len(ratios) - 1)) * deviation / math.sqrt(len(ratios)) / mean


def _up_to(images: Points, cycle: float, each: float) -> Points:
    """Images up to the end of a cycle of so many transactions, each with `each` images in the mean of whole cycles. The
    marks of a cycle that is short in the trace show only its beginning, which has more images."""
    last, before = images[-1] if images else (0.0, 0.0)
    return (*images, (cycle, max(before, cycle * each))) if cycle > last else images


def _images_spread(series: Sequence[dict[str, float]], cycle: float | None) -> float:
    """Half the range of the images per access of whole cycles, over their mean."""
    if cycle is None or len(series) < 3:
        return 0.0
    times = [one["time"] for one in series]
    step, start = times[2] - times[1], 2 * times[1] - times[2]
    # Counts between marks are not known: cycles that are short compared with the marks are joined.
    length = cycle * 1e6 * math.ceil(3 * step / (cycle * 1e6)) if step > 0 else 0.0
    ends = (
        [start + number * length for number in range(1 + int((times[-1] - start + step / 2) / length))]
        if length
        else []
    )
    places = [min(range(len(times)), key=lambda place: abs(times[place] - end)) for end in ends[1:]]
    found = [
        (series[later]["full_page_images"] - series[earlier]["full_page_images"])
        / max(1.0, series[later]["accesses"] - series[earlier]["accesses"])
        for earlier, later in pairwise([0, *places])
    ]
    mean = sum(found) / len(found) if found else 0.0
    return (max(found) - min(found)) / 2 / mean if len(found) > 1 and mean > 0 else 0.0


def _pace(series: Sequence[dict[str, float]]) -> float:
    """Relative half width of the 95 % interval of the accesses of one sixth, from the sixths of the trace."""
    places = [round(part * (len(series) - 1) / _SIXTHS) for part in range(_SIXTHS + 1)]
    parts = [series[later]["accesses"] - series[earlier]["accesses"] for earlier, later in pairwise(places)]
    parts = [part for part in parts if part > 0]
    if len(parts) < 3:
        return 0.0
    mean = sum(parts) / len(parts)
    deviation = math.sqrt(sum((part - mean) ** 2 for part in parts) / (len(parts) - 1))
    wide = float(stats.t.ppf(_SURE, len(parts) - 1)) * deviation * math.sqrt(1 + 1 / len(parts)) / mean
    return min(wide, _MOST_PACE)


def _images(done: Progress, series: Sequence[dict[str, float]], cycle: float | None) -> Points:
    """Images by transactions since the trace's first checkpoint, up to the end of its cycle."""
    if cycle is None:
        return ()
    start = series[1]["time"] - (series[2]["time"] - series[1]["time"]) if len(series) > 2 else 0.0
    return tuple(
        (done.at(one["accesses"]), one["full_page_images"])
        for one in series
        if one["time"] - start <= cycle * 1e6 * 1.001
    )

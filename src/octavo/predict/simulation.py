"""The trace run through servers of every size: what a transaction reads and writes once caches are warm.

A recording begins with empty simulated caches. What is counted is the part of it behind the time at which they were
full; the parts between marks tell how much the counts scatter.

For the time after a checkpoint (`Size.has_checkpoints`) the simulated servers have one in the middle of the trace, so
that what follows begins with full caches in which nothing is dirty. What is written, and read to be written, is counted
from there on for as many transactions as the time has: at first the pages that are evicted are clean, and the kernel
writes nothing that stays below its limits of amount and age. Full-page images need no full caches: they are counted
from the beginning of the trace on, when its tables are as old as they were when the recording began.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from scipy import stats

from octavo import _core
from octavo.predict.layout import fullness, growth_of_all
from octavo.predict.recorded import Recorded
from octavo.predict.sampling import Caches, Sample, error_of, sample_of
from octavo.predict.wal import LIKELY_FILL, image_bytes, record_bytes
from octavo.trace.core_types import SimulationSnapshot
from octavo.trace.files import Observe, ignore_progress, reading
from octavo.trace.simulate import LARGEST_REQUEST, READAHEAD, SimulatedServer, background, told_size
from octavo.trace.surface import combine_limit, rings
from octavo.units import parse_size

MARKS = 24
# Behind a checkpoint in the middle of the trace, the closer together the nearer to it: few transactions follow it where
# they are slow.
_MARKS_BEHIND = 32
# Caches that are not full by then are never full in this trace.
_LATEST_WARM = 0.7
# Where they are full from the beginning on, the first tenth is still none of a running server.
_EARLIEST_WARM = 0.1
_FULL = 0.95
_SURE = 0.975
_SIXTHS = 6
# Where a cycle has fewer marks than these, the beginning of the trace among them, its end is taken from many cycles.
_FEW_MARKS = 6
# CPU of a transaction is taken to be at most so much less or more as the machine is busy otherwise.
_MOST_PACE = 0.9
# PostgreSQL's defaults, where the trace does not have the setting. It keeps files for the WAL of more than a cycle: a
# tenth more than the last one's, until the next checkpoint has ended (XLOGfileslop).
_DEFAULTS = {
    "min_wal_size": "80MB", "max_wal_size": "1GB", "wal_segment_size": "16MB", "checkpoint_completion_target": "0.9",
}  # fmt: skip
_WRITER_DELAY = 200_000
_SPARE = 1.1
_MOST_KEPT = 1 << 50

COUNTS = (
    "accesses", "hits", "reads", "first_reads", "extends", "evictions", "dirty_evictions", "checkpoint_writes",
    "writer_writes", "full_page_images", "requests", "requested_bytes", "device_reads", "device_read_bytes",
    "device_writes", "device_written_bytes", "pages_read_first", "pages_read_to_write",
)  # fmt: skip
# These come in checkpoint cycles.
_CYCLIC = (
    "full_page_images", "checkpoint_writes", "writer_writes", "dirty_evictions", "device_writes",
    "device_written_bytes",
)  # fmt: skip
# What of it depends on how long ago the last checkpoint was, besides images.
_AFTER_CHECKPOINT = ("writer_writes", "dirty_evictions", "device_writes", "device_written_bytes", "pages_read_to_write")

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Size:
    """A server that is predicted. Sizes are bytes; without memory nothing below shared buffers is simulated."""

    data_block: int
    shared_buffers: int
    memory: int | None
    kernel_page: int = 4096
    data_factor: float = 1.0
    """So many times the data, as skewed as they are: caches hold so much less of them."""
    is_as_recorded: bool = False
    """Checkpoints are where the trace has them."""
    has_checkpoints: bool = True
    """Else it is the time after one and before the next: only evicted pages are written, and at first they are clean.
    """
    readahead: int | None = None
    """read_ahead_kb of the device in bytes; None: as the trace says it, or 128 kB."""
    dirty_background: int | None = None
    """Above which the kernel writes; None: a tenth of the page cache."""
    pace: float = 1.0
    """Its transactions a second over those of the trace: the background writer, which goes by the clock, has so many
    more of them in each round."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Counts per transaction of one server with one layout of accesses within pages.

    `scatter` is the relative half width of the 95 % interval of the reads. First reads of pages are misses where a
    cache was full; else this part of them (`first_hits`) would have been hits of one that had been running: what it has
    room for beside the pages that were seen, of those that were not. So for shared buffers and for the page cache.
    """

    layout: str
    each: dict[str, float]
    scatter: float
    is_full: bool
    first_hits: float
    cache_first_hits: float
    images_by_length: Points
    """Transactions since a checkpoint began, and images up to then, from the trace's first cycle."""
    fullness: float = 1.0
    """Of a page, over that of the recorded size."""
    images_spread: float = 0.0
    """By what part images of the trace's cycles differ from their mean: as its tables become older."""
    pace: float = 0.0
    """By what part the accesses a second of a sixth of the trace may differ from the mean: 95 %."""
    errors: Mapping[str, float] = field(default_factory=dict[str, float])
    """Of a sample of the pages: relative half widths of the 95 % intervals of `each`; empty without a sample."""
    since_checkpoint: Mapping[str, Points] = field(default_factory=dict[str, Points])
    """Other counts in the same way, where the time after a checkpoint was simulated; else empty."""

    def images(self, transactions: float) -> float | None:
        """Full-page images of a transaction in a cycle of so many; None where the trace has none to tell it from."""
        return _of_so_many(self.images_by_length, transactions)

    def after_checkpoint(self, transactions: float) -> dict[str, float]:
        """Counts of a transaction among the first so many after a checkpoint, as far as they depend on that; empty
        where that time was not simulated."""
        found = {name: _of_so_many(points, transactions) for name, points in self.since_checkpoint.items()}
        return {name: value for name, value in found.items() if value is not None}


def _of_so_many(counted: Points, transactions: float) -> float | None:
    """A transaction's part of what so many have. Between points it grows evenly, behind the last one as between the
    last two.

    >>> _of_so_many(((100.0, 0.0), (200.0, 40.0)), 150.0)
    0.13333333333333333
    """
    points = [(0.0, 0.0), *counted]
    if len(points) < 3 or transactions <= 0:
        return None
    place = next((at for at, point in enumerate(points) if point[0] >= transactions), len(points) - 1)
    place = max(place, 1)
    (first, before), (last, after) = points[place - 1], points[place]
    slope = (after - before) / (last - first) if last > first else 0.0
    return (before + slope * (transactions - first)) / transactions


def layouts(own: int, block: int) -> tuple[str, ...]:
    """How accesses are dealt to the parts of a page: the likely way first, then both ends of what is likely.

    >>> layouts(8192, 4096), layouts(8192, 32768)
    (('self_similar', 'self_similar_together', 'self_similar_apart'), ('merged',))
    """
    if block >= own:
        return ("merged",)
    return "self_similar", "self_similar_together", "self_similar_apart"


def chosen_sample(trace: Recorded, sizes: Sequence[Size]) -> Sample:
    """The sample on which these sizes can be simulated."""
    caches = [
        Caches(
            point.shared_buffers / size.data_block,
            None if point.page_cache is None else float(point.page_cache),
            point.readahead,
        )
        for size in sizes
        for point in (_point(trace, size, "merged", None),)
    ]
    return sample_of(trace, caches)


def simulate(
    trace: Recorded,
    sizes: Sequence[Size],
    cycle: float | None,
    observe: Observe = ignore_progress,
    threads: int = 0,
    sample: Sample | None = None,
) -> dict[Size, list[Rates]]:
    """Rates of every size, one for each layout; without a sample from all pages. Raises UsageError for what cannot be
    simulated, HostError for what cannot be read."""
    sample = sample or Sample()
    keys = [(size, layout) for size in dict.fromkeys(sizes) for layout in layouts(trace.data_block, size.data_block)]
    middle = _middle(trace, cycle)
    points = [_point(trace, size, layout, cycle) for size, layout in keys]
    first, last = trace.summary["times"] or (0, 1)
    even = [first + (last - first) * step // MARKS for step in range(1, MARKS)]
    half = None if middle is None else round(middle * 1e6)
    early = [] if half is None else _behind(first, half)[1:]
    behind = [] if half is None else _behind(half, last)
    marks = sorted({*even, *early, *behind})
    with reading(trace.path) as opened:
        _, found = _core.trace_servers(
            opened, trace.data_block, points,
            threads=threads or len(os.sched_getaffinity(0)), observe=observe, marks=marks,
            sample=(sample.replicates, sample.scale),
        )  # fmt: skip
    rates: dict[Size, list[Rates]] = {}
    for place, ((size, layout), point) in enumerate(zip(keys, points, strict=True)):
        parts = found[place * sample.replicates : (place + 1) * sample.replicates]
        counts = [[_flat(one, sample.scale) for one in part["series"]] for part in parts]
        whole = [_at(one, marks, even) for one in counts]
        phases = None
        if half is not None and not size.has_checkpoints:
            phases = Phases(
                [_at(one, marks, [*early, half])[:-1] for one in counts], [_at(one, marks, behind) for one in counts]
            )
        rates.setdefault(size, []).append(_rates(trace, size, layout, point, whole, cycle, phases))
    return rates


def _middle(trace: Recorded, cycle: float | None) -> float | None:
    """Seconds of the trace's clock at which it is half over; None where there are no checkpoints."""
    first, last = trace.summary["times"] or (0, 1)
    return None if cycle is None else ((first + last) // 2 + 1) / 1e6  # another one, at twice that, is behind the trace


@dataclass(frozen=True, slots=True)
class Phases:
    """Series of a server, or of each of its miniatures, around a checkpoint in the middle of the trace: up to it, and
    from just before it on."""

    before: "Sequence[Sequence[_Counts]]"
    after: "Sequence[Sequence[_Counts]]"


def _behind(start: int, last: int) -> list[int]:
    """Marks from `start` to short of `last`, in microseconds.

    >>> _behind(1000, 2024)[:4]
    [1000, 1001, 1004, 1009]
    """
    return [start + (last - start) * step**2 // _MARKS_BEHIND**2 for step in range(_MARKS_BEHIND)]


def _at(series: Sequence["_Counts"], marks: Sequence[int], wanted: Sequence[int]) -> list["_Counts"]:
    """Of counts at these marks and at the end, those at some of the marks and at the end."""
    places = {mark: place for place, mark in enumerate(marks)}
    return [*(series[places[mark]] for mark in wanted), series[-1]]


def _point(trace: Recorded, size: Size, layout: str, cycle: float | None) -> SimulatedServer:
    """A server whose caches hold as much of the relations as this one's: where a page holds fewer rows, less. `cycle`
    are seconds between checkpoints of the predicted server; None: where the trace has them, or none."""
    interval: float | None = None
    if cycle is not None and not size.is_as_recorded:
        interval = _traced(trace, size, cycle) if size.has_checkpoints else _middle(trace, cycle)
    shrunk = growth_of_all(trace.relations, trace.data_block, size.data_block).likely * size.data_factor
    bulk_read, bulk_write, vacuum = rings(trace.summary, size.shared_buffers, size.data_block)
    cache = None if size.memory is None else max(size.kernel_page * 16, size.memory - size.shared_buffers)
    return SimulatedServer(
        data_block=size.data_block,
        layout=layout,
        shared_buffers=max(16 * size.data_block, round(size.shared_buffers / shrunk)),
        bulk_read_ring=bulk_read,
        bulk_write_ring=bulk_write,
        vacuum_ring=vacuum,
        combine_limit=combine_limit(trace.summary, size.data_block),
        page_cache=None if cache is None else round(cache / shrunk),
        kernel_page=size.kernel_page,
        readahead=told_size(trace.summary, "readahead_bytes", READAHEAD) if size.readahead is None else size.readahead,
        largest_request=LARGEST_REQUEST,
        dirty_background=size.dirty_background,
        **_background(trace, size.pace),
        checkpoint_interval=None if interval is None else max(1, round(interval * 1e6)),
        **_logged(trace, size, shrunk, cycle if size.has_checkpoints and not size.is_as_recorded else None),
    )


def _background(trace: Recorded, pace: float) -> dict[str, Any]:
    """The background writer's settings; its delay on the trace's clock, where the server is faster or slower."""
    found = background(trace.summary)
    return {**found, "writer_delay": max(1, round(found.get("writer_delay", _WRITER_DELAY) * pace))}


def _traced(trace: Recorded, size: Size, cycle: float) -> float:
    """Seconds of the trace in which a page is accessed as often as in a checkpoint cycle of the predicted server.

    With four times the data the same accesses are of four times as many pages, each of which has a quarter of them. A
    page of the trace stands for four, and has in a second what each of them has in four. With less data a cycle is
    longer than the recorded one, but not longer than what the trace has.
    """
    first, last = trace.summary["times"] or (0, 1)
    return min(cycle / size.data_factor, max(cycle, (last - first) / 1e6 * (MARKS - 1) / MARKS))


def _logged(trace: Recorded, size: Size, shrunk: float, cycle: float | None) -> dict[str, Any]:
    """WAL that passes through the page cache: bytes a second without images, as the trace has it, and of an image at
    this size; without changes of pages no images are simulated. Where caches are made smaller instead of data larger,
    there is as much less of it."""
    if trace.wal_bytes_each is None or not trace.writes_wal:
        return {}
    logged = trace.wal_bytes_each * trace.tps
    told = {name: trace.setting(name) or text for name, text in _DEFAULTS.items()}
    kept = parse_size(told["max_wal_size"])
    if trace.setting("wal_level") == "minimal":  # the kernel is told to forget a file that is full (XLogFileClose)
        kept = parse_size(told["wal_segment_size"])
    elif cycle is not None:
        cycles = _SPARE * (1 + float(told["checkpoint_completion_target"]))
        kept = min(kept, max(parse_size(told["min_wal_size"]), round(cycles * logged * cycle)))
    found = {"log_rate": logged / shrunk, "log_kept": min(round(kept / shrunk), _MOST_KEPT)}
    if not trace.has_changes:
        return found
    fill = LIKELY_FILL if trace.image_bytes is None else min(1.0, trace.image_bytes / trace.data_block)
    records = record_bytes(trace.wal_bytes_each, trace.wal_block, trace.images_each or 0.0, trace.data_block, fill,
                           trace.wal_records_each or 0.0)  # fmt: skip
    return {**found, "log_rate": records * trace.tps / shrunk, "log_image": image_bytes(size.data_block, fill) / shrunk}


_Counts = dict[str, float]


def _flat(counts: SimulationSnapshot, scale: int) -> _Counts:
    """The counts that a whole server would have where this is a miniature; what is of the trace is not scaled."""
    flat: dict[str, Any] = {**counts, **(counts["page_cache"] or {})}
    return {
        **{name: float(flat.get(name, 0)) * scale for name in (*COUNTS, "taken_accesses")},
        **{name: float(flat[name]) for name in ("time", "trace_accesses")},
    }


def _whole(parts: Sequence[_Counts]) -> _Counts:
    """The server of which these are miniatures. Accesses are those of the trace, each as many of the server's as in the
    sample: which hot pages are in it by chance does not matter then."""
    mean = {name: sum(part[name] for part in parts) / len(parts) for name in COUNTS}
    of_trace, taken = max(part["trace_accesses"] for part in parts), sum(part["taken_accesses"] for part in parts)
    if len(parts) > 1:
        mean["accesses"] *= of_trace * len(parts) / taken if taken else 0.0
        mean["hits"] = max(0.0, mean["accesses"] - mean["reads"] - mean["extends"])
    return {**mean, "time": max(part["time"] for part in parts)}


def _rates(
    trace: Recorded,
    size: Size,
    layout: str,
    point: SimulatedServer,
    counts: Sequence[Sequence[_Counts]],
    cycle: float | None,
    phases: Phases | None = None,
) -> Rates:
    """From the series of a server, or of each of its miniatures."""
    cycle = None if cycle is None else _traced(trace, size, cycle)
    empty: _Counts = dict.fromkeys((*COUNTS, "time"), 0.0)
    series = [empty, *(_whole(parts) for parts in zip(*counts, strict=True))]
    end = series[-1]
    total = sum(one["blocks"] for one in trace.relations) * trace.data_block
    seen = (end["first_reads"] + end["extends"]) * size.data_block
    seen_below = end["pages_read_first"] * size.kernel_page

    def warm(full: Callable[[_Counts], bool]) -> int | None:
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
    share = part["accesses"] / max(1.0, end["accesses"])
    transactions = trace.transactions * share
    each = {name: value / max(1.0, transactions) for name, value in part.items()}
    of_all: tuple[str, ...] = ()
    if not size.has_checkpoints:
        of_all = ("full_page_images",)
    elif cycle is not None:  # images and checkpoints come in cycles, and not evenly
        of_all = _CYCLIC
    whole = series[_behind_whole_cycles(series, point.checkpoint_interval)]
    for name in of_all:
        each[name] = whole[name] / (trace.transactions * max(1.0, whole["accesses"]) / max(1.0, end["accesses"]))
    has_cycles = size.has_checkpoints and not size.is_as_recorded
    images = _images(trace, series, cycle if has_cycles else cycle and trace.seconds * 2)
    if cycle is not None and size.has_checkpoints and size.data_factor > 1 and len(images) < _FEW_MARKS:
        images = _up_to(images, trace.tps * cycle, each["full_page_images"])
    since: dict[str, Points] = {}
    scattering = [{**one, "reads_of_device": one["device_reads"]} for one in series[begin:]]
    if phases is not None:
        since = since_checkpoint(trace.transactions, end["accesses"], phases.after)
        early = [_whole(parts) for parts in zip(*phases.before, strict=True)]
        images = tuple(
            (one["accesses"] / max(1.0, end["accesses"]) * trace.transactions, one["full_page_images"]) for one in early
        )
        for one in scattering:  # those for the checkpoint's writes come all at once
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
        images_spread=_images_spread(series, cycle) if has_cycles else 0.0,
        # In a trace of slices the parts differ by their pauses.
        pace=0.0 if trace.summary["events"].get("pause_microseconds") else _pace(series),
        errors=_errors([[empty, *one] for one in counts], begin, of_all) if len(counts) > 1 else {},
        since_checkpoint=since,
    )


def since_checkpoint(
    transactions: float, accesses: float, replicates: Sequence[Sequence[_Counts]]
) -> dict[str, Points]:
    """Transactions since a checkpoint, and each count up to then, from series of which the first place is just before
    it: so many transactions have so many accesses. It begins behind the first access that follows, which comes with
    the checkpoint and all that it writes."""
    begin = max(
        next((at for at, one in enumerate(series) if one["taken_accesses"] > series[0]["taken_accesses"]), 0)
        for series in replicates
    )
    first, *later = [_whole(parts) for parts in zip(*(series[begin:] for series in replicates), strict=True)]
    return {
        name: tuple(
            ((one["accesses"] - first["accesses"]) * transactions / max(1.0, accesses), one[name] - first[name])
            for one in later
        )
        for name in _AFTER_CHECKPOINT
    }


def _behind_whole_cycles(series: Sequence[_Counts], interval: int | None) -> int:
    """The first place behind the trace's last whole cycle of so many microseconds: a part of a cycle has no checkpoint.
    The last place without cycles of a known length, or a whole one."""
    cycles = int(series[-1]["time"] // interval) if interval else 0
    behind = (place for place, one in enumerate(series) if interval and cycles and one["time"] > cycles * interval)
    return next(behind, len(series) - 1)


def _errors(replicates: Sequence[Sequence[_Counts]], begin: int, of_all: Sequence[str]) -> dict[str, float]:
    """By count, behind `begin` or of all; accesses are known."""
    return {
        name: error_of([one[-1][name] - (0.0 if name in of_all else one[begin][name]) for one in replicates])
        for name in COUNTS
        if name not in ("accesses", "hits")
    }


def _room(capacity: float, seen: float, total: float) -> float:
    """The part of the pages that were not seen for which a cache has room beside those that were.

    >>> _room(100, 60, 80), _room(100, 60, 460), _room(100, 100, 460)
    (1.0, 0.1, 0.0)
    """
    unseen = total - seen
    return 1.0 if unseen <= 0 else min(1.0, max(0.0, capacity - seen) / unseen)


def _scatter(series: Sequence[dict[str, float]], name: str) -> float:
    """Relative half width of a mean of the parts between marks (batch means: A. Law, Simulation Modeling, ch. 9)."""
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


def _up_to(images: tuple[tuple[float, float], ...], cycle: float, each: float) -> tuple[tuple[float, float], ...]:
    """Images up to a cycle's end, of so many transactions, each with so many images in the mean of whole cycles. Of a
    cycle that is short in the trace marks have the beginning, in which there are more."""
    last, before = images[-1] if images else (0.0, 0.0)
    return (*images, (cycle, max(before, cycle * each))) if cycle > last else images


def _images_spread(series: Sequence[dict[str, float]], cycle: float | None) -> float:
    """Half the range of what whole cycles have of images an access, over their mean."""
    if cycle is None or len(series) < 3:
        return 0.0
    times = [one["time"] for one in series]
    step, start = times[2] - times[1], 2 * times[1] - times[2]
    # Counts between marks are not known: cycles that are short beside them are taken together.
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
    """Relative half width of the 95 % interval of one sixth's accesses, from the sixths of the trace."""
    places = [round(part * (len(series) - 1) / _SIXTHS) for part in range(_SIXTHS + 1)]
    parts = [series[later]["accesses"] - series[earlier]["accesses"] for earlier, later in pairwise(places)]
    parts = [part for part in parts if part > 0]
    if len(parts) < 3:
        return 0.0
    mean = sum(parts) / len(parts)
    deviation = math.sqrt(sum((part - mean) ** 2 for part in parts) / (len(parts) - 1))
    wide = float(stats.t.ppf(_SURE, len(parts) - 1)) * deviation * math.sqrt(1 + 1 / len(parts)) / mean
    return min(wide, _MOST_PACE)


def _images(
    trace: Recorded, series: Sequence[dict[str, float]], cycle: float | None
) -> tuple[tuple[float, float], ...]:
    """Images by transactions since the first checkpoint of the trace, up to the end of its cycle."""
    if cycle is None:
        return ()
    start = series[1]["time"] - (series[2]["time"] - series[1]["time"]) if len(series) > 2 else 0.0
    end = series[-1]["accesses"] or 1.0
    return tuple(
        (one["accesses"] / end * trace.transactions, one["full_page_images"])
        for one in series
        if one["time"] - start <= cycle * 1e6 * 1.001
    )

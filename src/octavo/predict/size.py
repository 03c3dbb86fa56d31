"""A predicted server, and the simulated server for it."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from octavo.predict.after_checkpoint import middle
from octavo.predict.layout import growth_of_all
from octavo.predict.recorded import Recorded
from octavo.predict.wal import LIKELY_FILL, image_bytes, record_bytes
from octavo.trace.simulate import LARGEST_REQUEST, READAHEAD, SimulatedServer, background, told_size
from octavo.trace.surface import combine_limit, rings
from octavo.units import parse_size

MARKS = 24
"""The number of parts of the trace between which counts are recorded."""
# PostgreSQL's defaults, for settings that are not in the trace. It keeps the files for the WAL of more than a cycle: a
# tenth more than the last one's, until the next checkpoint has ended (XLOGfileslop).
_DEFAULTS = {
    "min_wal_size": "80MB", "max_wal_size": "1GB", "wal_segment_size": "16MB", "checkpoint_completion_target": "0.9",
}  # fmt: skip
_SPARE = 1.1
_MOST_KEPT = 1 << 50


@dataclass(frozen=True, slots=True)
class Size:
    """A server to be predicted. Sizes are bytes. Without `memory` the page cache and the device are not simulated."""

    data_block: int
    shared_buffers: int
    memory: int | None
    kernel_page: int = 4096
    data_factor: float = 1.0
    """A multiple of the recorded data with the same skew: caches hold a correspondingly smaller part of it."""
    is_as_recorded: bool = False
    """Checkpoints are where the trace has them."""
    has_checkpoints: bool = True
    """False: the time after a checkpoint and before the next one. Only evicted pages are written, first clean ones."""
    readahead: int | None = None
    """read_ahead_kb of the device, in bytes; None: as in the trace, or 128 kB."""
    dirty_background: int | None = None
    """The dirty bytes above which the kernel writes back; None: a tenth of the page cache."""
    writer_pages: int | None = None
    """bgwriter_lru_maxpages; None: as in the trace."""
    flushes: tuple[int, int] | None = None
    """bgwriter_flush_after and checkpoint_flush_after in blocks; None: as in the trace."""
    pace: float = 1.0
    """The predicted transactions per second over those of the trace. The background writer and the kernel work by the
    clock, so each of their rounds has this many times as many transactions."""
    slice_seconds: float | None = None
    """The length of a slice: the server runs this long, then is frozen while others run (docs/plan.md, slices). None:
    it always runs."""


def layouts(own: int, block: int) -> tuple[str, ...]:
    """The ways to distribute accesses over the parts of a page: the likely one first, then the two ends of the range.

    >>> layouts(8192, 4096), layouts(8192, 32768)
    (('self_similar', 'self_similar_together', 'self_similar_apart'), ('merged',))
    """
    if block >= own:
        return ("merged",)
    return "self_similar", "self_similar_together", "self_similar_apart"


def simulated_server(trace: Recorded, size: Size, layout: str, cycle: float | None) -> SimulatedServer:
    """A server whose caches hold the same part of the relations as the predicted one's: they are smaller where a page
    holds fewer rows. `cycle`: seconds between checkpoints of the predicted server; None: where the trace has them, or
    none."""
    first, _ = trace.summary["times"] or (0, 1)
    interval: float | None = None
    if cycle is not None and not size.is_as_recorded:
        interval = traced_seconds(trace, size, cycle) if size.has_checkpoints else middle(trace)
    shrunk = growth_of_all(trace.relations, trace.data_block, size.data_block).likely * size.data_factor
    bulk_read, bulk_write, vacuum = rings(trace.summary, size.shared_buffers, size.data_block)
    cache = None if size.memory is None else max(size.kernel_page * 16, size.memory - size.shared_buffers)
    writer = background(trace.summary)
    if size.writer_pages is not None:
        writer["writer_pages"] = size.writer_pages
    if size.flushes is not None:
        writer["writer_flush"], writer["checkpoint_flush"] = size.flushes
    found = SimulatedServer(
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
        **writer,
        checkpoint_interval=None if interval is None else max(1, round(interval * 1e6)),
        checkpoint_from=first,
        **_logged(trace, size, shrunk, cycle if size.has_checkpoints and not size.is_as_recorded else None),
    )
    return _at_its_pace(found, size)


def _at_its_pace(found: SimulatedServer, size: Size) -> SimulatedServer:
    """Converts the intervals of the background writer and the kernel's 30 s, which go by the clock, to the trace's
    clock, where the predicted server is faster or slower.

    In slices the background writer's sleep (WaitLatch in bgwriter.c) ends while the server is frozen: it has a round
    when a slice begins, and the next ones at its usual interval. The least number of buffers that a round scans does
    not depend on this: BgBufferSync computes its part of the pool from the configured bgwriter_delay.
    """
    delay = float(found.writer_delay)
    if size.slice_seconds is not None:
        delay = size.slice_seconds * 1e6 / math.ceil(size.slice_seconds * 1e6 / delay)
    return dataclasses.replace(
        found,
        writer_delay=max(1, round(delay * size.pace)),
        dirty_expire=max(1, round(found.dirty_expire * size.pace / size.data_factor)),
    )


def traced_seconds(trace: Recorded, size: Size, cycle: float) -> float:
    """Seconds of the trace in which a page is accessed as often as in a checkpoint cycle of the predicted server.

    With four times the data the same accesses go to four times as many pages, so each gets a quarter of them. A page of
    the trace stands for four, and has in one second the accesses that each of them has in four. With less data a cycle
    is longer than the recorded one, but not longer than the trace.
    """
    first, last = trace.summary["times"] or (0, 1)
    return min(cycle / size.data_factor, max(cycle, (last - first) / 1e6 * (MARKS - 1) / MARKS))


def _logged(trace: Recorded, size: Size, shrunk: float, cycle: float | None) -> dict[str, Any]:
    """The WAL that passes through the page cache: bytes per second without images, as in the trace, and bytes per image
    at this size. Without page changes, or with full_page_writes off, no images are simulated. Where caches are made
    smaller instead of data larger, less WAL is kept. A transaction's WAL does not change: with four times the data a
    second of the trace is four of the server's, and a byte in the simulated caches stands for four.
    """
    growth = shrunk / size.data_factor
    if trace.wal_bytes_each is None or not trace.writes_wal:
        return {}
    logged = trace.wal_bytes_each * trace.tps
    told = {name: trace.setting(name) or text for name, text in _DEFAULTS.items()}
    kept = parse_size(told["max_wal_size"])
    if trace.setting("wal_level") == "minimal":  # the kernel drops a full file from its cache (XLogFileClose)
        kept = parse_size(told["wal_segment_size"])
    elif cycle is not None:
        cycles = _SPARE * (1 + float(told["checkpoint_completion_target"]))
        kept = min(kept, max(parse_size(told["min_wal_size"]), round(cycles * logged * cycle)))
    found = {"log_rate": logged / growth, "log_kept": min(round(kept / shrunk), _MOST_KEPT)}
    if not trace.has_changes or not trace.logs_images:
        return found
    fill = LIKELY_FILL if trace.image_bytes is None else min(1.0, trace.image_bytes / trace.data_block)
    records = record_bytes(trace.wal_bytes_each, trace.wal_block, trace.images_each or 0.0, trace.data_block, fill,
                           trace.wal_records_each or 0.0)  # fmt: skip
    return {**found, "log_rate": records * trace.tps / growth, "log_image": image_bytes(size.data_block, fill) / growth}

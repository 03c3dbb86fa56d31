"""Simulates servers of other sizes on a trace: the document of `octavo trace simulate`."""

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from octavo import _core
from octavo.errors import UsageError
from octavo.trace.core_types import ServerCounts, Summary
from octavo.trace.files import MOST_LOST, Observe, ignore_progress, lost_share, reading, require_accesses, summarize
from octavo.trace.plausible import plausible
from octavo.trace.surface import combine_limit, rings, server_buffers
from octavo.trace.wal import written
from octavo.units import format_size, human_size, parse_duration, parse_size, size_option

SCHEMA_VERSION = 1
KERNEL_PAGES = tuple(1024 << power for power in range(2, 7))
# Defaults of the kernel, for values that neither the trace nor an option has: the memory page of most machines, and the
# defaults of read_ahead_kb and max_sectors_kb (Documentation/ABI/stable/sysfs-block).
KERNEL_PAGE = 4096
READAHEAD = 128 * 1024
LARGEST_REQUEST = 1280 * 1024
# The longest time in seconds for the background writer to scan all buffers (scan_whole_pool_milliseconds in bufmgr.c).
WHOLE_POOL = 120.0
# The most blocks of bgwriter_flush_after and checkpoint_flush_after (WRITEBACK_MAX_PENDING_FLUSHES).
MOST_FLUSHED = 256
# More servers than this are treated as a mistake on the command line.
MOST_SERVERS = 256


@dataclass(frozen=True, slots=True)
class SimulatedServer:
    """A simulated server. Sizes are bytes. Without a page cache (`None`) only its requests to the kernel are counted.

    `layout` selects the part of a page that an access needs when blocks are smaller than the trace's: always the same
    one ("concentrated") or each in turn ("spread"); otherwise it is "merged". The kernel writes back above
    `dirty_background` (None: a tenth of the page cache), and pages that have been dirty for `dirty_expire`.
    `dirty_expire`, the background writer's delay and the checkpoint interval (None: where the trace has checkpoints)
    are microseconds of the trace; the first interval begins at `checkpoint_from`. Each round of the background writer
    scans at least 1 / `writer_rounds` of the buffers. The background writer and a checkpoint make the kernel write
    after `writer_flush` and `checkpoint_flush` blocks (0: never). The WAL that passes through the page cache is
    `log_rate` bytes per second and `log_image` bytes per full-page image, in recycled files of `log_kept` bytes.
    """

    data_block: int
    layout: str
    shared_buffers: int
    bulk_read_ring: int
    bulk_write_ring: int
    vacuum_ring: int
    combine_limit: int
    page_cache: int | None
    kernel_page: int
    readahead: int
    largest_request: int = LARGEST_REQUEST
    dirty_background: int | None = None
    dirty_expire: int = 30_000_000
    writer_delay: int = 200_000
    writer_rounds: float = WHOLE_POOL / 0.2
    writer_pages: int = 100
    writer_multiplier: float = 2.0
    writer_flush: int = 64
    checkpoint_flush: int = 32
    checkpoint_interval: int | None = None
    checkpoint_from: int = 0
    log_rate: float = 0.0
    log_image: float = 0.0
    log_kept: int = 1 << 30


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """A request: every combination is a server. Sizes are bytes. Empty values default to the recorded server's.

    `memory` is the sum of shared_buffers and the page cache.
    """

    path: Path
    shared_buffers: tuple[int, ...] = ()
    data_blocks: tuple[int, ...] = ()
    memory: tuple[int, ...] = ()
    kernel_pages: tuple[int, ...] = ()
    readahead: tuple[int, ...] = ()
    threads: int = 0
    checkpoint: float | None = None
    """Seconds between checkpoints; None: where the trace has them."""


def sizes(option: str, text: str | None, allowed: Sequence[int] = (), least: int = 1024) -> tuple[int, ...]:
    """The sizes of an option in bytes. Raises UsageError for an invalid size, or one that is not allowed.

    >>> sizes("--data-block", "4kB,8kB", (4096, 8192)), sizes("--memory", None)
    ((4096, 8192), ())
    """
    if text is None:
        return ()
    lowest = "0B" if allowed else format_size(least)
    found = tuple(dict.fromkeys(size_option(option, part, lowest) for part in text.split(",")))
    for size in found:
        if allowed and size not in allowed:
            ends = f"{format_size(allowed[0])} to {format_size(allowed[-1])}"
            raise UsageError(f"{option} {format_size(size)}: it must be a power of two from {ends}")
        if not allowed and not least <= size < 2**50:
            raise UsageError(f"{option} {format_size(size)}: it must be from {format_size(least)} to 1024TB")
    return found


def one_size(option: str, text: str, allowed: Sequence[int] = (), least: int = 1024) -> int:
    """The only size of an option, in bytes. Raises UsageError.

    >>> one_size("--memory", "64GB")
    68719476736
    """
    first, *others = sizes(option, text, allowed, least)
    if others:
        raise UsageError(f"{option} {text}: give one size")
    return first


def simulate(request: SimulationRequest, observe: Observe = ignore_progress) -> dict[str, Any]:
    """Returns the document. Raises UsageError for what cannot be simulated, HostError for what cannot be read."""
    summary = plausible(summarize(request.path))
    require_accesses(request.path, summary)
    points = servers(summary, request)
    with reading(request.path) as opened:
        totals, found = _core.trace_servers(
            opened, summary["page_size"], points,
            threads=request.threads or len(os.sched_getaffinity(0)), observe=observe,
        )  # fmt: skip
    seconds, transactions = recorded_seconds(summary), summary["events"].get("transactions", (0, 0))[1]
    return {
        "schema_version": SCHEMA_VERSION,
        "trace": str(request.path),
        "own_page_size_bytes": summary["page_size"],
        "accesses": totals["accesses"],
        "changes": totals["changes"],
        "seconds": seconds,
        "transactions": transactions or None,
        "lost_share": lost_share(summary),
        "properties": summary["properties"],
        "shared_buffers_bytes": server_buffers(summary),
        "wal": None if (wal := written(summary)) is None else asdict(wal),
        "servers": [
            _described(point, counts, seconds, transactions) for point, counts in zip(points, found, strict=True)
        ],
        "limitations": limitations(summary, points),
    }


def recorded_seconds(summary: Summary) -> float | None:
    """The duration of the recording in seconds, without the pauses between slices."""
    times = summary["times"]
    if not times or times[1] <= times[0]:
        return None
    pauses = summary["events"].get("pause_microseconds", (0, 0))[1]
    return max(0, times[1] - times[0] - pauses) / 1e6 or None


def servers(summary: Summary, request: SimulationRequest) -> list[SimulatedServer]:
    """Every requested combination; blocks smaller than the trace's have two. Raises UsageError if there is none."""
    own, recorded = summary["page_size"], server_buffers(summary)
    buffers = request.shared_buffers or ((recorded,) if recorded else ())
    if not buffers:
        raise UsageError("the trace does not contain shared_buffers; pass --shared-buffers 1GB,4GB")
    memories: tuple[int | None, ...] = request.memory or (None,)
    for memory, size in itertools.product(request.memory, buffers):
        if memory <= size:
            raise UsageError(
                f"--memory {format_size(memory)} has no room for a page cache beside shared_buffers of "
                f"{human_size(size)}; increase --memory"
            )
    first, _ = summary["times"] or (0, 0)
    points = [
        SimulatedServer(
            data_block=block,
            layout=layout,
            shared_buffers=size,
            bulk_read_ring=bulk_read,
            bulk_write_ring=bulk_write,
            vacuum_ring=vacuum,
            combine_limit=combine_limit(summary, block),
            page_cache=None if memory is None else memory - size,
            kernel_page=kernel_page,
            readahead=readahead,
            **background(summary),
            checkpoint_interval=None if request.checkpoint is None else round(request.checkpoint * 1e6),
            checkpoint_from=first,
        )
        for block in request.data_blocks or (own,)
        for layout in (("merged",) if block >= own else ("concentrated", "spread"))
        for size in buffers
        for bulk_read, bulk_write, vacuum in (rings(summary, size, block),)
        for memory in memories
        for kernel_page in request.kernel_pages or (told_size(summary, "kernel_page_bytes", KERNEL_PAGE),)
        for readahead in request.readahead or (told_size(summary, "readahead_bytes", READAHEAD),)
    ]
    if len(points) > MOST_SERVERS:
        raise UsageError(f"these options make {len(points)} servers, more than {MOST_SERVERS}; name fewer sizes")
    return points


def told_size(summary: Summary, name: str, otherwise: int) -> int:
    """The bytes of a property, or `otherwise` if the trace does not have it."""
    text = summary["properties"].get(name, "")
    return int(text) if text.isdecimal() and len(text) < 16 else otherwise


def flush_blocks(settings: Mapping[str, str], block: int) -> tuple[int, int] | None:
    """bgwriter_flush_after and checkpoint_flush_after of a server with this data block, in blocks; None where they are
    not known.

    >>> flush_blocks({"bgwriter_flush_after": "512kB", "checkpoint_flush_after": "0"}, 8192)
    (64, 0)
    """
    try:
        writer, checkpoint = (
            0 if text == "0" else min(MOST_FLUSHED, parse_size(text) // block)
            for text in (settings["bgwriter_flush_after"], settings["checkpoint_flush_after"])
        )
    except (KeyError, UsageError, ZeroDivisionError):
        return None
    return writer, checkpoint


def background(summary: Summary) -> dict[str, Any]:
    """The recorded server's background writer and flushes, or PostgreSQL's defaults."""
    flushes = flush_blocks(summary["settings"], summary["page_size"])
    known = {} if flushes is None else {"writer_flush": flushes[0], "checkpoint_flush": flushes[1]}
    return known | _writer(summary["settings"])


def _writer(settings: Mapping[str, str]) -> dict[str, Any]:
    try:
        delay = parse_duration(settings["bgwriter_delay"])
        return {
            "writer_delay": round(delay * 1e6),
            "writer_rounds": WHOLE_POOL / delay,
            "writer_pages": int(settings["bgwriter_lru_maxpages"]),
            "writer_multiplier": float(settings["bgwriter_lru_multiplier"]),
        }
    except (KeyError, ValueError, UsageError, ZeroDivisionError):
        return {}


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _described(
    point: SimulatedServer, counts: ServerCounts, seconds: float | None, transactions: int
) -> dict[str, Any]:
    """A server's settings, its counts, and figures derived from them; None for unknown ones."""
    below = counts["page_cache"]
    reads = None if below is None else below["device_reads"]
    return {
        "data_block_bytes": point.data_block,
        "layout": point.layout,
        "shared_buffers_bytes": point.shared_buffers,
        "page_cache_bytes": point.page_cache,
        "kernel_page_bytes": point.kernel_page,
        "readahead_bytes": point.readahead,
        "io_combine_limit_bytes": point.combine_limit,
        **{name: value for name, value in counts.items() if name not in ("series", "time")},
        "hit_ratio": _ratio(counts["hits"], counts["accesses"]),
        "page_cache_hit_ratio": None if below is None else _ratio(below["requests_from_cache"], counts["requests"]),
        "bytes_per_request": _ratio(counts["requested_bytes"], counts["requests"]),
        "device_reads": reads,
        "device_reads_per_second": _ratio(reads, seconds),
        "device_reads_per_transaction": _ratio(reads, transactions),
        "device_bytes_per_read": None if below is None else _ratio(below["device_read_bytes"], reads),
        "evictions_per_second": _ratio(counts["evictions"], seconds),
    }


def limitations(summary: Summary, points: Sequence[SimulatedServer]) -> list[str]:
    """Limitations of the figures, most important first."""
    own = summary["page_size"]
    found: list[str] = []
    if (share := lost_share(summary)) > MOST_LOST:
        found.append(f"{share:.1%} of the accesses are lost: counts are of the rest")
    if summary["missing"]["is_cut"]:
        found.append("the trace is cut: its end is missing")
    if summary["events"].get("pause_microseconds"):
        found.append("recorded in slices: the simulation continues after each gap as if nothing had happened in it")
    found.append("caches are empty at the beginning: a short recording overstates reads")
    if not summary["changes"] + summary["full_page_images"]:
        found.append(
            "the trace has no changes of pages: writes, checkpoints and full-page images are not simulated, and "
            "evicted pages are assumed to be clean"
        )
    elif (settings := summary["settings"]).get("full_page_writes") == "off":
        found.append("full_page_writes is off: full-page images are those that the server would have with it on")
    elif settings.get("data_checksums") == "off" and settings.get("wal_log_hints", "off") == "off":
        found.append(
            "data_checksums and wal_log_hints are off: hint bits count as changes, and the server logs no full-page "
            "images for them"
        )
    if any(point.data_block < own for point in points):
        found.append(
            f"blocks smaller than {human_size(own)}: a trace does not record which part of a page was needed, so two "
            "bounds are shown; scans read all parts"
        )
    if any(point.data_block > own for point in points):
        found.append(
            f"blocks larger than {human_size(own)} are merged neighbours; fillfactor and headers are not considered"
        )
    if any(point.page_cache is not None for point in points):
        found.append(
            "the page cache is Linux's two LRU lists (not CONFIG_LRU_GEN) with readahead for each backend's open file, "
            "without large folios (XFS, ext4 since 6.18), which move readahead's marks: see docs/trace.md; "
            "--memory is for shared_buffers and the page cache alone"
        )
    else:
        found.append("without --memory no page cache and no device are simulated")
    return found

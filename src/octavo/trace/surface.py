"""Hit ratios by shared_buffers and page size: the document for the terminal, the page and JSON."""

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from octavo import _core
from octavo.errors import UsageError
from octavo.trace.core_types import BufferPoint, Curve, Summary, Totals
from octavo.trace.files import MOST_LOST, Observe, ignore_progress, lost_share, reading, require_accesses, summarize
from octavo.trace.plausible import NO_RING, plausible
from octavo.units import format_size, human_size, parse_size, size_option

SCHEMA_VERSION = 1
PAGE_SIZES = tuple(1024 << power for power in range(6))
# Capacities per octave, and the smallest capacity as a number of the largest pages, unless shared_buffers are smaller.
STEPS = 8
FEWEST_PAGES = 16
# The capacities of the clock sweep, relative to the server's shared_buffers.
SWEEPS = (0.5, 1.0, 2.0)
# A capacity with fewer sampled pages than this is not resolved.
FEWEST_SAMPLED = 10
# The part of the largest possible hits at which shared_buffers are large enough.
ENOUGH = 0.99
# The rings of bulk reads, and of VACUUM before 17; of bulk writes.
_RING = 256 * 1024
_BULK_WRITE_RING = 16 * 1024**2
# The most blocks of a combined read, by version (PG_IOV_MAX in pg_iovec.h). Before 17 reads are not combined.
_MOST_COMBINED = {180000: 128, 170000: 32}
# Processes besides max_connections that share the pins of a server with defaults (MaxBackends and auxiliary ones of
# 18).
_OTHER_BACKENDS = 74
_NO_SIZE = "it must be a power of two from 1kB to 32kB"


@dataclass(frozen=True, slots=True)
class SurfaceRequest:
    """A request. Sizes are bytes; `rate` is the sampled fraction of the pages, None for all."""

    path: Path
    page_sizes: tuple[int, ...] = ()
    shared_buffers: int | None = None
    rate: float | None = None
    seed: int = 1
    threads: int = 0


def page_sizes(texts: Sequence[str]) -> tuple[int, ...]:
    """Bytes of page sizes such as 8kB. Raises UsageError for a size that PostgreSQL's data blocks cannot have.

    >>> page_sizes(["4kB", "32kB"])
    (4096, 32768)
    """
    found = tuple(dict.fromkeys(size_option("--page-size", text) for text in texts))
    for size in found:
        if size not in PAGE_SIZES:
            raise UsageError(f"--page-size {format_size(size)} is not a data block size: {_NO_SIZE}")
    return found


class Simulator(Protocol):
    """The interface to the place where a trace is simulated."""

    def curves(
        self, request: SurfaceRequest, own: int, sizes: Sequence[int], capacities: Sequence[int]
    ) -> tuple[Totals, list[Curve], int]:
        """LRU curves of page sizes, and the largest number of parts into which the pages of a size were divided."""
        ...

    def buffers(
        self, request: SurfaceRequest, own: int, places: Sequence[tuple[int, int, int, int, int]]
    ) -> list[BufferPoint]:
        """PostgreSQL's buffer manager at these points, in the form of `_core.trace_buffers`."""
        ...


class ThisHost:
    """Simulates everything in this process, on several threads."""

    def __init__(self, observe: Observe = ignore_progress) -> None:
        self._observe = observe

    def curves(
        self, request: SurfaceRequest, own: int, sizes: Sequence[int], capacities: Sequence[int]
    ) -> tuple[Totals, list[Curve], int]:
        """All pages in one part."""
        with reading(request.path) as opened:
            totals, curves = _core.trace_curves(
                opened, own, list(sizes), list(capacities),
                rate=request.rate, seed=request.seed, threads=threads_of(request), observe=self._observe,
            )  # fmt: skip
        return totals, curves, 1

    def buffers(
        self, request: SurfaceRequest, own: int, places: Sequence[tuple[int, int, int, int, int]]
    ) -> list[BufferPoint]:
        """All points in one pass."""
        with reading(request.path) as opened:
            return _core.trace_buffers(
                opened, own, list(places),
                rate=request.rate, seed=request.seed, threads=threads_of(request), observe=self._observe,
            )[1]  # fmt: skip


def threads_of(request: SurfaceRequest) -> int:
    """The number of threads in the request, or else the number of usable processors."""
    return request.threads or len(os.sched_getaffinity(0))


def surface(
    request: SurfaceRequest, observe: Observe = ignore_progress, simulator: Simulator | None = None
) -> dict[str, Any]:
    """Returns the document. Raises UsageError for an invalid trace or size, HostError if the file cannot be read."""
    simulator = simulator or ThisHost(observe)
    summary = plausible(summarize(request.path))
    own = summary["page_size"]
    require_accesses(request.path, summary)
    sizes = request.page_sizes or tuple(size for size in PAGE_SIZES if own / 32 <= size <= own * 64) or (own,)
    buffers = request.shared_buffers or server_buffers(summary)
    largest = max(*sizes, own)
    lowest = FEWEST_PAGES * largest if buffers is None else max(largest, min(FEWEST_PAGES * largest, buffers))
    capacities = _capacities(lowest, _upper_end(summary, buffers, largest))
    with reading(request.path):
        totals, curves, parts = simulator.curves(request, own, sizes, capacities)
        # Each part sees only its own pages, which limits the resolution at small capacities.
        rate = request.rate if parts == 1 else (request.rate or 1.0) / parts
        points: list[BufferPoint] = []
        if buffers is not None:
            places = [
                (size, capacity, *rings(summary, capacity, size))
                for size in sizes
                if size >= own
                for capacity in (round(buffers * part) for part in SWEEPS)
                if capacity >= FEWEST_PAGES * size
            ]
            points = simulator.buffers(request, own, places)
    return {
        "schema_version": SCHEMA_VERSION,
        "trace": str(request.path),
        "own_page_size_bytes": own,
        "accesses": totals["accesses"],
        "seconds": _seconds(summary),
        "lost_share": lost_share(summary),
        "properties": summary["properties"],
        "shared_buffers_bytes": buffers,
        "shared_buffers_from": _origin(request, summary),
        "sample_rate": request.rate,
        "parts": parts,
        "capacities_bytes": capacities,
        "curves": [_described(curve, capacities, buffers, rate) for curve in sorted(curves, key=_order)],
        "clock_sweep": [dict(point) for point in points],
        "limitations": limitations(summary, request, sizes, parts),
    }


def _order(curve: Curve) -> tuple[int, str]:
    return curve["page_size"], curve["layout"]


def _origin(request: SurfaceRequest, summary: Summary) -> str | None:
    if request.shared_buffers:
        return "option"
    return "server" if server_buffers(summary) is not None else None


def server_buffers(summary: Summary) -> int | None:
    """The recorded server's shared_buffers in bytes, or None if the trace does not have them."""
    text = summary["settings"].get("shared_buffers")
    try:
        return parse_size(text) if text else None
    except UsageError:
        return None


def _seconds(summary: Summary) -> float | None:
    times = summary["times"]
    return (times[1] - times[0]) / 1e6 if times else None


def combine_limit(summary: Summary, page_size: int) -> int:
    """The bytes that a scan reads at once in pages of this size (io_combine_limit, which io_max_combine_limit caps
    since 18); 0 before 17, which reads block by block."""
    text, settings = summary["properties"].get("server_version_num", ""), summary["settings"]
    version = int(text) if text.isdecimal() and len(text) < 10 else 0
    blocks = next((most for since, most in _MOST_COMBINED.items() if version >= since), 0)
    try:
        limits = [parse_size(settings.get("io_combine_limit", "128kB"))]
        if most := settings.get("io_max_combine_limit"):
            limits.append(parse_size(most))
    except UsageError:
        return 0
    return min(blocks * page_size, *limits)


def rings(summary: Summary, buffers: int, page_size: int) -> tuple[int, int, int]:
    """The sizes in bytes of the rings of bulk reads, bulk writes and VACUUM that GetAccessStrategy creates in the
    recorded server's version (freelist.c); 0 for none. Since 18 the ring of bulk reads has room for the reads in
    flight, up to what a backend may pin."""
    settings = summary["settings"]
    try:
        version = int(summary["properties"].get("server_version_num", ""))
        flight = int(settings.get("effective_io_concurrency", "16")) * combine_limit(summary, page_size)
        backends = int(settings.get("max_connections", "100")) + _OTHER_BACKENDS
    except ValueError:
        version, flight, backends = 170000, 0, 1
    bulk_read = _RING
    if version >= 180000:
        pinned = buffers // page_size // backends * page_size
        bulk_read = min(_RING + flight, max(_RING, pinned))
    vacuum = 2 * 1024**2 if version >= 170000 else _RING
    limit = settings.get("vacuum_buffer_usage_limit", "")
    with suppress(UsageError):
        vacuum = 0 if limit == NO_RING else parse_size(limit)
    return bulk_read, _BULK_WRITE_RING, vacuum


def _upper_end(summary: Summary, buffers: int | None, largest: int) -> int:
    """A capacity that holds everything: each access brings in at most one page, each relation at most all of its pages.
    Sizes are known only of the relations of the database that the recorder was connected to."""
    own = summary["page_size"]
    known = {(one["tablespace"], one["database"], one["relation"]): one["blocks"] for one in summary["relations"]}
    others = sum(
        count
        for tablespace, database, relation, _, count in summary["streams"]
        if not known.get((tablespace, database, relation))
    )
    most = min((summary["reads"] + summary["extends"]) * largest, 4 * sum(known.values()) * own + others * largest)
    return max(most, 4 * (buffers or 0), 1024 * largest)


def _capacities(low: int, high: int) -> list[int]:
    steps = max(1, math.ceil(math.log2(max(2.0, high / low)) * STEPS))
    return sorted({round(low * 2 ** (step / STEPS)) for step in range(steps + 1)})


def _described(curve: Curve, capacities: list[int], buffers: int | None, rate: float | None) -> dict[str, Any]:
    """A curve with its knee, the capacity that is enough, and the server's point on it."""
    ratios, size = curve["hit_ratios"], curve["page_size"]
    return {
        "page_size_bytes": size,
        "layout": curve["layout"],
        "working_set_bytes": round(curve["pages"] * size),
        "hit_ratios": ratios,
        "standard_errors": curve["standard_errors"],
        "resolved_from_bytes": round(FEWEST_SAMPLED / rate * size) if rate else None,
        "knee_bytes": knee(capacities, ratios),
        "enough_bytes": enough(capacities, ratios),
        "at_server": None if buffers is None else interpolated(capacities, ratios, buffers),
    }


def interpolated(capacities: Sequence[int], ratios: Sequence[float], capacity: int) -> float:
    """The ratio at a capacity, interpolated between its neighbours on a logarithmic axis.

    >>> interpolated([1024, 4096], [0.5, 0.7], 2048), interpolated([1024, 4096], [0.5, 0.7], 9999)
    (0.6, 0.7)
    """
    if capacity <= capacities[0]:
        return ratios[0]
    for (low, first), (high, second) in zip(
        zip(capacities, ratios, strict=True), zip(capacities[1:], ratios[1:], strict=True), strict=False
    ):
        if capacity <= high:
            return first + (second - first) * math.log(capacity / low) / math.log(high / low)
    return ratios[-1]


def knee(capacities: Sequence[int], ratios: Sequence[float]) -> int | None:
    """The capacity after which more memory gains least: the point highest above the line between the curve's ends, on a
    logarithmic axis (Satopää et al., "Finding a Kneedle in a Haystack", 2011). None for a flat curve, or one that bends
    the other way.

    >>> knee([1, 2, 4, 8, 16], [0.0, 0.1, 0.8, 0.85, 0.9]), knee([1, 2], [0.5, 0.5])
    (4, None)
    """
    end = next((place for place, ratio in enumerate(ratios) if ratio >= ratios[-1]), len(ratios) - 1)
    rise = ratios[end] - ratios[0]
    if end == 0 or rise <= 0:
        return None
    above = [(ratios[place] - ratios[0]) / rise - place / end for place in range(end + 1)]
    place = above.index(max(above))
    return capacities[place] if above[place] > 0 else None


def enough(capacities: Sequence[int], ratios: Sequence[float]) -> int:
    """The smallest capacity with nearly all of the hits of the largest.

    >>> enough([1, 2, 4, 8], [0.2, 0.5, 0.899, 0.9])
    4
    """
    return next(capacity for capacity, ratio in zip(capacities, ratios, strict=True) if ratio >= ENOUGH * ratios[-1])


def limitations(summary: Summary, request: SurfaceRequest, sizes: Sequence[int], parts: int = 1) -> list[str]:
    """Limitations of the curves, most important first."""
    own, missing = summary["page_size"], summary["missing"]
    found: list[str] = []
    if (share := lost_share(summary)) > MOST_LOST:
        found.append(f"{share:.1%} of the accesses are lost: hit ratios are of the rest")
    if missing["is_cut"]:
        found.append("the trace is cut: its end is missing")
    if any(size < own for size in sizes):
        found.append(
            f"pages smaller than {human_size(own)}: a trace does not record which part of a page was needed, so two "
            "bounds are shown: accesses spread over all parts and concentrated on one"
        )
    if any(size > own for size in sizes):
        found.append(
            f"pages larger than {human_size(own)} are merged neighbours; page headers and fillfactor, which change "
            "how many rows a page holds, are not considered"
        )
    found.append(
        "curves are of LRU; PostgreSQL's clock sweep is run at single sizes of shared_buffers and listed beside them"
    )
    found.append("the first access of a page is a miss at any size: a short recording understates hit ratios")
    if parts > 1:
        found.append(
            f"the pages of a size are simulated in up to {parts} parts by hash, each of which estimates the curve; "
            f"below {FEWEST_SAMPLED * parts / (request.rate or 1.0):,.0f} pages of capacity nothing is resolved"
        )
    elif request.rate is not None:
        found.append(
            f"sampled: {request.rate:.2%} of the pages; below {FEWEST_SAMPLED / request.rate:,.0f} pages of capacity "
            "nothing is resolved"
        )
    return found

"""The counters of a simulated server at a mark of the trace, and counts per transaction."""

from collections.abc import Sequence
from typing import Any

from octavo.trace.core_types import SimulationSnapshot

COUNTS = (
    "accesses", "hits", "reads", "first_reads", "extends", "evictions", "dirty_evictions", "checkpoint_writes",
    "writer_writes", "full_page_images", "requests", "requested_bytes", "device_reads", "device_read_bytes",
    "device_writes", "device_written_bytes", "pages_read_first", "pages_read_to_write",
)  # fmt: skip

Counts = dict[str, float]
"""Counts since the beginning of the trace, by name (COUNTS), and the time in microseconds."""

Points = tuple[tuple[float, float], ...]
"""Pairs of the number of transactions and a count up to then."""


def flat(counts: SimulationSnapshot, scale: int) -> Counts:
    """The counts of a whole server, extrapolated from a miniature. Values that belong to the trace are not scaled."""
    found: dict[str, Any] = {**counts, **(counts["page_cache"] or {})}
    return {
        **{name: float(found.get(name, 0)) * scale for name in (*COUNTS, "taken_accesses")},
        **{name: float(found[name]) for name in ("time", "trace_accesses")},
    }


def whole(parts: Sequence[Counts]) -> Counts:
    """The counts of the server that these miniatures represent. Accesses are those of the whole trace, at the sample's
    ratio of server accesses to trace accesses, so it does not matter which hot pages happen to be in the sample."""
    mean = {name: sum(part[name] for part in parts) / len(parts) for name in COUNTS}
    of_trace, taken = max(part["trace_accesses"] for part in parts), sum(part["taken_accesses"] for part in parts)
    if len(parts) > 1:
        mean["accesses"] *= of_trace * len(parts) / taken if taken else 0.0
        mean["hits"] = max(0.0, mean["accesses"] - mean["reads"] - mean["extends"])
    return {**mean, "time": max(part["time"] for part in parts)}


def at_marks(series: Sequence[Counts], marks: Sequence[int], wanted: Sequence[int]) -> list[Counts]:
    """Selects some of the counts: `series` has those at `marks` and at the end, the result those at `wanted` and at the
    end."""
    places = {mark: place for place, mark in enumerate(marks)}
    return [*(series[places[mark]] for mark in wanted), series[-1]]


def of_so_many(counted: Points, transactions: float) -> float | None:
    """The mean per transaction of a count over so many. The count is linear between points, and continues after the
    last one with the slope between the last two.

    >>> of_so_many(((100.0, 0.0), (200.0, 40.0)), 150.0)
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

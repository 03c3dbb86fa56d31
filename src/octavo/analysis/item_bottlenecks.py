"""The bottleneck of each item, such as a query: CPU, the device's requests or bytes, or the latency of one request.

The workload measures around each run of an item: CPU time relative to the processors that the item could use, the time
that it waited for a processor, and what the device did meanwhile. The CPU is the bottleneck where both together took
`_CPU` of the time; the device's requests or bytes are where its limits are known and reached. Else, where the device
was busy for most of the time that was not the CPU's, it is the latency of requests with fewer than two of them in
flight on average, else requests, or bytes from `_LARGE` a request on. P. Boncz, T. Neumann and O. Erling, "TPC-H
Analyzed" (2013), name the choke points of each query.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from octavo.analysis.device_limits import limits_during
from octavo.analysis.trials import CUT_OFF, TrialKey, values_of
from octavo.plan.cells import Cell
from octavo.store.records import TrialRecord

CPU, REQUESTS, BYTES, LATENCY, OTHER = "CPU", "requests", "bytes", "latency", "waiting for neither CPU nor device"
_CPU = 0.8
_LIMIT = 0.8
_LARGE = 64 * 1024
_QUEUE = 2.0
_NEEDED = (
    "seconds", "server_cpu_share", "server_cpu_wait_share", "query_device_busy_share", "query_device_reads",
    "query_device_writes", "query_device_read_bytes", "query_device_written_bytes",
)  # fmt: skip
_PERHAPS = ("query_device_queue", "requests_limit", "bytes_limit")
# What a report reads of the trials for this, whichever metrics it shows.
READ = (*_NEEDED, "query_device_queue")


def item_bottlenecks(cells: Sequence[Cell], used: Mapping[TrialKey, TrialRecord]) -> list[dict[str, Any]]:
    """A row for each cell and item whose runs were watched, means over the trials that count: `bottleneck`, and the
    shares of the CPU and of the device's time that it follows from."""
    by_cell: dict[str, dict[str, list[dict[str, float]]]] = {}
    device_of = {cell.id: cell.levels.get("device", "native") for cell in cells}
    for (_, _, cell_id), trial in used.items():
        if all(one.item is None for one in trial.observations):
            continue
        by_item: dict[str, dict[str, float]] = {}
        for (item, metric), value in values_of(trial).items():
            if item is not None:
                by_item.setdefault(item, {})[metric] = value
        limits = limits_during(device_of[cell_id], trial)
        known = {"requests_limit": limits.requests or 0.0, "bytes_limit": limits.bytes or 0.0}
        for item, values in by_item.items():
            # Of an item with cancelled runs the time is that of the others, and what was used is that of all.
            if all(name in values for name in _NEEDED) and not values.get(CUT_OFF):
                by_cell.setdefault(cell_id, {}).setdefault(item, []).append(values | known)
    rows: list[dict[str, Any]] = []
    for cell in cells:
        for item, trials in by_cell.get(cell.id, {}).items():
            mean = {name: fmean(one.get(name, 0.0) for one in trials) for name in (*_NEEDED, *_PERHAPS)}
            rows.append(
                {
                    "cell": cell.id,
                    "condition": cell.condition,
                    "item": item,
                    "bottleneck": bottleneck(mean),
                    "cpu_share": mean["server_cpu_share"],
                    "device_busy_share": mean["query_device_busy_share"],
                }
            )
    return rows


def bottleneck(mean: Mapping[str, float]) -> str:
    """An item's bottleneck, from its numbers and the device's limits (0: no limit).

    >>> def of(*values): return bottleneck(dict(zip((*_NEEDED, *_PERHAPS), (*values, 0, 0))))
    >>> of(1, 0.9, 0, 0.3, 10, 0, 1e6, 0, 1), of(1, 0.5, 0.4, 0.3, 10, 0, 1e6, 0, 1)
    ('CPU', 'CPU')
    >>> of(1, 0.2, 0, 0.7, 5000, 0, 4e7, 0, 1), of(1, 0.2, 0, 0.7, 900, 0, 9e7, 0, 8)
    ('latency', 'bytes')
    >>> of(1, 0.3, 0, 0.1, 10, 0, 1e5, 0, 1)
    'waiting for neither CPU nor device'
    """
    cpu = mean["server_cpu_share"] + mean["server_cpu_wait_share"]
    if cpu >= _CPU:
        return CPU
    requests = mean["query_device_reads"] + mean["query_device_writes"]
    amount = mean["query_device_read_bytes"] + mean["query_device_written_bytes"]
    for name, used in ((REQUESTS, requests), (BYTES, amount)):
        limit = mean[f"{name}_limit"]
        if limit and used / mean["seconds"] >= _LIMIT * limit:
            return name
    if mean["query_device_busy_share"] < (1 - cpu) / 2 or not requests:
        return OTHER
    if mean["query_device_queue"] < _QUEUE:
        return LATENCY
    return BYTES if amount / requests >= _LARGE else REQUESTS

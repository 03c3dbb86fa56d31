"""The bottleneck of each cell: the device's requests, its bytes, the CPU, or none of these.

A page size trades requests for bytes, so its verdict depends on which of them limits the device. Both are compared with
the device's limits, for reads and writes together, as volumes define them. If the limits are unknown, the reference is
the highest rate of any cell of the run, provided the device was busy all the time with several requests, and another
cell came close: such a limit is a lower bound. With one request after the other the wait is for their latency, and the
device may serve many more at once (iostat(1) on %util).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from octavo.analysis.device_limits import limits_during
from octavo.analysis.trials import TrialKey, values_of
from octavo.plan.cells import Cell
from octavo.store.records import TrialRecord
from octavo.units import spaced_sizes

# The CPU, or the time of a device, that is used up to this share has run out.
_USED_UP = 0.9
# Of its limits a device gave this much and more to trials that always had requests waiting: the rest is their start,
# stalls of the machine, and what a limit on each direction leaves unused.
_USED_UP_LIMIT = 0.8
# Fewer requests than this under way on average do not fill a device that serves several at once.
_QUEUE = 2.0
_NEEDED = (
    "device_reads_per_second",
    "device_writes_per_second",
    "device_read_kb_per_second",
    "device_written_kb_per_second",
)
_KB = 1024
NOTHING, LATENCY, UNKNOWN = "nothing", "latency", "not known"


def cell_bottlenecks(cells: Sequence[Cell], used: Mapping[TrialKey, TrialRecord]) -> list[dict[str, Any]]:
    """A row for each cell whose trials saw the device, in the order of the cells: means over its trials.

    `resource` is requests, bytes, requests and bytes, latency, CPU, nothing, or not known; the shares are fractions,
    None where there is no limit. `limits` says where the limits are from: `device` (its own) or `most seen`. The CPU's
    share is that of the machine: if server or client are pinned to some CPUs, it does not describe these.
    """
    rows: list[dict[str, Any]] = []
    by_cell: dict[str, list[TrialRecord]] = {}
    for place, trial in used.items():
        by_cell.setdefault(place[2], []).append(trial)
    for cell in cells:
        seen = [row for trial in by_cell.get(cell.id, ()) if (row := _seen(cell, trial))]
        if seen:
            rows.append({"cell": cell.id, "condition": cell.condition, **_means(seen)})
    devices = {cell.id: cell.levels.get("device", "native") for cell in cells}
    for row in rows:
        if row["limits"] is None:
            others = [other for other in rows if other is not row and devices[other["cell"]] == devices[row["cell"]]]
            _against_the_most(row, others)
    pinned = {cell.id for cell in cells if _pinned(cell)}
    for row in rows:
        row["resource"] = _resource(row, pinned=row["cell"] in pinned)
    return rows


def bottleneck_of_effect(rows: Sequence[Mapping[str, Any]], effect: Mapping[str, Any], cells: Sequence[Cell]) -> str:
    """A sentence about the bottlenecks of an effect's cell and its baseline, to follow the verdict; empty without
    device metrics."""
    by_cell = {row["cell"]: row for row in rows}
    pair = [cell for cell in cells if cell.id == effect["cell"]]
    pair += [cell for cell in cells if cell.baseline and cell.condition == effect["condition"]]
    if not all(cell.id in by_cell for cell in pair):
        return ""
    if all(by_cell[cell.id]["resource"] == NOTHING for cell in pair):
        return " Neither the device nor the CPU was the bottleneck."
    where = [f"{describe(by_cell[cell.id])} at {spaced_sizes(cell.label)}" for cell in pair]
    return f" Bottlenecks: {', '.join(where)}."


def describe(row: Mapping[str, Any]) -> str:
    """The bottleneck, and how much of it was used.

    >>> describe({"resource": "bytes", "requests_share": 0.41, "bytes_share": 0.987, "limits": "device"})
    'bytes (99 % of the device’s limit)'
    """
    resource = row["resource"]
    if resource == NOTHING:
        return "none"
    if resource == UNKNOWN:
        return f"{resource} (server or client are limited to some CPUs)"
    if resource == LATENCY:
        busy = f"{row['device_busy_share'] * 100:.0f} %"
        return f"{resource} (the device busy {busy}, {row['queue']:.3g} requests at a time)"
    if resource == "CPU":
        return f"CPU ({row['cpu_share'] * 100:.0f} %)"
    shares = [row[name] for name in ("requests_share", "bytes_share") if name.split("_")[0] in resource]
    whose = "the device’s limit" if row["limits"] == "device" else "the highest rate of any cell"
    return f"{resource} ({' and '.join(f'{share * 100:.0f} %' for share in shares)} of {whose})"


def _seen(cell: Cell, trial: TrialRecord) -> dict[str, float | None] | None:
    """A trial's use of the device and of the CPU, and the shares of what the device has."""
    values = {metric: value for (_, metric), value in values_of(trial, items=False).items()}
    if not all(name in values for name in _NEEDED):
        return None
    reads, writes, read, written = (values[name] for name in _NEEDED)
    requests, amount = reads + writes, (read + written) * _KB
    limits = limits_during(cell.levels.get("device", "native"), trial)
    facts = trial.facts or {}
    return {
        "requests_per_second": requests,
        "bytes_per_second": amount,
        "requests_share": None if limits.requests is None else requests / limits.requests,
        "bytes_share": None if limits.bytes is None else amount / limits.bytes,
        "device_busy_share": values.get("device_util"),
        "queue": values.get("aqu_sz"),
        "cpu_share": None if _pinned(cell) else values.get("cpu_busy_share"),
        "database_bytes": facts.get("database_bytes"),
    }


def _pinned(cell: Cell) -> bool:
    return any(cell.levels.get(name, "all") != "all" for name in ("server_cpus", "client_cpus"))


def _means(seen: Sequence[Mapping[str, float | None]]) -> dict[str, Any]:
    means: dict[str, Any] = {}
    for name in seen[0]:
        known = [value for row in seen if (value := row[name]) is not None]
        means[name] = sum(known) / len(known) if known else None
    limited = means["requests_share"] is not None or means["bytes_share"] is not None
    return {**means, "limits": "device" if limited else None}


def _against_the_most(row: dict[str, Any], others: Sequence[Mapping[str, Any]]) -> None:
    """Sets the shares of a device without known limits, where it was busy all the time; no row is its own limit."""
    if not _is_full(row):
        return
    for share, rate in (("requests_share", "requests_per_second"), ("bytes_share", "bytes_per_second")):
        most = max((other[rate] for other in others if _is_full(other)), default=0.0)
        if most >= _USED_UP_LIMIT * row[rate] > 0:
            row["limits"] = "most seen"
            row[share] = row[rate] / max(most, row[rate])


def _is_busy(row: Mapping[str, Any]) -> bool:
    return (row["device_busy_share"] or 0) >= _USED_UP


def _is_full(row: Mapping[str, Any]) -> bool:
    return _is_busy(row) and (row["queue"] is None or row["queue"] >= _QUEUE)


def _resource(row: Mapping[str, Any], *, pinned: bool) -> str:
    out = [name for name in ("requests", "bytes") if (row[f"{name}_share"] or 0) >= _USED_UP_LIMIT]
    if out:
        return " and ".join(out)
    if (row["cpu_share"] or 0) >= _USED_UP:
        return "CPU"
    if row["limits"] is None and _is_busy(row) and not _is_full(row):
        return LATENCY
    return UNKNOWN if pinned else NOTHING

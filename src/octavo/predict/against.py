"""Predicted against measured: the trials of a run at the sizes that a trace predicts.

A run's cells are servers: the prediction uses their blocks, shared_buffers, memory and device. A trace has one
workload: the other levels (the mode of pgbench, the scale) select the trials.

A trial of the regime `after-checkpoint` is predicted for its own time: so many seconds after a checkpoint, with warm
caches without dirty pages. Its counts are compared with the predicted counts for its number of transactions; the
predicted speed does not use that number.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from octavo.errors import UsageError
from octavo.predict.predict import Request, predict
from octavo.trace.files import Observe, ignore_progress
from octavo.trace.simulate import flush_blocks
from octavo.units import parse_size

# The figures to compare: the predicted name, and the name among a trial's observations.
METRICS: tuple[tuple[str, str], ...] = (
    ("tps", "tps"),
    ("reads_per_transaction", "block_reads_per_transaction"),
    ("device_reads_per_transaction", "device_read_requests_per_transaction"),
    ("device_read_bytes_per_transaction", "device_read_bytes_per_transaction"),
    ("device_all_written_bytes_per_transaction", "device_written_bytes_per_transaction"),
    ("wal_bytes_per_transaction", "wal_bytes_per_transaction"),
    ("full_page_images_per_transaction", "wal_full_page_images_per_transaction"),
)
# Levels of the factor `device` for the machine's own device, whose performance is measured (--device), not named.
_OWN_DEVICES = ("native", "loop")
# The rules that mark a trial invalid because of other load (docs/validity.md).
_DISTURBED = ("steal", "foreign_cpu", "foreign_io")
# Measured values below these are not compared: even a read-only run logs a few bytes.
_LEAST = {
    "reads": 0.02, "device_reads": 0.02, "device_read_bytes": 200.0, "device_all_written_bytes": 200.0,
    "wal_bytes": 50.0, "full_page_images": 0.02,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrialCondition:
    """The conditions of a run's trials, besides the data block. Sizes are bytes."""

    shared_buffers: int
    memory: int | None
    device: str
    clients: int
    until_checkpoint: bool
    wal_block: int | None = None
    """None: the trace's."""


def chosen(
    trials: Sequence[Mapping[str, Any]], where: Mapping[str, str], *, disturbed: bool = False
) -> list[Mapping[str, Any]]:
    """The valid trials with these levels. `disturbed` includes trials that are invalid because of other load on the
    machine. Raises UsageError when there are none."""
    found = [
        trial
        for trial in trials
        if _counts(trial, disturbed=disturbed)
        and all(trial["levels"].get(name) == level for name, level in where.items())
    ]
    if not found:
        raise UsageError("the run has no valid trial with these levels; octavo report shows what it has")
    return found


def _counts(trial: Mapping[str, Any], *, disturbed: bool) -> bool:
    return trial["status"] == "ok" or (
        disturbed and trial["status"] == "invalid" and trial["facts"].get("rule") in _DISTURBED
    )


def condition_of(levels: Mapping[str, str]) -> TrialCondition:
    """The condition from a trial's levels. Raises UsageError when the workload has no shared_buffers, or they are not
    the level's."""
    if levels.get("equal") == "memory":
        raise UsageError(
            "with equal = memory the trials' shared_buffers are smaller than their level, by an amount that the "
            "prediction does not know; compare those with equal = buffers: --where equal=buffers"
        )
    try:
        memory = levels.get("memory", "none")
        return TrialCondition(
            parse_size(levels["shared_buffers"]),
            None if memory == "none" else parse_size(memory),
            levels.get("device", "native"),
            int(levels["clients"]),
            levels.get("wal_regime") == "after-checkpoint",
            parse_size(levels["wal_block"]) if "wal_block" in levels else None,
        )
    except (KeyError, ValueError) as error:
        raise UsageError(f"the run's trials do not record their {error}; compare a run of pgbench") from None


def compare(
    request: Request,
    document: Mapping[str, Any],
    where: Mapping[str, str],
    private: int = 0,
    observe: Observe = ignore_progress,
    *,
    disturbed: bool = False,
) -> dict[str, Any]:
    """Every figure that was both predicted and measured. `private`: bytes of private memory of the server's
    processes."""
    trials = chosen(document["trials"], where, disturbed=disturbed)
    points: list[dict[str, Any]] = []
    recorded: dict[str, Any] = {}
    conditions = list(dict.fromkeys(condition_of(trial["levels"]) for trial in trials))
    for condition in conditions:
        memory = (
            None if condition.memory is None else max(condition.memory - private, condition.shared_buffers * 5 // 4)
        )
        asked = Request(
            path=request.path,
            wal_blocks=() if condition.wal_block is None else (condition.wal_block,),
            shared_buffers=(condition.shared_buffers,),
            memory=memory,
            kernel_page=request.kernel_page,
            device=request.device if condition.device in _OWN_DEVICES else condition.device,
            recorded_device=request.recorded_device,
            is_throttled=condition.device not in _OWN_DEVICES,
            clients=condition.clients,
            checkpoint=request.checkpoint or _seconds(trials, condition),
            until_checkpoint=condition.until_checkpoint,
            transactions=_transactions(trials, condition),
            slice_seconds=_slice(trials, condition),
            readahead=request.readahead,
            dirty_background=request.dirty_background,
            **_written_behind(document, trials, condition),
            threads=request.threads,
            exact=request.exact,
        )
        found = predict(asked, observe)
        recorded = found["recorded"]
        for row in found["sizes"]:
            here = [
                trial
                for trial in trials
                if condition_of(trial["levels"]) == condition
                and parse_size(trial["levels"]["data_block"]) == row["data_block_bytes"]
            ]
            points += _points(row, here, condition)
    return {
        "schema_version": 1,
        "trace": str(request.path),
        "where": dict(where),
        "disturbed": disturbed,
        "recorded": recorded,
        "points": points,
        "summary": summary(points),
    }


def _transactions(trials: Sequence[Mapping[str, Any]], condition: TrialCondition) -> dict[int, float]:
    """By data block, the number of transactions of a trial since its checkpoint. Counts per transaction depend on it,
    whatever the speed."""
    found: dict[int, list[float]] = {}
    for trial, seconds in _since_checkpoint(trials, condition):
        block, tps = parse_size(trial["levels"]["data_block"]), _measured(trial, "tps") or 0.0
        # The server's counters cover the client's whole run, and so does their divisor.
        whole, each = _measured(trial, "wal_bytes"), _measured(trial, "wal_bytes_per_transaction")
        found.setdefault(block, []).append(whole / each if whole and each else tps * seconds)
    return {block: median(values) for block, values in found.items()}


def _seconds(trials: Sequence[Mapping[str, Any]], condition: TrialCondition) -> float | None:
    """How long a trial ran since its checkpoint, in seconds; None for trials that do not follow one."""
    found = [seconds for _, seconds in _since_checkpoint(trials, condition)]
    return median(found) if found else None


def _slice(trials: Sequence[Mapping[str, Any]], condition: TrialCondition) -> float | None:
    """The length of a server's slices after the checkpoint, in seconds; None where it was never frozen."""
    found = [float(trial["facts"].get("slice_seconds") or 0.0) for trial, _ in _since_checkpoint(trials, condition)]
    return median(found) if found and min(found) > 0 else None


def _written_behind(
    document: Mapping[str, Any], trials: Sequence[Mapping[str, Any]], condition: TrialCondition
) -> dict[str, Any]:
    """By data block, bgwriter_lru_maxpages and the flushes of the trials' servers, which are the same number of bytes
    at all blocks (pinned.toml)."""
    settings: Mapping[str, Mapping[str, str]] = document.get("environment", {}).get("settings", {})
    pages, flushes = dict[int, int](), dict[int, tuple[int, int]]()
    for trial in trials:
        if condition_of(trial["levels"]) != condition:
            continue
        block, here = parse_size(trial["levels"]["data_block"]), settings.get(trial.get("cell", ""), {})
        text = here.get("bgwriter_lru_maxpages", "")
        if text.isdecimal() and len(text) < 10:
            pages[block] = int(text)
        if (found := flush_blocks(here, block)) is not None:
            flushes[block] = found
    return {"writer_pages": pages, "flushes": flushes}


def _since_checkpoint(
    trials: Sequence[Mapping[str, Any]], condition: TrialCondition
) -> list[tuple[Mapping[str, Any], float]]:
    """The trials after a checkpoint, with the seconds that each ran since then. In slices this is longer than the time
    over which transactions are counted, which leaves out the pilot, the begin of each slice and dropped turns."""
    found: list[tuple[Mapping[str, Any], float]] = []
    for trial in trials if condition.until_checkpoint else ():
        tps, transactions = _measured(trial, "tps"), _measured(trial, "transactions")
        if condition_of(trial["levels"]) == condition and tps and transactions:
            found.append((trial, float(trial["facts"].get("ran_seconds") or transactions / tps)))
    return found


def _points(
    row: Mapping[str, Any], trials: Sequence[Mapping[str, Any]], condition: TrialCondition
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name, metric in METRICS:
        values = [value for trial in trials if (value := _measured(trial, metric)) is not None]
        interval = row["figures"][name]
        least = next((value for start, value in _LEAST.items() if name.startswith(start)), 0.0)
        if name.startswith("device_") and condition.device == "native":
            continue  # it counts the requests of all processes
        if name == "tps" and condition.device in _OWN_DEVICES and any(trial["status"] != "ok" for trial in trials):
            continue  # the CPU that other load leaves is not predicted
        if not values or interval is None or median(values) <= least:
            continue
        measured = median(values)
        found.append(
            {
                "metric": name,
                "data_block_bytes": row["data_block_bytes"],
                "is_recorded": row["is_recorded"],
                "shared_buffers_bytes": condition.shared_buffers,
                "memory_bytes": condition.memory,
                "device": condition.device,
                "clients": condition.clients,
                "until_checkpoint": condition.until_checkpoint,
                "wal_block_bytes": row["wal_block_bytes"],
                "measured": measured,
                "measurements": values,
                "predicted": interval["value"],
                "low": interval["low"],
                "high": interval["high"],
                "because": interval["because"],
                "error": interval["value"] / measured - 1,
                "is_covered": interval["low"] <= measured <= interval["high"],
            }
        )
    return found


def _measured(trial: Mapping[str, Any], metric: str) -> float | None:
    """A trial's observation."""
    return next(
        (float(one["value"]) for one in trial["observations"] if one["item"] is None and one["metric"] == metric), None
    )


def summary(points: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each figure: the number of points, the median and the largest error, and how many intervals hold.

    >>> one = {"metric": "tps", "device": "native", "error": 0.1, "is_covered": True, "predicted": 1.1, "measured": 1.0}
    >>> summary([one, {**one, "error": -0.3}])[0]["median_error"]
    0.2
    """
    found: list[dict[str, Any]] = []
    for metric, _ in METRICS:
        for group, is_own in (("native", True), ("limited", False)):
            here = [
                one
                for one in points
                if one["metric"] == metric and (one["device"] in _OWN_DEVICES) == is_own and math.isfinite(one["error"])
            ]
            if here:
                errors = sorted(abs(one["error"]) for one in here)
                found.append(
                    {
                        "metric": metric,
                        "device": group,
                        "count": len(here),
                        "median_error": median(errors),
                        "largest_error": errors[-1],
                        "covered": sum(one["is_covered"] for one in here) / len(here),
                    }
                )
    return found


def best_blocks(points: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each condition with several sizes: the data block predicted to be fastest, the one measured to be fastest,
    and how much slower the predicted one is."""
    conditions: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for one in points:
        if one["metric"] == "tps":
            key = (
                one.get("workload"), one["device"], one["shared_buffers_bytes"], one["memory_bytes"],
                one.get("clients"), one.get("until_checkpoint"), one.get("wal_block_bytes"),
            )  # fmt: skip
            conditions.setdefault(key, []).append(one)
    found: list[dict[str, Any]] = []
    for (workload, device, buffers, memory, clients, until_checkpoint, wal_block), rows in conditions.items():
        if len({row["data_block_bytes"] for row in rows}) < 2:
            continue
        predicted = max(rows, key=lambda row: float(row["predicted"]))
        measured = max(rows, key=lambda row: float(row["measured"]))
        found.append(
            {
                "workload": workload,
                "device": device,
                "shared_buffers_bytes": buffers,
                "memory_bytes": memory,
                "clients": clients,
                "until_checkpoint": until_checkpoint,
                "wal_block_bytes": wal_block,
                "predicted_block_bytes": predicted["data_block_bytes"],
                "measured_block_bytes": measured["data_block_bytes"],
                "lost": 1 - predicted["measured"] / measured["measured"],
            }
        )
    return found


def parse_where(texts: Sequence[str]) -> dict[str, str]:
    """Levels of a run's trials, as mode=read-only. Raises UsageError.

    >>> parse_where(["mode=read-only"])
    {'mode': 'read-only'}
    """
    found: dict[str, str] = {}
    for text in texts:
        name, separator, level = text.partition("=")
        if not separator or not name:
            raise UsageError(f"--where {text}: write a factor and its level, such as mode=read-only")
        found[name] = level
    return found

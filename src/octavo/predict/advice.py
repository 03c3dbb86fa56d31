"""A recommendation: the best data block, its gain and cost, cheaper changes with the same effect, and the conditions
that would change the advice."""

import dataclasses
from typing import Any

from octavo.predict.assumptions import Assumptions, intervals
from octavo.predict.conditions import Conditions
from octavo.predict.model import figures, varied
from octavo.predict.rates import Rates
from octavo.predict.recorded import Recorded
from octavo.predict.size import Size
from octavo.units import human_duration, human_size

# The rate of dump and restore from docs/switching.md, in MB of the source's size per second, on two busy processors.
_RESTORE_MB = (10.0, 13.0)
_MB = 1024**2
# The assumed ratio of compressed images: a trace does not show how well pages compress.
_COMPRESSED = 0.5
# A smaller gain does not pay for a dump and restore.
_LEAST_GAIN = 0.05


def more_memory(size: Size) -> list[Size]:
    """The same size with twice the shared_buffers, and with twice the memory."""
    if size.memory is None:
        return [dataclasses.replace(size, shared_buffers=2 * size.shared_buffers)]
    twice = dataclasses.replace(size, memory=2 * size.memory)
    within = 2 * size.shared_buffers < size.memory
    return [twice, *([dataclasses.replace(size, shared_buffers=2 * size.shared_buffers)] if within else [])]


def recommend(
    trace: Recorded,
    document: dict[str, Any],
    base: Size,
    rates: dict[Size, list[Rates]],
    assumed: Assumptions,
    given: Conditions,
) -> dict[str, Any]:
    """The recommendation for the first requested shared_buffers and WAL block."""
    first = document["sizes"][0]
    rows = [
        row
        for row in document["sizes"]
        if row["shared_buffers_bytes"] == first["shared_buffers_bytes"]
        and row["wal_block_bytes"] == first["wal_block_bytes"]
    ]
    key, sign = _measure(rows)

    def order(row: dict[str, Any]) -> float:
        return sign * row["figures"][key]["value"]

    best = max(rows, key=order)
    own = next((row for row in rows if row["data_block_bytes"] == trace.data_block), None)
    gain = _gain(best, own, key)
    is_own = best["data_block_bytes"] == trace.data_block
    settled = gain is not None and gain["low"] > 1.0 and gain["value"] >= 1 + _LEAST_GAIN
    size = sum(one["blocks"] for one in trace.relations) * trace.data_block
    cheaper = _cheaper(trace, base, rates, assumed, given)
    return {
        "by": key,
        "data_block_bytes": best["data_block_bytes"],
        "gain": gain,
        "is_settled": bool(settled and not is_own),
        "sentence": _sentence(trace, best, gain, key, settled=settled, is_compared=own is not None),
        "cost": _cost(size),
        "cheaper": cheaper,
        "changes_if": _changes_if(rows, trace, key),
    }


def _measure(rows: list[dict[str, Any]]) -> tuple[str, int]:
    """The figure by which sizes are compared: transactions per second, else bytes of the device, else bytes read from
    the kernel. With it 1 where more is better, otherwise -1."""
    for key, sign in (("tps_ratio", 1), ("device_read_bytes_per_transaction", -1)):
        if all(row["figures"][key] for row in rows):
            return key, sign
    return "read_bytes_per_transaction", -1


def _gain(best: dict[str, Any], own: dict[str, Any] | None, key: str) -> dict[str, float] | None:
    """How much better than the recorded size, as a ratio above 1. None where it is unknown: the recorded size is not
    among the sizes (`tps_ratio` is relative to it in any case), or an end of an interval is 0."""
    if key == "tps_ratio":
        found, here = best["figures"][key], 1.0 if own is None else own["figures"][key]["value"]
        return {name: found[name] / here for name in ("value", "low", "high")}
    if own is None:
        return None
    one, other = best["figures"][key], own["figures"][key]
    if not one["value"] or not one["low"] or not one["high"]:
        return None
    return {
        "value": other["value"] / one["value"],
        "low": other["low"] / one["high"],
        "high": other["high"] / one["low"],
    }


_WHAT = {
    "tps_ratio": "TPS",
    "device_read_bytes_per_transaction": "bytes read from the device",
    "read_bytes_per_transaction": "bytes read from the kernel",
}


def _sentence(
    trace: Recorded, best: dict[str, Any], gain: dict[str, float] | None, key: str, *, settled: bool, is_compared: bool
) -> str:
    own, block = human_size(trace.data_block), human_size(best["data_block_bytes"])
    if own == block:
        return f"Stay at {own}: no other data block is predicted to be better ({_WHAT[key]})."
    if gain is None and not is_compared:
        return f"Of these {block} is predicted to be best by {_WHAT[key]}; the recorded {own} is not among them."
    if gain is None:
        return f"Stay at {own}: {block} is predicted to be best by {_WHAT[key]}, but the size of the gain is not known."
    times = f"× {gain['value']:.2f}, 95 % interval {gain['low']:.2f} to {gain['high']:.2f}"
    if not settled:
        why = "but the gain is too small or uncertain"
        return f"Stay at {own}: {block} is predicted to be best by {_WHAT[key]} ({times}), {why}."
    if key == "tps_ratio":
        return f"{block} data blocks are predicted to give {times} of the TPS at {own}."
    return f"{block} data blocks are predicted to need fewer {_WHAT[key]} than {own} ({times})."


def _cost(size: int) -> dict[str, Any]:
    """The cost of a dump and restore, at the rates of docs/switching.md, and of maintaining own packages from then
    on."""
    least, most = (size / _MB / rate for rate in reversed(_RESTORE_MB))
    return {
        "accessed_bytes": size,
        "seconds_low": least,
        "seconds_high": most,
        "text": f"dump and restore of the {human_size(size)} accessed: {human_duration(least)} to "
        f"{human_duration(most)} without writes at 13 to 10 MB/s (docs/switching.md; your rates differ), and your own "
        "packages for every minor release",
    }


def _cheaper(
    trace: Recorded, base: Size, rates: dict[Size, list[Rates]], assumed: Assumptions, given: Conditions
) -> list[dict[str, Any]]:
    """Changes that keep the recorded data block, with their transactions per second relative to the present."""
    found: list[dict[str, Any]] = []

    def add(name: str, size: Size, changed: Conditions, because: str) -> None:
        mine, now = rates[size], rates[base]
        ends = intervals(
            lambda one: {"ratio": _over(size, mine, base, now, one, changed, given)},
            assumed,
            varied(assumed, given, len(mine)),
        )["ratio"]
        if ends is not None:
            found.append({"change": name, "tps_ratio": ends.as_dict(), "because": because})

    for size in more_memory(base):
        name = "shared_buffers" if size.shared_buffers != base.shared_buffers else "memory"
        amount = size.shared_buffers if name == "shared_buffers" else size.memory or 0
        add(f"{name} of {human_size(amount)}", size, given, "simulated")
    if trace.writes_wal and trace.logs_images and given.cycle is not None:
        if trace.setting("wal_compression") in ("off", None):
            changed = dataclasses.replace(given, images_factor=_COMPRESSED)
            add("wal_compression", base, changed, "assumes that images compress to a half; without the CPU for it")
        longer = _longer(rates[base][0])
        if longer is not None:
            changed = dataclasses.replace(given, images_factor=longer)
            add("checkpoints half as often", base, changed, "images grow as from half to the whole recorded cycle")
    if given.device.is_limited:
        twice = dataclasses.replace(
            given.device,
            requests=given.device.requests and 2 * given.device.requests,
            bytes=given.device.bytes and 2 * given.device.bytes,
        )
        add("twice the device's limits", base, dataclasses.replace(given, device=twice), "from the model")
    return sorted(found, key=lambda one: -one["tps_ratio"]["value"])


def _over(
    size: Size,
    mine: list[Rates],
    base: Size,
    now: list[Rates],
    one: Assumptions,
    changed: Conditions,
    given: Conditions,
) -> float | None:
    wal = given.trace.wal_block
    there, here = figures(size, mine, wal, one, changed)["tps"], figures(base, now, wal, one, given)["tps"]
    return there / here if there and here else None


def _longer(rates: Rates) -> float | None:
    """Images per transaction in a cycle twice as long, relative to this one."""
    points = [point for point in rates.images_by_length if point[1] > 0]
    if len(points) < 4:
        return None
    whole = points[-1]
    half = min(points, key=lambda point: abs(point[0] - whole[0] / 2))
    if not half[0] or not half[1]:
        return None
    return min(1.0, (whole[1] / whole[0]) / (half[1] / half[0]))


def _changes_if(rows: list[dict[str, Any]], trace: Recorded, key: str) -> list[str]:
    """The assumption that most widens the deciding figure, and effects that the model does not include."""
    reasons = {row["figures"][key]["because"] for row in rows if row["data_block_bytes"] != trace.data_block}
    found = [f"a better estimate of the most uncertain input: {reason}" for reason in sorted(reasons) if reason]
    names: set[str] = {row["bottleneck"]["name"] for row in rows if row["bottleneck"]}
    if names == {"CPU"}:
        found.append("the CPU is the bottleneck at all sizes: a slower device, more data or more processors")
    elif names == {"device"}:
        found.append("the device is the bottleneck at all sizes: a faster device, or memory for the working set")
    return [*found, "queries whose plan another page size changes (octavo plans)"]

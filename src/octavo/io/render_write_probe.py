"""A probe of writes in words and numbers."""

from typing import TYPE_CHECKING, Any

from octavo.units import format_size, human_size

if TYPE_CHECKING:
    from rich.console import Console


def print_write_probe(document: dict[str, Any], screen: "Console") -> None:
    """Prints the cost of writes of each size, and below it conclusions and limitations."""
    from rich.table import Table

    print(f"{document['path']}: durable writes at random places, one at a time, direct and through the page cache")
    table = Table(box=None, pad_edge=False)
    for name in ("write", "latency µs", "writes/s", "at the device", "cached: latency µs", "at the device"):
        table.add_column(name, justify="right")
    past = {point["bytes"]: point for point in document["past_page_cache"]}
    for point in document["through_page_cache"]:
        direct = past.get(point["bytes"])
        table.add_row(
            format_size(point["bytes"]),
            *([f"{direct['latency_us']:,.1f}", f"{direct['writes_per_second']:,.0f}"] if direct else ["–", "–"]),
            _bytes(direct["device_bytes_per_write"]) if direct else "–",
            f"{point['latency_us']:,.1f}",
            _bytes(point["device_bytes_per_write"]),
        )
    screen.print(table)
    for line in sentences(document):
        print(line)


def sentences(document: dict[str, Any]) -> list[str]:
    """The conclusions from the numbers, a sentence each."""
    lines = [_unit(document), _through(document)]
    lines += [_shifted(one, document["shifted_write_bytes"]) for one in document["shifted"]]
    lines += [_local(document["local"]), _sustained(document["sustained"])]
    if document["virtualization"] != "none seen":
        where = "inside" if document["virtualization"] == "virtual machine" else "if this is"
        lines.append(
            f"{where} a virtual machine: this measures the hypervisor's disk and its cache; the page of an SSD below "
            "is visible only if the hypervisor passes writes through unchanged"
        )
    return lines


def _unit(document: dict[str, Any]) -> str:
    size, reason = document["rewritten_unit_bytes"], document["rewritten_unit_reason"]
    if size is None:
        return f"the unit that the device rewrites as a whole is undetermined: {reason}"
    return f"the device rewrites {human_size(size)} as a whole: {reason}"


def _through(document: dict[str, Any]) -> str:
    unit, smallest = document["page_cache_unit_bytes"], document["through_page_cache"][0]
    if unit is None:
        return "through the page cache: the device's counters are unavailable, or never match what was written"
    each = _bytes(smallest["device_bytes_per_write"])
    return (
        f"through the page cache a durable write of {human_size(smallest['bytes'])} is {each} at the device; from "
        f"{human_size(unit)} on it is about what was written"
    )


def _shifted(one: dict[str, Any], size: int) -> str:
    return (
        f"writes of {human_size(size)} shifted by {human_size(one['shift_bytes'])} take {one['ratio']:.2f} times as "
        f"long ({min(one['pairs']):.2f} to {max(one['pairs']):.2f}){': shifting costs time' if one['costs'] else ''}"
    )


def _local(one: dict[str, Any]) -> str:
    where, spread = human_size(one["window_bytes"]), f"({one['low']:.2f} to {one['high']:.2f})"
    verdict = "memory in the device may hold them" if one["high"] < 1 else "no gain from locality"
    return (
        f"writes of {human_size(one['bytes'])} within {where} take {one['ratio']:.2f} times as long as across the "
        f"whole file {spread}: {verdict}"
    )


def _sustained(one: dict[str, Any]) -> str:
    rate = (
        f"{one['at_once']} durable writes of {human_size(one['bytes'])} at a time: {one['writes_per_second']:,.0f} a "
        "second"
    )
    if one["drop"] is None:
        return f"{rate}, without a lasting drop in {one['seconds']:.1f} s"
    drop = one["drop"]
    return (
        f"{rate}; {drop['rate_before']:,.0f} and after {drop['after_seconds']:.1f} s {drop['rate_after']:,.0f}: a "
        "full cache would explain this"
    )


def _bytes(value: float | None) -> str:
    return "?" if value is None else human_size(value)

"""A probe in words and numbers."""

from typing import TYPE_CHECKING, Any

from octavo.io.target import MOSTLY_ALLOCATED
from octavo.units import format_size, human_duration, human_size

if TYPE_CHECKING:
    from rich.console import Console

# A line that is further off than this at some size says nothing.
_WORST_LINE = 0.5


def print_probe(document: dict[str, Any], screen: "Console") -> None:
    """Prints the curves, and below them conclusions and limitations."""
    from rich.table import Table

    print(f"{document['path']}: random reads that bypass the page cache, one and 32 at a time")
    table = Table(box=None, pad_edge=False)
    for name in ("request", "latency µs", "requests/s", "MB/s", "32: requests/s", "MB/s"):
        table.add_column(name, justify="right")
    for one, many in zip(document["depth_1"], document["depth_32"], strict=True):
        table.add_row(
            format_size(one["bytes"]),
            f"{one['latency_us']:,.1f}",
            *(
                cell
                for point in (one, many)
                for cell in (f"{point['requests_per_second']:,.0f}", f"{point['bytes_per_second'] / 1024**2:,.1f}")
            ),
        )
    screen.print(table)
    for line in sentences(document):
        print(line)


def sentences(document: dict[str, Any]) -> list[str]:
    """The conclusions from the numbers, a sentence each."""
    lines: list[str] = []
    if (allocated := document["allocated_share"]) < MOSTLY_ALLOCATED:
        lines.append(
            f"the file is sparse or compressed ({allocated:.0%} of it is allocated): holes are read without the "
            "device, so these are not its figures; octavo io FILE --make SIZE makes one that is whole"
        )
    lines.append(_latency(document["latency_line"]))
    lines.append(f"one at a time, a read takes {document['cpu_us_per_read']:,.0f} µs of CPU")
    ceiling = human_size(document["bytes_per_second_ceiling"])
    lines.append(
        f"limits, 32 reads at a time: {document['requests_per_second_ceiling']:,.0f} requests/s; {ceiling}/s, 90 % of "
        f"it from requests of {human_size(document['bandwidth_from_bytes'])} on"
    )
    lines += [_alignment(one) for one in document["alignment"]]
    lines += [_watched(one) for one in document["watched"]]
    if (rule := document["five_minute_rule"]) is not None:
        lines.append(_five_minutes(rule))
    lines.append(
        "not visible to reads: the page in which an SSD writes (octavo io probe --write) and the block that it erases"
    )
    if document["virtualization"] != "none seen":
        lines.append(
            "in a virtual machine limits and caches may be the hypervisor's and not the device's; a RAID stripe or an "
            "SSD's page below it cannot be distinguished from them"
        )
    return lines


def _latency(line: dict[str, Any] | None) -> str:
    if line is None:
        return "latency: larger requests do not take longer here"
    if line["largest_error"] > _WORST_LINE:
        return (
            f"latency: does not follow the size (a line is off by up to {line['largest_error']:.0%}): other processes "
            "use the device, or its cache serves some reads; probe longer, or when it is idle"
        )
    rate = human_size(line["bytes_per_second"])
    return (
        f"one at a time, a read takes {line['latency_us']:,.0f} µs and its bytes at {rate}/s "
        f"(within {line['largest_error']:.0%}): below {human_size(line['bend_bytes'])} latency dominates"
    )


def _alignment(one: dict[str, Any]) -> str:
    size, shift = human_size(one["bytes"]), human_size(one["shift_bytes"])
    spread = f"{one['ratio']:.2f} times as long ({one['low']:.2f} to {one['high']:.2f})"
    verdict = "aligning pays" if one["low"] > 1 else "no difference found" if one["high"] > 1 else "shifted is faster"
    return f"reads of {size} shifted by {shift} take {spread}: {verdict}"


def _watched(one: dict[str, Any]) -> str:
    size, drop = human_size(one["bytes"]), one["drop"]
    if drop is None:
        return (
            f"reads of {size} for {one['seconds']:.1f} s: no lasting drop; a token bucket, if any, was already "
            f"empty or holds more than these {one['requests']:,} requests"
        )
    return (
        f"reads of {size}: {drop['rate_before']:,.0f} a second, after {drop['after_seconds']:.1f} s "
        f"{drop['rate_after']:,.0f}: a token bucket of about {drop['fill_requests']:,.0f} requests would explain this"
    )


def _five_minutes(rule: dict[str, Any]) -> str:
    """The break-even age of each page size, at the rates of 32 reads at a time."""
    ages = ", ".join(f"{human_size(one['page_bytes'])} {human_duration(one['seconds'])}" for one in rule["break_even"])
    price = human_size(rule["price_in_memory_bytes"])
    return f"five-minute rule, a device for the price of {price} of memory: a page is worth its memory within {ages}"

"""Summaries and surfaces in the terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from octavo.report import numbers
from octavo.trace.core_types import Summary
from octavo.trace.files import MOST_LOST, lost_share
from octavo.trace.simulate import recorded_seconds
from octavo.trace.wal import Written, written
from octavo.units import human_size

MOST_STREAMS = 10
_BUFFERS = "buffers_"
_FORKS = ("", " fsm", " vm", " init")
_LAYOUTS = {"merged": "", "spread": ", spread", "concentrated": ", concentrated"}


def ratio(share: float | None) -> str:
    """A hit ratio in percent with two decimals, because its distance from 100 is what matters.

    >>> ratio(0.98765), ratio(None)
    ('98.77 %', '–')
    """
    return "–" if share is None else f"{100 * share:.2f} %"


def curve_name(curve: dict[str, Any]) -> str:
    """The page size, and the layout of split pages.

    >>> curve_name({"page_size_bytes": 4096, "layout": "spread"})
    '4 kB, spread'
    """
    return human_size(curve["page_size_bytes"]) + _LAYOUTS[curve["layout"]]


def verdict(document: dict[str, Any]) -> str:
    """The first sentence: the page size with the best hit ratio at the server's shared_buffers, compared with the
    trace's page size."""
    buffers, own = document["shared_buffers_bytes"], document["own_page_size_bytes"]
    if buffers is None:
        return "The trace does not contain shared_buffers; pass --shared-buffers."
    lowest: dict[int, float] = {}  # for smaller pages the worse end counts, because the better one is not certain
    for curve in document["curves"]:
        size = curve["page_size_bytes"]
        lowest[size] = min(curve["at_server"], lowest.get(size, 1.0))
    best = max(lowest, key=lambda size: (round(lowest[size], 4), size == own))
    here = f"With {human_size(buffers)} of shared_buffers"
    if best == own:
        return f"{here}, the recorded {human_size(own)} pages have the best LRU hit ratio: {ratio(lowest[own])}."
    beside = f" (recorded: {human_size(own)} pages, {ratio(lowest[own])})" if own in lowest else ""
    return f"{here}, {human_size(best)} pages have the best LRU hit ratio: {ratio(lowest[best])}{beside}."


def missing_lines(summary: Summary) -> list[str]:
    """The missing parts of a trace, one line each."""
    missing, found = summary["missing"], list[str]()
    if missing["accesses"] or missing["bytes"]:
        found.append(f"damaged: {missing['accesses']:,} accesses and {missing['bytes']:,} bytes cannot be read")
    if missing["is_cut"]:
        found.append("truncated: the end is missing, with an unknown number of accesses")
    share = lost_share(summary)
    if share:
        text = f"lost: {100 * share:.3g} % of the accesses"
        found.append(f"{text}; above {100 * MOST_LOST:g} %: do not trust hit ratios" if share > MOST_LOST else text)
    return found


def summary_view(summary: Summary, size: int) -> Group:
    """A trace in a few lines. `size` is its file size in bytes."""
    accesses = summary["reads"] + summary["extends"]
    times = summary["times"]
    seconds = (times[1] - times[0]) / 1e6 if times else 0.0
    recorded = recorded_seconds(summary)
    while_recorded = " while recorded" if "pause_microseconds" in summary["events"] else ""
    rate = f", {accesses / recorded:,.0f} a second{while_recorded}" if recorded else ""
    per = f", {size / accesses:.2f} bytes an access" if accesses else ""
    lines = [
        f"{accesses:,} accesses of {human_size(summary['page_size'])} pages by {summary['backends']:,} backends "
        f"in {numbers.seconds(seconds)}{rate}",
        f"{human_size(size)}{per}",
    ]
    if summary["changes"] or summary["full_page_images"]:
        lines.append(f"{summary['changes']:,} changes, {summary['full_page_images']:,} full-page images")
    lines += [f"{name.replace('_', ' ')}: {count:,}, {total:,} in all" for name, (count, total) in
              sorted(summary["events"].items()) if name != "lost"]  # fmt: skip
    lines += [
        f"{name.replace('_', ' ')}: {value}"
        for name, value in summary["properties"].items()
        if not name.startswith(_BUFFERS)
    ]
    lines += _counted(summary["properties"])
    parts: list[Any] = [Text(line) for line in (*missing_lines(summary), *lines)]
    if accesses:
        parts.append(_streams(summary, accesses))
    if (wal := written(summary)) is not None:
        parts += _wal(wal)
    return Group(*parts)


def _counted(properties: Mapping[str, str]) -> list[str]:
    """The server's own counters, if the trace has them: the hit ratio, and the usage of its buffers."""
    lines = list[str]()
    lookups, reads = (_whole(properties.get(name)) for name in ("work_lookups", "work_reads"))
    if lookups and reads is not None:
        lines.append(f"counted by the server: {ratio(1 - reads / lookups)} hits of {lookups:,} lookups")
    counts = {name.removeprefix(_BUFFERS): _whole(value) for name, value in properties.items()
              if name.startswith(_BUFFERS)}  # fmt: skip
    dirty = counts.pop("dirty", None)
    if total := sum(value or 0 for value in counts.values()):
        parts = [
            f"{numbers.percent((value or 0) / total)} {name.replace('_', ' count ')}"
            for name, value in sorted(counts.items())
        ]
        lines.append(f"{total:,} buffers at the end: {', '.join(parts)}; {numbers.percent((dirty or 0) / total)} dirty")
    return lines


def _whole(text: str | None) -> int | None:
    """A whole number, or None. The text may be anything.

    >>> _whole("12"), _whole("-1"), _whole(None), _whole("x" * 99)
    (12, None, None, None)
    """
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) <= 18 else None


def _wal(wal: Written) -> list[Any]:
    images = f" of {human_size(wal.image_bytes)}" if wal.image_bytes else ""
    text = (
        f"WAL: {human_size(wal.bytes)} in {wal.records:,} records, {wal.images:,} full-page images{images}, "
        f"in {numbers.seconds(wal.seconds)}"
    )
    if not wal.kinds:
        return [Text(text)]
    table = Table(title="Most WAL", title_justify="left", box=None, pad_edge=False)
    table.add_column("kind")
    for column in ("records", "bytes", "of them images"):
        table.add_column(column, justify="right")
    for kind in wal.kinds[:MOST_STREAMS]:
        table.add_row(kind.name, f"{kind.records:,}", human_size(kind.bytes), human_size(kind.image_bytes))
    return [Text(text), table]


def _streams(summary: Summary, accesses: int) -> Table:
    table = Table(title="Most accessed", title_justify="left", box=None, pad_edge=False)
    for column in ("relation", "kind"):
        table.add_column(column)
    for column in ("size", "accesses", "share"):
        table.add_column(column, justify="right")
    known = {(one["tablespace"], one["database"], one["relation"]): one for one in summary["relations"]}
    for tablespace, database, relation, fork, count in summary["streams"][:MOST_STREAMS]:
        one = known.get((tablespace, database, relation))
        name = (one["name"] if one else None) or f"{tablespace}/{database}/{relation}"
        blocks = one["blocks"] * summary["page_size"] if one and fork == 0 else None
        suffix = _FORKS[fork] if fork < len(_FORKS) else f" fork {fork}"
        table.add_row(
            name + suffix,
            one["kind"] if one else "",
            "" if blocks is None else human_size(blocks),
            f"{count:,}",
            numbers.percent(count / accesses if accesses else None),
        )
    if (more := len(summary["streams"]) - MOST_STREAMS) > 0:
        table.add_row(f"and {more:,} more", "", "", "", "")
    return table


def surface_rows(document: dict[str, Any]) -> list[tuple[str, ...]]:
    """One row per curve: page size, hit ratio at the server's size, knee, enough, working set."""
    sweeps = {
        point["page_size"]: point["hit_ratio"]
        for point in document["clock_sweep"]
        if point["shared_buffers"] == document["shared_buffers_bytes"]
    }
    return [
        (
            curve_name(curve),
            ratio(curve["at_server"]),
            ratio(sweeps.get(curve["page_size_bytes"]) if curve["layout"] == "merged" else None),
            human_size(curve["knee_bytes"]) if curve["knee_bytes"] else "–",
            human_size(curve["enough_bytes"]),
            human_size(curve["working_set_bytes"]),
        )
        for curve in document["curves"]
    ]


SURFACE_HEADS = ("page size", "LRU here", "clock sweep here", "knee", "99 % of the hits", "working set")


def surface_view(document: dict[str, Any]) -> Group:
    """The verdict, a table, and the limitations."""
    table = Table(box=None, pad_edge=False)
    for column in SURFACE_HEADS:
        table.add_column(column, justify="left" if column == SURFACE_HEADS[0] else "right")
    for row in surface_rows(document):
        table.add_row(*row)
    parts: list[Any] = [Text(verdict(document)), Text(), table, Text(), Text("Limitations")]
    parts += [Text(f"- {line}") for line in document["limitations"]]
    return Group(*parts)

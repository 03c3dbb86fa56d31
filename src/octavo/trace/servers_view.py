"""Simulated servers in the terminal."""

from collections.abc import Callable
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from octavo.report import numbers
from octavo.trace.render import ratio
from octavo.units import human_size

_LAYOUTS = {"merged": "", "spread": ", spread", "concentrated": ", concentrated"}
_Server = dict[str, Any]

# Settings that have a column only if the servers differ in them.
_SETTINGS: tuple[tuple[str, str], ...] = (
    ("page_cache_bytes", "page cache"),
    ("kernel_page_bytes", "kernel page"),
    ("readahead_bytes", "readahead"),
)


def server_name(server: _Server) -> str:
    """A server by its blocks and its shared_buffers.

    >>> server_name({"data_block_bytes": 4096, "layout": "spread", "shared_buffers_bytes": 2**30})
    '4 kB blocks, spread, 1 GB of shared_buffers'
    """
    blocks = f"{human_size(server['data_block_bytes'])} blocks{_LAYOUTS[server['layout']]}"
    return f"{blocks}, {human_size(server['shared_buffers_bytes'])} of shared_buffers"


def servers_verdict(document: dict[str, Any]) -> str:
    """The first sentence: the server that reads the least from the device, or from the kernel if there is no device."""
    servers: list[_Server] = document["servers"]
    has_device = servers[0]["page_cache"] is not None
    key = "device_reads" if has_device else "requests"
    best, most = min(servers, key=lambda one: one[key]), max(servers, key=lambda one: one[key])
    what = "device reads" if has_device else "reads from the kernel"
    if len(servers) == 1:
        return f"{server_name(best)}: {best[key]:,} {what}, hit ratio {ratio(best['hit_ratio'])}."
    if best[key] == most[key]:
        return f"All {len(servers)} servers have {best[key]:,} {what}."
    different = [name for field, name in _SETTINGS if best[field] != most[field]]
    settings = "".join(f", {name} {_size(best[field])}" for field, name in _SETTINGS if name in different)
    return f"Fewest {what}: {server_name(best)}{settings}: {best[key]:,} (most: {most[key]:,})."


def _size(value: int | None) -> str:
    return "–" if value is None else human_size(value)


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _shows(field: str) -> Callable[[_Server], str]:
    return lambda server: _size(server[field])


def _columns(document: dict[str, Any]) -> list[tuple[str, Callable[[_Server], str]]]:
    servers: list[_Server] = document["servers"]
    columns: list[tuple[str, Callable[[_Server], str]]] = [
        ("data\nblock", lambda one: human_size(one["data_block_bytes"]) + _LAYOUTS[one["layout"]]),
        ("shared\nbuffers", lambda one: human_size(one["shared_buffers_bytes"])),
    ]
    columns += [
        (name.replace(" ", "\n"), _shows(field))
        for field, name in _SETTINGS
        if len({one[field] for one in servers}) > 1
    ]
    columns.append(("buffer\nhits", lambda one: ratio(one["hit_ratio"])))
    if servers[0]["page_cache"] is None:
        columns.append(("kernel\nreads", lambda one: _count(one["requests"])))
        columns.append(("bytes\na read", lambda one: _size(one["bytes_per_request"])))
    else:
        columns.append(("cache\nhits", lambda one: ratio(one["page_cache_hit_ratio"])))
        columns.append(("device\nreads", lambda one: _count(one["device_reads"])))
        if document["seconds"]:
            columns.append(("reads a\nsecond", lambda one: numbers.significant(one["device_reads_per_second"])))
        if document["transactions"]:
            columns.append(("a trans-\naction", lambda one: numbers.significant(one["device_reads_per_transaction"])))
        columns.append(("bytes\na read", lambda one: _size(one["device_bytes_per_read"])))
    columns.append(("evictions", lambda one: _count(one["evictions"])))
    if document["changes"]:
        columns.append(("checkpoint\nwrites", lambda one: _count(one["checkpoint_writes"])))
        columns.append(("writer's\nwrites", lambda one: _count(one["writer_writes"])))
        columns.append(("backends'\nwrites", lambda one: _count(one["dirty_evictions"])))
        columns.append(("full-page\nimages", lambda one: _count(one["full_page_images"])))
    return columns


def servers_view(document: dict[str, Any]) -> Group:
    """The verdict, one row per server, and the limitations."""
    columns = _columns(document)
    table = Table(box=None, pad_edge=False)
    for name, _ in columns:
        table.add_column(name, justify="left" if name.startswith("data") else "right", no_wrap=True)
    for server in document["servers"]:
        table.add_row(*(text(server) for _, text in columns))
    one = document["servers"][0]
    common = [
        f"{name} {_size(one[field])}"
        for field, name in _SETTINGS
        if one["page_cache"] is not None and len({each[field] for each in document["servers"]}) == 1
    ]
    parts: list[Any] = [Text(servers_verdict(document)), Text()]
    if common:
        parts += [Text(f"All with {', '.join(common)}."), Text()]
    parts += [table, Text(), Text("Limitations")]
    parts += [Text(f"- {line}") for line in document["limitations"]]
    return Group(*parts)

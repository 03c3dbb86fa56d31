"""Measurements as a table, and as the mailing list's thread prints them."""

from typing import TYPE_CHECKING, Any

from octavo.units import format_size, human_size

if TYPE_CHECKING:
    from rich.console import Console


def print_table(document: dict[str, Any], screen: "Console") -> None:
    """Prints the results: a table for each state of the page cache, a line for each policy."""
    print(_heading(document))
    measured = [result for result in document["results"] if result["status"] == "ok"]
    for cache in dict.fromkeys(result["cache"] for result in measured):
        print(f"\n{_CACHES[cache]}")
        _print_results(
            [result for result in measured if result["cache"] == cache],
            "write" if document["write"] else "read",
            screen,
        )
    if measured:
        print("\nkB request: octavo's own requests, with holes and second reads; kB device: requests of all processes")
    for result in document["results"]:
        for text in [f"skipped: {result['reason']}"] if result["status"] == "skipped" else result["notes"]:
            print(f"{result['policy']}, {result['cache']}: {text}")


_CACHES = {
    "cold": "cold: not in the page cache before",
    "warm": "warm: in the page cache before",
    "found": "the page cache as it was found",
    "direct": "bypassing the page cache (O_DIRECT)",
}
# What is left out first where the terminal is narrow: it follows from the rest, or matters least.
_DISPENSABLE = ("MB/s", "CPU µs/request", "p50 µs", "requests/s", "kB device")
_GAP = 2


def _print_results(results: list[dict[str, Any]], kind: str, screen: "Console") -> None:
    from rich.table import Table

    rows = [_columns(result, kind) for result in results]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) + _GAP for name in rows[0]}
    if screen.is_terminal:
        for name in _DISPENSABLE:
            if sum(widths.values()) > screen.width:
                del widths[name]
    else:
        screen.width = max(screen.width, sum(widths.values()))
    table = Table(box=None, pad_edge=False)
    for name in widths:
        table.add_column(name, justify="left" if name == "policy" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(row[name] for name in widths))
    screen.print(table)


def _columns(result: dict[str, Any], kind: str) -> dict[str, str]:
    device = result["device"]
    request = device and device[f"bytes_per_{kind}"]
    return {
        "policy": result["policy"],
        "requests/s": f"{result['requests_per_second']:,.0f}",
        "blocks/s": f"{result['blocks_per_second']:,.0f}",
        "MB/s": f"{result['bytes_per_second'] / 1024**2:,.1f}",
        "kB request": f"{result['bytes_per_request'] / 1024:,.1f}",
        "kB device": f"{request / 1024:,.1f}" if request else "-",
        "CPU µs/request": f"{result['cpu_seconds_per_request'] * 1e6:,.2f}",
        "CPU µs/block": f"{result['cpu_seconds_per_block'] * 1e6:,.2f}",
        "p50 µs": f"{result['latency_us']['p50']:,.1f}",
        "p99 µs": f"{result['latency_us']['p99']:,.1f}",
    }


def as_thread(document: dict[str, Any]) -> str:
    """The layout of pgiosim's output in the thread, and below it that of its table of device requests."""
    return "\n\n".join(_thread_block(document, result) for result in document["results"])


def _thread_block(document: dict[str, Any], result: dict[str, Any]) -> str:
    size = format_size(document["block_bytes"])
    title = f"# {_pattern(document).upper()} I/O {size} blocksize, {result['policy']}, {result['cache']}"
    if result["status"] == "skipped":
        return f"{title}\nskipped: {result['reason']}"
    read, wrote = (0, result["blocks"]) if document["write"] else (result["blocks"], 0)
    lines = [title, *(f"Added {file['path']}" for file in document["files"])]
    lines.append(f"blocksize={document['block_bytes']}, {result['bytes_per_request']:.0f} bytes a request")
    lines.append(f"Elapsed: {result['seconds']:.2f}")
    lines.append(f"Read {read} blocks Wrote {wrote} blocks")
    lines.append(f"{result['requests_per_second']:.2f} op/sec, {result['bytes_per_second'] / 1024:.2f}kB/sec")
    lines.append(f"{'WHO':>8} T {'BYTES':>14} {'REQUESTS':>12} {'BYTES/REQ':>12}")
    kind = "W" if document["write"] else "R"
    lines.append(_row("octavo", kind, result["bytes"], result["requests"]))
    if (device := result["device"]) is not None:
        bytes, requests = ("written_bytes", "writes") if document["write"] else ("read_bytes", "reads")
        lines.append(_row("device", kind, device[bytes], device[requests]))
    return "\n".join(lines)


def _row(who: str, kind: str, bytes: int, requests: int) -> str:
    return f"{who:>8} {kind} {bytes:>14} {requests:>12} {bytes / requests if requests else 0:>12.0f}"


def _heading(document: dict[str, Any]) -> str:
    total = sum(file["bytes"] or 0 for file in document["files"])
    files = document["files"]
    name = files[0]["path"] if len(files) == 1 else f"{files[0]['path']} and {len(files) - 1} more"
    sizes = f" ({human_size(total)})" if total else ""
    threads = f", {document['threads']} threads" if document["threads"] > 1 else ""
    doing = "writing" if document["write"] else "reading"
    line = f"{name}{sizes}: {doing} blocks of {format_size(document['block_bytes'])}, {_pattern(document)}{threads}"
    if (query := document.get("query")) is not None:
        forced = ", other scans disabled" if query["forced_bitmap"] else ""
        line += (
            f"\n{query['relation']}: {query['visited_blocks']:,} of {query['relation_blocks']:,} blocks where "
            f"{query['condition']}{forced}"
        )
    return line


def _pattern(document: dict[str, Any]) -> str:
    name, run = document["pattern"], document["run_blocks"]
    if name == "list":
        return "block list"
    runs = f" runs of {run}" if run > 1 else ""
    stride = f" every {document['stride_blocks']} blocks" if document["stride_blocks"] else ""
    return f"{name}{runs}{stride}"

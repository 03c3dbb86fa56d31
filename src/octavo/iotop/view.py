"""A snapshot of requests as text: the columns of disktop, and the role of each process."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from octavo.iotop.process_info import WRITE_BACK
from octavo.iotop.snapshot import IoWorkerClient, RequestRow, RequestSnapshot
from octavo.units import human_size

_NONE = "·"
_LETTERS = {"read": "R", "write": "W", "discard": "D"}
# Columns, and how wide a terminal must be to show them.
_COLUMNS = {
    "UID": 110, "PID": 0, "PPID": 110, "CMD": 0, "DEVICE": 60, "T": 0, "BYTES": 0, "REQUESTS": 60, "BYTES/REQ": 50,
    "CALL BYTES": 132, "B/CALL": 132, "WHO": 0, "QUERY": 100,
}  # fmt: skip
_REST = ("WHO", "QUERY")  # get what the others leave
_LEFT = ("CMD", "DEVICE", "T", *_REST)
_LEAST_QUERY = 20
_BETWEEN = 2
_SOURCES = {"bpf": "counted in the kernel", "tracefs": "traced", "proc": "from /proc/PID/io"}


@dataclass(slots=True)
class _Shown:
    """A line: a row, or the sum of several."""

    row: RequestRow
    requests: int | None
    bytes: int
    processes: int


def view(snapshot: RequestSnapshot, width: int) -> RenderableType:
    """Everything, for a terminal of this many columns. Text of others is shown as it is, never as markup."""
    parts: list[RenderableType] = [_head(snapshot), *_devices(snapshot), "", _table(snapshot, width)]
    return Group(*parts, *_notes(snapshot))


def _head(snapshot: RequestSnapshot) -> Text:
    words = (
        time.strftime("%H:%M:%S", time.localtime(snapshot.time)),
        f"over {snapshot.seconds:.1f} s",
        _SOURCES[snapshot.source],
        f"monitoring overhead: {snapshot.cost_share * 100:.2g} % CPU",
    )
    return Text(" · ".join(words))


def _devices(snapshot: RequestSnapshot) -> Iterable[Text]:
    for name, totals in snapshot.devices.items():
        yield Text(
            f"{name}: {totals.reads:,} reads, {human_size(totals.read_bytes)} in all; "
            f"{totals.writes:,} writes, {human_size(totals.written_bytes)} in all"
        )
    if not snapshot.devices:
        yield Text("no disk activity")


def _table(snapshot: RequestSnapshot, width: int) -> Table:
    """The columns as wide as what is in them; who and what for get the rest."""
    headings = [heading for heading, least in _COLUMNS.items() if width >= least]
    lines = [[cells[heading] for heading in headings] for cells in map(_cells, _together(snapshot.rows))]
    widest = {
        heading: max(map(cell_len, column))
        for heading, column in zip(headings, zip(*[headings, *lines], strict=True), strict=True)
    }
    left = width - sum(widest[heading] for heading in headings if heading not in _REST) - _BETWEEN * (len(headings) - 1)
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        size = widest[heading]
        if heading in _REST:
            size = max(1, min(size, left - (_LEAST_QUERY if heading != headings[-1] else 0)))
            left -= size
        align = "left" if heading in _LEFT else "right"
        table.add_column(heading, justify=align, no_wrap=True, overflow="ellipsis", width=size)
    for line in lines:
        table.add_row(*(Text(cell) for cell in line))
    return table


def _together(rows: Sequence[RequestRow]) -> list[_Shown]:
    """Programs of one name that have ended are one line: a compiler's hundred processes say no more than their sum."""
    found: dict[object, _Shown] = {}
    for place, row in enumerate(rows):
        alike = (row.who.command, row.device, row.direction, row.through) if row.who.ended else place
        shown = found.setdefault(alike, _Shown(row, None if row.requests is None else 0, 0, 0))
        shown.processes += 1
        shown.bytes += row.bytes
        if shown.requests is not None:
            shown.requests += row.requests or 0
    return sorted(found.values(), key=lambda shown: -shown.bytes)


def _cells(shown: _Shown) -> dict[str, str]:
    row, several = shown.row, shown.processes > 1
    role = f"{shown.processes} that have ended" if several else row.role or ""
    return {
        "UID": _number(row.who.uid),
        "PID": _number(None if several else row.who.pid),
        "PPID": _number(row.who.parent),
        "CMD": row.who.command,
        "DEVICE": row.device or _NONE,
        "T": _LETTERS[row.direction],
        "BYTES": str(shown.bytes),
        "REQUESTS": _number(shown.requests),
        "BYTES/REQ": f"{shown.bytes / shown.requests:.0f}" if shown.requests else _NONE,
        "CALL BYTES": _number(None if several or row.asked is None else row.asked.bytes),
        "B/CALL": f"{row.asked.bytes / row.asked.calls:.0f}"
        if row.asked and row.asked.calls and not several
        else _NONE,
        "WHO": role + (f" ({row.through})" if row.through else ""),
        "QUERY": _for_whom(row.readers) or _what(row.database, row.query),
    }


def _what(database: str | None, query: str | None) -> str:
    return ": ".join(part for part in (database, query) if part)


def _for_whom(readers: Sequence[IoWorkerClient]) -> str:
    """The backends that an io worker read for, by their share; a single one without it."""
    lines = (
        " ".join(
            part
            for part in (str(one.pid), f"({one.share:.0%})" if len(readers) > 1 else "", _what(one.database, one.query))
            if part
        )
        for one in readers
    )
    return f"for {', '.join(lines)}" if readers else ""


def _notes(snapshot: RequestSnapshot) -> Iterable[Text]:
    if not snapshot.rows:
        yield Text("no requests")
    if any(row.role == WRITE_BACK for row in snapshot.rows):
        yield Text(f"{WRITE_BACK}: pages that were dirtied earlier; the kernel does not record by whom")
    if snapshot.lost_events:
        yield Text(f"{snapshot.lost_events:,} events were lost because the buffer was full: the sums are too low")
    for part, reason in snapshot.blind.items():
        yield Text(f"not available: {part}: {reason}")


def _number(value: int | None) -> str:
    return _NONE if value is None else str(value)

"""The composition of a stretch of WAL: records, full-page images, page headers.

Source: `pg_waldump --stats` of the build, over the files that are still in pg_wal. Segments that a checkpoint has
removed or recycled cannot be read and count as not inspected; nothing is extrapolated.

Page headers are counted, not read: 24 bytes at the start of a page, 40 at the start of a segment (PostgreSQL's
src/include/access/xlog_internal.h, SizeOfXLogShortPHD and SizeOfXLogLongPHD on 64-bit machines).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.errors import OctavoError
from octavo.host import children, trees
from octavo.postgres.cluster import Server
from octavo.postgres.datasets.control import wal_file

MOST_BYTES = 512 * 1024**2
_SHORT_HEADER, _LONG_HEADER = 24, 40
_TOTAL = re.compile(r"^Total\s+\d+\s+(\d{1,19}) \[[^]]*\]\s+(\d{1,19}) \[", re.MULTILINE)
_TIMELINE = re.compile(r"[0-9A-F]{8}")
# The values of PostgreSQL's configure (--with-wal-blocksize) and initdb (--wal-segsize), in bytes.
_BLOCKS = frozenset(1024 * 2**power for power in range(7))
_SEGMENTS = frozenset(1024**2 * 2**power for power in range(11))


@dataclass(frozen=True, slots=True)
class Window:
    """A part of the WAL, in bytes of the stream."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Position:
    """The end of the WAL in bytes, with the sizes of its blocks and segments."""

    end: int
    timeline: str
    block: int
    segment: int


@dataclass(frozen=True, slots=True)
class WalContents:
    """Bytes of records without images and of images, within the `inspected` bytes; bytes of page headers in the
    whole."""

    records: int
    images: int
    inspected: int
    headers: int


def position(server: Server) -> Position:
    """The position up to which the WAL can be read now. Raises OctavoError for an impossible one, because a load may
    have replaced functions."""
    return position_of(server.query("wal_end"))


def position_of(rows: Sequence[Mapping[str, Any]]) -> Position:
    """The server's WAL position, if it is plausible. Raises OctavoError."""
    try:
        (row,) = rows
        end, timeline, block, segment = (row[name] for name in ("position", "timeline", "block", "segment"))
        if (
            type(end) is int and 0 <= end < 2**63
            and isinstance(timeline, str) and _TIMELINE.fullmatch(timeline)
            and type(block) is int and block in _BLOCKS
            and type(segment) is int and segment in _SEGMENTS
        ):  # fmt: skip
            return Position(end, timeline, block, segment)
    except (ValueError, KeyError):
        pass
    raise OctavoError("the server reports an impossible WAL position; the load may have replaced functions")


def contents(server: Server, start: int, end: Position, most: int = MOST_BYTES) -> WalContents:
    """The contents of the WAL in between, of at most `most` bytes. Raises OctavoError if pg_waldump cannot be run."""
    whole = Window(start, end.end)
    headers = header_bytes(whole, end.block, end.segment)
    records = images = inspected = 0
    for window in windows(whole, end.segment, most) if whole.end > whole.start else ():
        if not _is_there(server.directory, window, end.timeline, end.segment):
            continue
        sizes = _dump(server, window, end.timeline, end.segment)
        if sizes is not None:
            records, images = records + sizes[0], images + sizes[1]
            inspected += window.end - window.start
    return WalContents(records, images, inspected, headers)


def header_bytes(window: Window, block: int, segment: int) -> int:
    """The bytes of page headers that begin in the window.

    >>> header_bytes(Window(0, 3 * 8192), 8192, 1024**2)
    88
    """
    pages = _multiples(window, block)
    segments = _multiples(window, segment)
    return pages * _SHORT_HEADER + segments * (_LONG_HEADER - _SHORT_HEADER)


def windows(whole: Window, segment: int, most: int = MOST_BYTES) -> Iterator[Window]:
    """Yields the whole if it has at most `most` bytes, else as many whole segments, spread evenly over it.

    Of a segment that is larger, and where no whole segment is in the window, it is the first `most` bytes.

    >>> list(windows(Window(5, 95), 10, most=100)), list(windows(Window(0, 100), 10, most=20))
    ([Window(start=5, end=95)], [Window(start=0, end=10), Window(start=50, end=60)])
    >>> list(windows(Window(5, 95), 100, most=50)), list(windows(Window(5, 395), 100, most=50))
    ([Window(start=5, end=55)], [Window(start=100, end=150)])
    """
    if whole.end - whole.start <= most:
        yield whole
        return
    first, last = -(-whole.start // segment), whole.end // segment
    size = min(segment, most)
    wanted = min(most // size, last - first)
    if wanted < 1:
        yield Window(whole.start, whole.start + most)
    for number in range(wanted):
        start = (first + number * (last - first) // wanted) * segment
        yield Window(start, start + size)


def _multiples(window: Window, size: int) -> int:
    return -(-window.end // size) - -(-window.start // size)


def _is_there(directory: Path, window: Window, timeline: str, segment: int) -> bool:
    """Whether all files of the window exist: pg_waldump waits for seconds for a missing one."""
    there = segments(directory)
    return all(
        wal_file(int(timeline, 16), position, segment) in there
        for position in range(window.start // segment * segment, window.end, segment)
    )


def _dump(server: Server, window: Window, timeline: str, segment: int) -> tuple[int, int] | None:
    """Bytes of records without images, and of images; None when the window cannot be read to its end, where pg_waldump
    prints the sums of a part and fails.

    The files are named explicitly; otherwise pg_waldump takes the segment size from any file, even one never written.
    """
    files = [wal_file(int(timeline, 16), position, segment) for position in (window.start, window.end - 1)]
    finished = children.run(
        [
            server.build.program("pg_waldump"), "--path", server.directory / "pg_wal", "--stats",
            "--start", _lsn(window.start), "--end", _lsn(window.end), *files,
        ],
        server.journal, role="pg_waldump", account=server.account, directory=server.directory,
    )  # fmt: skip
    total = _TOTAL.search(finished.stdout) if finished.returncode == 0 else None
    return (int(total[1]), int(total[2])) if total else None


def _lsn(position: int) -> str:
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def segments(directory: Path) -> set[str]:
    """The names of the WAL files. The server's account can write to the directory."""
    return {path.name for path in trees.files(directory / "pg_wal") if len(path.name) == 24}

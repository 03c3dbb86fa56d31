"""The WAL written while page accesses are recorded: totals from the server's counters, kinds from pg_walinspect; and
the WAL since the last checkpoint began.

Source of the kinds: pg_get_wal_stats of pg_walinspect (15 or later), which reads the WAL's files again; images are
counted by its pg_get_wal_block_info (16 or later). Each stretch of the recording is counted separately, so that the
trace has the commits of each; in a long recording several stretches are counted together. If the database does not have
that extension the kinds are unknown; nothing is created. The server's own counters lag: backends report once a second,
so the images of the second before the recording are among the recorded ones; right after a checkpoint these are the
majority.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from time import monotonic
from typing import Any

import psycopg

from octavo import _core
from octavo.errors import HostError
from octavo.instruments.target import Rows
from octavo.postgres.user_connection import SessionLimits, UsersConnection, limited
from octavo.text import one_line
from octavo.trace.wal import is_commit

# WAL of more bytes than the first is not read again for its kinds. With a stretch of more than the second no images are
# counted, because the server keeps a row for each block of its records.
MOST_BYTES = 1 << 30
MOST_COUNTED = 1 << 28
# The largest number of stretches whose kinds are read one by one.
MOST_STRETCHES = 256
# The seconds after which no further stretch is read.
MOST_SECONDS = 60.0
_LIMITS = SessionLimits(statement_timeout="20s", lock_timeout="100ms")
_KINDS = """
SELECT "resource_manager/record_type" AS kind, count::bigint AS records, combined_size::bigint AS bytes,
       fpi_size::bigint AS images
FROM {schema}.pg_get_wal_stats('0/0'::pg_lsn + %s::numeric,
                               least('0/0'::pg_lsn + %s::numeric, pg_current_wal_flush_lsn()), true)
WHERE count > 0
"""
_IMAGES = """
SELECT resource_manager || '/' || record_type AS kind, count(*)::bigint AS images
FROM {schema}.pg_get_wal_block_info('0/0'::pg_lsn + %s::numeric,
                                    least('0/0'::pg_lsn + %s::numeric, pg_current_wal_flush_lsn()), false)
WHERE block_fpi_length > 0
GROUP BY 1
"""


@dataclass(frozen=True, slots=True)
class WalCounters:
    """The server's counters, at a time in microseconds since the trace's beginning."""

    time: int
    position: int
    records: int
    full_page_images: int
    bytes: int


class WalMeter:
    """Writes the WAL statistics, an interval at each `take`, and the time of the last checkpoint before the trace
    began."""

    def __init__(self, query: Callable[[str], Rows], writer: _core.TraceWriter, time: int) -> None:
        """Raises the errors of `query`."""
        self._query, self._writer = query, writer
        self._began = self._before = self._counters(time)
        self._ends = list[WalCounters]()
        self._checkpoint: int | None = None
        self._find_checkpoint(time)

    def take(self, time: int) -> None:
        """Writes the statistics since the previous call."""
        now, before = self._counters(time), self._before
        self._before = now
        self._find_checkpoint(time)
        if now.position > (self._ends[-1] if self._ends else self._began).position:
            self._ends.append(now)
        if now.records < before.records or now.position < before.position:
            return  # the counters were reset
        self._writer.wal(
            before.time, now.time, "",
            records=now.records - before.records,
            full_page_images=now.full_page_images - before.full_page_images,
            bytes=max(0, now.bytes - before.bytes),
            full_page_image_bytes=0,
            growth_bytes=now.position - before.position,
        )  # fmt: skip

    def finish(self, connection: UsersConnection, time: int) -> str | None:
        """Writes the last stretch, and the kinds of records of all stretches and of the time before. Returns the reason
        if there are none."""
        self.take(time)
        if not self._ends:
            return None
        if self._before.position == self._ends[-1].position:
            self._ends[-1] = self._before  # nothing was logged at the end
        start, end = self._began.position, self._ends[-1].position
        if end - start > MOST_BYTES:
            return f"the WAL grew by more than {MOST_BYTES >> 20} MB: its kinds are not read"
        try:
            found = self._query("traced_wal_inspect")
            if not found:
                return "kinds of WAL records are unknown: CREATE EXTENSION pg_walinspect in this database gives them"
            schema, has_blocks = str(found[0]["schema"]), bool(found[0]["has_blocks"])
            stretches = self._kinds_by_stretch(connection, schema)
        except (psycopg.Error, HostError) as error:
            return f"kinds of WAL records are unknown: {one_line(error)}"
        images, note = [dict[str, int]() for _ in stretches], None
        try:
            if has_blocks and all(last.position - first.position <= MOST_COUNTED for first, last, _ in stretches):
                images = [
                    _images(connection, schema, first.position, last.position)
                    for first, last in _in_time((first, last) for first, last, _ in stretches)
                ]
        except (psycopg.Error, HostError) as error:
            note = f"full-page images are not counted: {one_line(error)}"
        for (first, last, rows), counted in zip(stretches, images, strict=True):
            for row in rows:
                kind = str(row["kind"])
                self._writer.wal(
                    first.time, last.time, kind[:100],
                    records=int(row["records"]), full_page_images=counted.get(kind, 0), bytes=int(row["bytes"]),
                    full_page_image_bytes=int(row["images"]), growth_bytes=0,
                )  # fmt: skip
        try:
            self._describe_before(connection, schema, has_blocks=has_blocks)
        except (psycopg.Error, HostError) as error:  # a checkpoint that ended meanwhile may have removed that WAL
            note = f"the WAL before the recording cannot be read: {one_line(error)}"
        return note

    def _kinds_by_stretch(
        self, connection: UsersConnection, schema: str
    ) -> list[tuple[WalCounters, WalCounters, list[dict[str, Any]]]]:
        """The begin and the end of each stretch, and the rows of `_kinds`. A stretch without WAL is joined to the next
        one. If one of them cannot be read, such as the last one before it is flushed, all are read as one. Raises the
        errors of `_kinds`."""
        together = -(-len(self._ends) // MOST_STRETCHES)
        ends = self._ends[::-1][::together][::-1]
        try:
            return [
                (first, last, _kinds(connection, schema, first.position, last.position))
                for first, last in _in_time(pairwise([self._began, *ends]))
            ]
        except (psycopg.Error, HostError):
            if len(ends) == 1:
                raise
        return [(self._began, ends[-1], _kinds(connection, schema, self._began.position, ends[-1].position))]

    def _find_checkpoint(self, time: int) -> None:
        """Writes when the last checkpoint before the trace began. It is only known after that checkpoint has ended,
        because pg_control_checkpoint shows only completed ones."""
        for row in self._query("traced_checkpoint"):
            position = int(row["position"])
            if position > self._began.position or position == self._checkpoint:
                continue
            self._checkpoint = position
            seconds = max(0.0, float(row["seconds"]) - (time - self._began.time) / 1e6)
            self._writer.describe("checkpoint_wal_bytes", str(self._began.position - position))
            self._writer.describe("checkpoint_seconds", f"{seconds:.3f}")

    def _describe_before(self, connection: UsersConnection, schema: str, *, has_blocks: bool) -> None:
        """Writes the number of transactions that committed between that checkpoint's begin and the trace, and their
        images."""
        start, end = self._checkpoint, self._began.position
        if start is None or end - start > MOST_BYTES:
            return
        rows = _kinds(connection, schema, start, end) if end > start else []
        commits = sum(int(row["records"]) for row in rows if is_commit(str(row["kind"])))
        self._writer.describe("checkpoint_commits", str(commits))
        self._writer.describe("checkpoint_image_bytes", str(sum(int(row["images"]) for row in rows)))
        if has_blocks and end - start <= MOST_COUNTED:
            images = _images(connection, schema, start, end) if end > start else {}
            self._writer.describe("checkpoint_images", str(sum(images.values())))

    def _counters(self, time: int) -> WalCounters:
        (row,) = self._query("traced_wal")
        values = {name: int(value or 0) for name, value in row.items()}
        return WalCounters(time, **values)


def _in_time(stretches: Iterable[tuple[WalCounters, WalCounters]]) -> Iterator[tuple[WalCounters, WalCounters]]:
    """Yields the stretches in order. Raises HostError when the previous ones took too long."""
    deadline = monotonic() + MOST_SECONDS
    for stretch in stretches:
        if monotonic() > deadline:
            raise HostError(f"reading the WAL again took longer than {MOST_SECONDS:.0f} s")
        yield stretch


def _kinds(connection: UsersConnection, schema: str, start: int, end: int) -> list[dict[str, Any]]:
    """The rows of pg_get_wal_stats. `schema` is already quoted. Raises psycopg.Error and HostError."""
    with limited(connection, _LIMITS):
        return connection.execute(_KINDS.format(schema=schema).encode(), (start, end)).fetchall()


def _images(connection: UsersConnection, schema: str, start: int, end: int) -> dict[str, int]:
    """The number of full-page images in the records of each kind. Raises the errors of `_kinds`."""
    with limited(connection, _LIMITS):
        rows = connection.execute(_IMAGES.format(schema=schema).encode(), (start, end)).fetchall()
    return {str(row["kind"]): int(row["images"]) for row in rows}

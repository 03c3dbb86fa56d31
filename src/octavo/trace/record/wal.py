"""What goes into the WAL while page accesses are recorded: the whole by the server's counters, kinds by pg_walinspect.

Source of the kinds: pg_get_wal_stats of pg_walinspect (15 or later), which reads the WAL's files again. Where the
database does not have that extension they are unknown; nothing is created.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from octavo import _core
from octavo.errors import HostError
from octavo.instruments.target import Rows
from octavo.postgres.user_connection import SessionLimits, UsersConnection, limited

# More than this is not read again for its kinds.
MOST_BYTES = 1 << 30
_LIMITS = SessionLimits(statement_timeout="20s", lock_timeout="100ms")
_KINDS = """
SELECT "resource_manager/record_type" AS kind, count::bigint AS records, combined_size::bigint AS bytes,
       fpi_size::bigint AS images
FROM {schema}.pg_get_wal_stats('0/0'::pg_lsn + %s::numeric,
                               least('0/0'::pg_lsn + %s::numeric, pg_current_wal_flush_lsn()), true)
WHERE count > 0
"""


@dataclass(frozen=True, slots=True)
class WalCounters:
    """The server's counters at a time in microseconds since the trace's beginning."""

    time: int
    position: int
    records: int
    full_page_images: int
    bytes: int


class WalMeter:
    """Writes what went into the WAL, a stretch at each `take`, and at first how much there is since the last
    checkpoint."""

    def __init__(self, query: Callable[[str], Rows], writer: _core.TraceWriter, time: int) -> None:
        """Raises what `query` raises."""
        self._query, self._writer = query, writer
        self._began = self._before = self._counters(time)
        for row in query("traced_checkpoint"):
            writer.describe("checkpoint_wal_bytes", str(max(0, int(row["bytes"]))))

    def take(self, time: int) -> None:
        """Writes what went in since the last time."""
        now, before = self._counters(time), self._before
        self._before = now
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
        """Writes the last stretch, and the kinds of records of all of them. Returns why there are none."""
        self.take(time)
        start, end = self._began.position, self._before.position
        if end <= start:
            return None
        if end - start > MOST_BYTES:
            return f"the WAL grew by more than {MOST_BYTES >> 20} MB: its kinds are not read"
        try:
            found = self._query("traced_wal_inspect")
            if not found:
                return "kinds of WAL records are unknown: CREATE EXTENSION pg_walinspect in this database gives them"
            rows = _kinds(connection, str(found[0]["schema"]), start, end)
        except (psycopg.Error, HostError) as error:
            return f"kinds of WAL records are unknown: {' '.join(str(error).split())}"
        for row in rows:
            self._writer.wal(
                self._began.time, self._before.time, str(row["kind"])[:100],
                records=int(row["records"]), full_page_images=0, bytes=int(row["bytes"]),
                full_page_image_bytes=int(row["images"]), growth_bytes=0,
            )  # fmt: skip
        return None

    def _counters(self, time: int) -> WalCounters:
        (row,) = self._query("traced_wal")
        values = {name: int(value or 0) for name, value in row.items()}
        return WalCounters(time, **values)


def _kinds(connection: UsersConnection, schema: str, start: int, end: int) -> list[dict[str, Any]]:
    """The rows of pg_get_wal_stats. `schema` is quoted already. Raises psycopg.Error and HostError."""
    with limited(connection, _LIMITS):
        return connection.execute(_KINDS.format(schema=schema).encode(), (start, end)).fetchall()

"""A recording of only the server's counters, for servers whose page accesses are not available: a managed service,
another host, a package without probes.

It has the server's counters (pg_stat_database, pg_stat_io, pg_stat_wal), the kinds of WAL records and, if the database
has pg_buffercache, the usage of its buffers. Hit ratios at any other size need the accesses themselves.
"""

import time
from collections.abc import Callable
from typing import Any

import psycopg

from octavo import _core
from octavo.errors import HostError
from octavo.postgres import sql
from octavo.postgres.user_connection import SessionLimits, UsersConnection, limited
from octavo.text import one_line
from octavo.trace.record.server import microseconds_since
from octavo.trace.record.wal import WalMeter
from octavo.trace.record.work import describe, work_of

UNKNOWN = (
    "unknown without page accesses: hit ratios at any other shared_buffers or page size, the working set, device reads"
)
_TURN_SECONDS = 1.0
_IO_SINCE = 160000
# The view of all buffers, before 16, takes seconds for 16 million of them (128 GB).
_LIMITS = SessionLimits(statement_timeout="10s", lock_timeout="100ms")


def record(
    connection: UsersConnection, target: Any, writer: _core.TraceWriter, seconds: float, began: int
) -> list[str]:
    """Records for so many seconds and writes the counts. Returns what could not be counted. Raises psycopg.Error."""
    before, io = work_of(target.query, target.version), _io(target)
    wal = WalMeter(target.query, writer, microseconds_since(began))
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(_TURN_SECONDS, left))
        wal.take(microseconds_since(began))
        writer.flush()
    after, io_after = work_of(target.query, target.version), _io(target)
    describe(writer, before, after)
    for name, value in io.items():
        if io_after[name] >= value:  # otherwise they were reset meanwhile
            writer.describe(f"work_{name}", f"{io_after[name] - value:.0f}")
    transactions = after.counters.get("transactions", 0) - before.counters.get("transactions", 0)
    if transactions > 0:
        writer.event(microseconds_since(began), "transactions", round(transactions))
    return [
        note
        for note in (wal.finish(connection, microseconds_since(began)), _buffers(connection, target.query, writer))
        if note
    ]


def _io(target: Any) -> dict[str, float]:
    if target.version < _IO_SINCE:
        return {}
    (row,) = target.query("recorded_io")
    return {name: float(value or 0) for name, value in row.items()}


def _buffers(connection: UsersConnection, query: Callable[[str], Any], writer: _core.TraceWriter) -> str | None:
    """Writes the number of buffers by usage count, and of dirty ones. Returns the reason if it did not."""
    try:
        found = query("buffer_cache_schema")
        if not found:
            return (
                "usage counts of buffers are unknown: CREATE EXTENSION pg_buffercache in this database and pg_monitor "
                "give them"
            )
        text = sql.load("buffer_usage", connection.info.server_version).format(schema=found[0]["schema"])
        with limited(connection, _LIMITS):
            rows = connection.execute(text.encode()).fetchall()
    except (psycopg.Error, HostError) as error:
        return f"usage counts of buffers are unknown: {one_line(error)}"
    for row in rows:
        name = "buffers_unused" if row["usage"] is None else f"buffers_usage_{int(row['usage'])}"
        writer.describe(name, str(row["buffers"]))
    writer.describe("buffers_dirty", str(sum(row["dirty"] for row in rows)))
    return None

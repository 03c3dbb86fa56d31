"""The facts about the server in a trace: settings, relations, activity."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg.errors import LockNotAvailable, QueryCanceled

from octavo import _core
from octavo.errors import HostError
from octavo.host.block_devices import readahead_file
from octavo.instruments.target import Rows, Target
from octavo.postgres import sql
from octavo.postgres.user_connection import SessionLimits, UsersConnection, limited
from octavo.text import one_line

# The server's settings that affect its caches and its WAL; none contains a name, a path or a secret.
SETTINGS = (
    "shared_buffers", "block_size", "wal_block_size", "effective_cache_size", "checkpoint_timeout", "max_wal_size",
    "checkpoint_completion_target", "full_page_writes", "wal_compression", "vacuum_buffer_usage_limit", "autovacuum",
    "effective_io_concurrency", "maintenance_io_concurrency", "io_combine_limit", "io_max_combine_limit", "io_method",
    "synchronize_seqscans", "bgwriter_delay", "bgwriter_lru_maxpages", "bgwriter_lru_multiplier",
    "bgwriter_flush_after", "checkpoint_flush_after", "huge_pages",
    "max_connections", "data_checksums", "wal_log_hints", "wal_level", "min_wal_size", "wal_segment_size",
)  # fmt: skip
_RELATIONS = "traced_relations"
# For the sizes of all relations: each is read from the filesystem, and waits for who has the relation locked.
_LIMITS = SessionLimits(statement_timeout="30s", lock_timeout="5s")


@dataclass(frozen=True, slots=True)
class AccessCounters:
    """Counters of all databases, at a time in seconds of the monotonic clock."""

    at: float
    lookups: int
    hits: int
    reads: int
    transactions: int


def microseconds_since(began: int) -> int:
    """Microseconds, as in a trace, since `began` in nanoseconds of the monotonic clock."""
    return (time.monotonic_ns() - began) // 1000


def unhurried(connection: UsersConnection, query: Callable[[str], Rows]) -> Callable[[str], Rows]:
    """The same queries, with more time for the sizes of all relations than for the others. Raises HostError if that is
    not enough."""

    def rows(name: str) -> Rows:
        if name != _RELATIONS:
            return query(name)
        try:
            with limited(connection, _LIMITS):
                return connection.execute(sql.load(name, connection.info.server_version).encode()).fetchall()
        except (LockNotAvailable, QueryCanceled) as error:
            raise HostError(
                f"the sizes of the relations cannot be read: {one_line(error)}; record again when no relation is "
                "locked exclusively (pg_locks)"
            ) from error

    return rows


def counted(query: Callable[[str], Rows]) -> AccessCounters:
    """The present counters."""
    (row,) = query("traced_activity")
    values = {name: int(value or 0) for name, value in row.items()}
    return AccessCounters(time.monotonic(), **values)


def write_transactions(writer: _core.TraceWriter, before: AccessCounters, after: AccessCounters, time: int) -> None:
    """Writes the transactions between two readings, at a time in microseconds; nothing if the counters went backwards,
    because they were reset or a database was dropped."""
    if after.transactions >= before.transactions:
        writer.event(time, "transactions", after.transactions - before.transactions)


def readahead_bytes(directory: Path | None) -> int | None:
    """read_ahead_kb of the device below a data directory, in bytes; None if it has none, or is not on this host."""
    if directory is None:
        return None
    with suppress(OSError, ValueError):
        file = readahead_file(directory)
        return None if file is None else int(file.read_text()) * 1024
    return None


def write_facts(writer: _core.TraceWriter, target: Target, *, names: bool, source: str) -> None:
    """Writes properties, settings and relations; the names of relations only if requested."""
    query, version = target.query, target.version
    writer.describe("recorder", "octavo trace record")
    writer.describe("source", source)
    writer.describe("server_version_num", str(version))
    writer.describe("started", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    if (readahead := readahead_bytes(target.directory)) is not None:
        writer.describe("readahead_bytes", str(readahead))
    if target.postmaster is not None:  # it runs on this kernel
        writer.describe("kernel_page_bytes", str(os.sysconf("SC_PAGE_SIZE")))
    known = {row["name"]: row["value"] for row in query("settings")}
    for name in SETTINGS:
        if known.get(name) is not None:
            writer.setting(name, str(known[name]))
    for row in query(_RELATIONS):
        if row["relation"] is None or row["blocks"] is None:
            continue  # dropped while the query ran
        numbers: dict[str, Any] = {name: min(int(row[name] or 0), 2**32 - 1) for name in ("tuple_bytes", "fillfactor")}
        writer.relation(
            int(row["tablespace"]), int(row["database"]), int(row["relation"]),
            kind=row["kind"], blocks=int(row["blocks"]), tuples=int(row["tuples"]),
            name=row["name"] if names else None, **numbers,
        )  # fmt: skip

"""PostgreSQL's read requests: those of one session to the kernel between two points in time.

From 18 on a session's own pg_stat_get_backend_io counts its requests, whichever process carries them out. Before 18
pg_stat_io counts blocks, so the session's read system calls are counted instead (/proc/PID/io, proc(5)): they are its
requests, since the session itself reads.
"""

from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.rows import DictRow

from octavo.postgres import sql

_OWN_COUNTERS_SINCE = 180000


@dataclass(frozen=True, slots=True)
class ReadRequests:
    """Requests to read, and their bytes."""

    requests: float
    bytes: float

    def __sub__(self, other: "ReadRequests") -> "ReadRequests":
        return ReadRequests(self.requests - other.requests, self.bytes - other.bytes)


def read_requests_of(connection: psycopg.Connection[DictRow], *, workers: bool) -> ReadRequests | None:
    """The requests of this session until now; with parallel workers, those of all of them. None if unknown."""
    version = connection.info.server_version
    if version >= _OWN_COUNTERS_SINCE:
        connection.execute("SELECT pg_stat_force_next_flush()")
        row = connection.execute(sql.load("own_reads", version).encode(), {"workers": workers}).fetchone()
        return None if row is None else ReadRequests(row["reads"], row["read_bytes"])
    return None if workers else _system_calls(connection.info.backend_pid)


def _system_calls(pid: int) -> ReadRequests | None:
    try:
        text = Path(f"/proc/{pid}/io").read_text()
    except OSError:
        return None
    numbers = dict(line.split(": ") for line in text.splitlines())
    return ReadRequests(float(numbers["syscr"]), float(numbers["rchar"]))

"""A read-only connection, and the other visible facts about the server."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import DictRow

from octavo.host.kernel_text import lines
from octavo.host.process_table import read_process
from octavo.instruments.target import Rows, Target
from octavo.postgres import sql, user_connection
from octavo.postgres.own_connection import peer_of
from octavo.postgres.user_connection import SessionLimits, UsersConnection, limited

# Nothing that we ask takes longer on a healthy server; on a sick one we must not add to it.
_LIMITS = SessionLimits(statement_timeout="500ms", lock_timeout="100ms")


def connect(
    dsn: str | None, application_name: str = "octavo watch", oldest: int = user_connection.OLDEST
) -> UsersConnection:
    """A read-only autocommit connection with limits for monitor. Raises UsageError and HostError, as
    `user_connection.connect`."""
    return user_connection.connect(dsn, application_name, _LIMITS, oldest)


def asker(connection: UsersConnection) -> Callable[[str], Rows]:
    """A function that returns the rows of a query by its name in `postgres/sql`."""
    version = connection.info.server_version

    def query(name: str) -> Rows:
        with limited(connection, connection.limits):
            return connection.execute(sql.load(name, version).encode()).fetchall()

    return query


def target_of(connection: UsersConnection, proc: Path = Path("/proc")) -> tuple[Target, dict[str, Any]]:
    """The server as the target of instruments, and its own report (`watched_server.sql`)."""
    query = asker(connection)
    (server,) = query("watched_server")
    postmaster, no_processes = _postmaster(connection, proc)
    directory, no_directory = _directory(server["data_directory"], postmaster, proc)
    backend = server["backend"] if postmaster is not None else None
    return (
        Target(query, connection.info.server_version, directory, postmaster, backend, no_directory, no_processes, proc),
        {**server, "postmaster": postmaster, "device": device_name(directory)},
    )


def device_name(directory: Path | None) -> str | None:
    """The name of the block device under a directory, None where there is none."""
    from octavo._core import device_statistics

    if directory is None:
        return None
    try:
        return device_statistics(str(directory)).device
    except (LookupError, OSError, ValueError):
        return None


def listener(connection: psycopg.Connection[DictRow], proc: Path = Path("/proc")) -> int | None:
    """The pid, in our namespace, of the postmaster behind a socket of this machine, in whichever container it runs.

    None if the listener is not PostgreSQL, such as a pooler, or is in a container that is not visible from here.
    """
    if not connection.info.host.startswith(("/", "@")):
        return None
    pid, _ = peer_of(connection.fileno())
    process = read_process(pid, proc) if pid > 0 else None
    return pid if process is not None and process.is_postgres else None


def _postmaster(connection: psycopg.Connection[DictRow], proc: Path) -> tuple[int | None, str]:
    """The postmaster's pid, when it is a process of this host that we can see, and its own pids are ours."""
    host, address = connection.info.host, connection.info.hostaddr
    elsewhere = None, "the server's processes are not visible here (another container?)"
    if host.startswith(("/", "@")):
        pid = listener(connection, proc)
        return (pid, "") if pid is not None and len(_pids(pid, proc)) == 1 else elsewhere
    if not (address.startswith("127.") or address == "::1"):
        return None, "the server runs on another host"
    process = read_process(connection.info.backend_pid, proc)
    if process is None or not process.is_postgres or len(_pids(process.pid, proc)) != 1:
        return elsewhere
    return process.parent, ""


def _pids(pid: int, proc: Path) -> list[int]:
    """What a process is called in each PID namespace, from ours to its own (NSpid in proc_pid_status(5))."""
    try:
        reported = lines(proc / str(pid) / "status")
    except OSError:
        return []
    return next(([int(one) for one in line.split()[1:]] for line in reported if line.startswith("NSpid:")), [pid])


def _directory(told: str | None, postmaster: int | None, proc: Path) -> tuple[Path | None, str]:
    """The data directory, as the server tells or as the postmaster's working directory, which it is."""
    if postmaster is None:
        return None, "the server's data directory is on another host or in another container"
    try:
        found = Path(told) if told else (proc / str(postmaster) / "cwd").readlink()
        found.stat()
    except OSError:
        if told:
            return None, f"{told} cannot be seen by this user"
        return None, "this user may not see the data directory's path (GRANT pg_monitor, or run as the server's user)"
    return found, ""

"""Connections to a user's server: read-only and with short time limits, even through a pooler, and without printing a
password.

The listener on a socket of this host may be any local user's program. Its answers are limited in time and memory, and
are plain values or psycopg.Error (`server_answers`).

Functions of other users of the database are never called: unqualified names are PostgreSQL's own (`search_path`).
Otherwise the owner of a database could set another path for all connections, and anybody who may create functions in a
schema of that path could make one that matches our call better than PostgreSQL's.

A pooler may drop our start-up options (pgbouncer's `ignore_startup_parameters = options`); the session then has neither
limits nor read-only mode nor our path. So they are read back; if they are not in effect, each query runs in its own
transaction, which sets them (SET LOCAL). A plain SET would stay on the pooler's connection, for other clients.
"""

import math
import os
import re
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from psycopg import conninfo
from psycopg.abc import RV, PQGen
from psycopg.rows import DictRow, dict_row, tuple_row

from octavo.errors import HostError, UsageError
from octavo.postgres.server_answers import SHARE_OF_MEMORY, AnswerCursor, plain
from octavo.text import one_line
from octavo.units import parse_duration

OLDEST = 150000
_CONNECT_SECONDS = 10
# In addition to statement_timeout, which the server may not honour: a busy server may need so long to report it.
_LATE_SECONDS = 10.0
_NO_DSN = (
    "--dsn is not a connection string; write one for psql, such as 'host=/run/postgresql dbname=shop' or "
    "postgresql://user@host/shop (a password belongs in ~/.pgpass or PGPASSFILE)"
)
_IN_A_URL = re.compile(r"(://[^/\s:@]*:)\S*@")
_AS_A_WORD = re.compile(r"(password\s*=\s*)('(?:[^'\\]|\\.)*'|\S+)")


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """The limits for a statement's time and its wait for a lock, as the server writes them (`500ms`, `30s`).

    `search_path`: the schemas of unqualified names. None keeps the user's, for the user's own statements.
    """

    statement_timeout: str
    lock_timeout: str
    search_path: str | None = "pg_catalog,pg_temp"

    def settings(self) -> dict[str, str]:
        """The limits by the names of the settings."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class UsersConnection(psycopg.Connection[DictRow]):
    """A read-only autocommit connection. `limits` are set in each transaction, or None if the session has them.

    An answer has to arrive within `patience` seconds, all answers together within `most_waiting`, and each has to fit a
    part of the memory; otherwise psycopg.OperationalError is raised and the connection is closed. `waited`: the seconds
    so far. `any_opened`: whether this process has ever had one.
    """

    any_opened: ClassVar[bool] = False
    limits: SessionLimits | None = None
    patience: float = _CONNECT_SECONDS
    most_waiting: float = math.inf
    waited: float = 0.0

    def wait(self, gen: PQGen[RV], *arguments: Any, **options: Any) -> RV:
        """Like psycopg's, within these limits."""
        seconds = min(self.patience, self.most_waiting - self.waited)
        if seconds <= 0:
            self.pgconn.finish()
            raise psycopg.OperationalError(f"the server's answers have taken {self.waited:.0f} s")
        began = time.monotonic()
        try:
            return super().wait(_bounded(gen, seconds, self.pgconn.finish), *arguments, **options)
        finally:
            self.waited += time.monotonic() - began


def _bounded(work: PQGen[RV], seconds: float, close: Callable[[], None]) -> PQGen[RV]:
    """The same steps, with the limits checked at each: psycopg makes at least ten per second."""
    deadline = time.monotonic() + seconds
    most = _resident_bytes() + SHARE_OF_MEMORY * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        wanted = next(work)
        while True:
            ready = yield wanted
            wanted = work.send(ready)
            problem = None
            if time.monotonic() > deadline:
                problem = f"the server has not answered within {seconds:g} s"
            elif _resident_bytes() > most:
                problem = f"the server's response takes more than {SHARE_OF_MEMORY:.0%} of the memory"
            if problem is not None:
                close()
                raise psycopg.OperationalError(problem)
    except StopIteration as end:
        return end.value


def _resident_bytes() -> int:
    """The present memory of this process (proc_pid_statm(5)), not its peak, which an earlier answer may have raised."""
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def connect(dsn: str | None, application_name: str, limits: SessionLimits, oldest: int = OLDEST) -> UsersConnection:
    """Connects by the DSN, else by libpq's environment and defaults.

    The DSN is passed to libpq and not kept. Raises UsageError if it is invalid, HostError if the server refuses, is
    older than `oldest` (server_version_num), or does not accept the limits. No error contains a password.
    """
    asked = read_dsn(dsn or "", _NO_DSN)
    own = str(asked.get("options") or os.environ.get("PGOPTIONS", ""))
    wanted = {**limits.settings(), "default_transaction_read_only": "on"}
    ours = " ".join(f"-c {name}={value}" for name, value in wanted.items())
    settings: dict[str, Any] = {
        **asked,
        "options": f"{own} {ours}".strip(),
        "application_name": application_name,
        "connect_timeout": asked.get("connect_timeout") or _CONNECT_SECONDS,
    }
    password = str(asked.get("password") or os.environ.get("PGPASSWORD", ""))
    factory: Any = AnswerCursor  # of dictionaries, like its rows
    try:
        connection = UsersConnection.connect(
            **settings, autocommit=True, row_factory=dict_row, cursor_factory=factory, context=plain()
        )
    except UnicodeError:
        raise UsageError("PGOPTIONS in the environment is not text; correct or unset it") from None
    except psycopg.Error as error:
        problem = one_line(without_secrets(str(error), password))
        problem = re.sub(r"^(connection (failed|is bad): )+| Is the server running [^?]*\?", "", problem)
        hint = "set --dsn, or PGHOST, PGUSER and the like"
        if "Peer authentication failed" in problem and os.geteuid() == 0:
            hint = "run as the server's user, or CREATE ROLE root LOGIN IN ROLE pg_monitor and give no user in --dsn"
        raise HostError(f"could not connect to the server: {problem}; {hint}") from None
    UsersConnection.any_opened = True
    connection.patience = patience_of(limits)
    try:
        _hold_to(connection, limits, oldest)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def limited(connection: psycopg.Connection[Any], limits: SessionLimits | None) -> Generator[None, None, None]:
    """Runs the block in a read-only transaction with the limits; with None, without any transaction.

    Raises HostError when the server does not accept them.
    """
    if limits is None:
        yield
        return
    connection.read_only = True
    if isinstance(connection, UsersConnection):
        connection.patience = max(connection.patience, patience_of(limits))
    with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
        wanted = limits.settings()
        sets = "".join(f"pg_catalog.set_config('{name}', %s, true), " for name in wanted)
        row = cursor.execute(
            f"SELECT {sets}pg_catalog.current_setting('transaction_read_only')".encode(), tuple(wanted.values())
        ).fetchone()
        if row != (*wanted.values(), "on"):
            raise HostError(
                "the server did not accept our timeouts and read-only mode; connect to PostgreSQL, not to a pooler"
            )
        yield


def patience_of(limits: SessionLimits) -> float:
    """The seconds within which an answer under these limits has to arrive."""
    return parse_duration(limits.statement_timeout) + _LATE_SECONDS


def without_secrets(text: str, password: str = "") -> str:
    """The text without the password, and without passwords in a URL or after `password=`.

    >>> without_secrets("postgresql://me:secret@host/shop and password='a b' host=x")
    'postgresql://me:***@host/shop and password=*** host=x'
    """
    if password:
        text = text.replace(password, "***")
    return _AS_A_WORD.sub(r"\1***", _IN_A_URL.sub(r"\1***@", text))


def read_dsn(dsn: str, otherwise: str) -> dict[str, Any]:
    """The DSN's values by libpq's keywords. Raises UsageError with the text `otherwise` if it is invalid, because
    libpq's own message would repeat it with its password."""
    try:
        asked = conninfo.conninfo_to_dict(dsn)
    except (psycopg.Error, UnicodeError):
        raise UsageError(otherwise) from None
    # A password with @ or / would make a URL whose host, port or database contains a part of the password.
    host, port = str(asked.get("host") or ""), str(asked.get("port") or "")
    database = str(asked.get("dbname") or "")
    is_url = dsn.startswith(("postgresql:", "postgres:"))
    if re.search(r"[^\d,\s]", port) or (is_url and ("@" in host.lstrip("@") or ("@" in database and port))):
        raise UsageError(otherwise)
    return asked


def _hold_to(connection: UsersConnection, limits: SessionLimits, oldest: int) -> None:
    """Ensures that our queries have the limits: from the session if it accepted them, else from each transaction."""
    if connection.info.server_version < oldest:
        raise HostError(f"the server is older than PostgreSQL {oldest // 10000}, the oldest supported version")
    try:
        wanted = {**limits.settings(), "transaction_read_only": "on"}
        asked = ", ".join(f"pg_catalog.current_setting('{name}') AS {name}" for name in wanted)
        if connection.execute(f"SELECT {asked}".encode()).fetchone() == wanted:
            return
        # Behind such a pooler the next statement may run in another session, so nothing is prepared.
        connection.prepare_threshold = None
        connection.limits = limits
        with limited(connection, limits):
            pass
    except psycopg.Error as error:
        raise HostError(f"cannot read the server's timeouts: {one_line(error)}") from None

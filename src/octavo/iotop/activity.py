"""What PostgreSQL's processes are doing, from pg_stat_activity: read-only, under a short statement_timeout."""

import re
from dataclasses import dataclass
from typing import Self

from psycopg.rows import DictRow

from octavo.instruments.running import backend_cpu_seconds
from octavo.instruments.target import Target
from octavo.iotop.in_flight import InFlight
from octavo.iotop.polled_query import PolledQuery
from octavo.iotop.terminal_text import one_line
from octavo.postgres.user_connection import UsersConnection, without_secrets
from octavo.watch.connect import connect, target_of

# What pg_stat_activity gives for the query of another user (PostgreSQL documentation, "pg_stat_activity").
_HIDDEN = "<insufficient privilege>"
# The literal after the word, as in ALTER ROLE … PASSWORD 'x', OPTIONS (password 'x'), SET a.password TO 'x' and
# set_config('a.password', 'x'), and quotes that are doubled or escaped in another literal, a connection string. It may
# be cut off: the server gives the beginning of a query. The word may be a literal of its own.
_PASSWORD = re.compile(
    r"""(password"?(?:\s*(?:=>?|:=)\s*|\s+to\s+|(?:\s|/\*(?:[^*/]|\*(?!/)|/(?!\*))*\*/)+)|password'\s*,\s*"""
    r"""|(?<!')password)"""
    r"""(''(?:[^'\\]|\\(?:''|.))+(?:''|'?\Z)|\\'[^'\\]+(?:\\'|\Z)"""
    r"""|(?:e|u&)?'(?:[^'\\]|''|\\.?)*(?:'|\Z)|\$(\w*)\$.*?(?:\$\3\$|\Z))""",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ProcessActivity:
    """The activity of a process, safe for a terminal: its role, its database, and its current or last query."""

    role: str | None
    database: str | None
    query: str | None


class Activity:
    """A connection for observation. Once refused or lost it stays so, and `off` gives the reason."""

    def __init__(self, connection: UsersConnection, target: Target) -> None:
        self._connection = connection
        self._target = target
        self._spent = backend_cpu_seconds(target) or 0.0
        self.postmaster = target.postmaster
        self.in_flight = InFlight(target)
        self._asked = PolledQuery(target, "activity", target.no_processes or None)
        self._hidden = False

    @classmethod
    def open(cls, dsn: str) -> Self:
        """Connects. Raises UsageError for an invalid connection string, HostError if the server refuses."""
        connection = connect(dsn, "octavo iotop")
        try:
            target, _ = target_of(connection)
        except BaseException:
            connection.close()
            raise
        return cls(connection, target)

    @property
    def off(self) -> str | None:
        """Why it cannot be told, or not of every user, if so."""
        return self._asked.off or ("those of other users are hidden (GRANT pg_monitor)" if self._hidden else None)

    def sample(self) -> dict[int, ProcessActivity]:
        """The activity of each process of the server, by pid; empty if it is unknown."""
        rows = self._asked.rows()
        self._hidden = any(row["query"] == _HIDDEN for row in rows)
        return {row["pid"]: doing_of(row) for row in rows}

    def cpu_seconds(self) -> float:
        """CPU seconds of our backend since we connected, if it is visible."""
        return max(0.0, (backend_cpu_seconds(self._target) or 0.0) - self._spent)

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()


def doing_of(row: DictRow) -> ProcessActivity:
    """A row of `activity.sql`. A query that is over is in parentheses, and shows no passwords."""
    query = _without_passwords(one_line(row["query"] or "")) if row["query"] != _HIDDEN else ""
    if query and str(row["state"] or "active").startswith("idle"):
        query = f"({query})"
    return ProcessActivity(_clean(row["backend_type"]), _clean(row["database"]), query or None)


def _without_passwords(query: str) -> str:
    """The query without the passwords that commands set and that connection strings have.

    >>> _without_passwords("ALTER ROLE a PASSWORD 'it''s'; SELECT dblink_connect('host=b password=x')")
    "ALTER ROLE a PASSWORD ***; SELECT dblink_connect('host=b password=***"
    """
    return without_secrets(_PASSWORD.sub(r"\1***", query))


def _clean(text: str | None) -> str | None:
    return one_line(text) if text else None

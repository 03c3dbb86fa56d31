"""The server's own report: one read-only transaction with short timeouts. Refused facts are unknown."""

import math
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import psycopg

from octavo.doctor.collect.live import ServerCounters
from octavo.doctor.collect.volumes import OPTIONS, TABLESPACES
from octavo.doctor.facts import Fact
from octavo.doctor.lines import MANAGED
from octavo.errors import UsageError
from octavo.postgres import sql
from octavo.postgres.user_connection import SessionLimits, UsersConnection, limited
from octavo.text import one_line
from octavo.units import parse_size

# On a healthy server every query is faster; on an overloaded one the doctor must not add to the load.
LIMITS = SessionLimits(statement_timeout="1s", lock_timeout="100ms")
# Every version whose views are in PostgreSQL's manual; there is a query file for each minimum version.
OLDEST = 130000
SIZES = "server.databases_bytes"
# The role that identifies a managed service, and the service's term for settings.
SERVICES = {
    "rds_superuser": "Amazon RDS or Aurora: parameter group",
    "cloudsqlsuperuser": "Google Cloud SQL: database flag",
    "alloydbsuperuser": "Google AlloyDB: database flag",
    "azure_pg_admin": "Azure Database for PostgreSQL: server parameter",
}
_LONGEST_NUMBER = 18
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_NO_LONGER_BOOLEAN = frozenset({"wal_compression"})  # 15 added methods
_UNIT = re.compile(r"(\d*)(B|kB|MB|GB|TB)")
Row = Mapping[str, Any]


def server_facts(connection: UsersConnection, *, with_sizes: bool = True) -> list[Fact]:
    """All facts, in one transaction. The databases' sizes are the most expensive; without `with_sizes` they are
    omitted."""
    with transaction(connection):
        return [
            *_settings(connection),
            *_probe(connection, "doctor_server", "server.", _server),
            *_probe(connection, "doctor_tablespaces", TABLESPACES, _tablespaces),
            *_probe(connection, "doctor_managed", MANAGED, _managed),
            *_probe(connection, "doctor_wal", "server.wal.", _as_they_are("server.wal.", "pg_stat_wal")),
            *_probe(
                connection, "doctor_checkpoints", "server.checkpoints.",
                _as_they_are("server.checkpoints.", "pg_stat_checkpointer" if connection.info.server_version >= 170000
                             else "pg_stat_bgwriter"),
            ),
            *_probe(
                connection, "doctor_scans", "server.scans.",
                _as_they_are("server.scans.", "pg_stat_io, context bulkread"),
            ),
            *(_probe(connection, "doctor_sizes", SIZES, _sizes) if with_sizes else ()),
        ]  # fmt: skip


def reads(connection: UsersConnection) -> ServerCounters | None:
    """The requests to the kernel since the statistics were reset; None when the query is refused."""
    with transaction(connection):
        try:
            row = connection.execute(_text(connection, "doctor_reads")).fetchone()
        except psycopg.Error:
            return None
    try:
        return None if row is None else ServerCounters(**{name: _number(value) for name, value in row.items()})
    except (TypeError, ValueError):  # a server that is not PostgreSQL
        return None


def _number(value: Any) -> Any:
    return value if value is None or isinstance(value, float) else int(value)


def setting_fact(name: str, setting: str, unit: str | None, kind: str, source: str) -> Fact:
    """A row of pg_settings as a fact: bytes for a unit of memory, seconds for a unit of time.

    >>> setting_fact("shared_buffers", "16384", "8kB", "integer", "default").value
    134217728
    >>> setting_fact("checkpoint_timeout", "300", "s", "integer", "default").value
    300.0
    >>> setting_fact("wal_compression", "off", None, "bool", "default").value  # before 15
    'off'
    """
    where = f"pg_settings: {name} ({source})"
    if kind == "bool" and name not in _NO_LONGER_BOOLEAN:
        return Fact(f"setting.{name}", setting == "on", where)
    if kind not in ("integer", "real"):
        return Fact(f"setting.{name}", setting, where)
    number = float(setting)
    if unit in _SECONDS:
        return Fact(f"setting.{name}", number * _SECONDS[unit], where)
    if unit and (match := _UNIT.fullmatch(unit)) and number >= 0:
        return Fact(f"setting.{name}", int(number) * parse_size(f"{match[1] or 1}{match[2]}"), where)
    return Fact(f"setting.{name}", int(number) if kind == "integer" else number, where)


def _settings(connection: UsersConnection) -> list[Fact]:
    def parse(rows: list[Row]) -> list[Fact]:
        return [
            setting_fact(row["name"], row["setting"], row["unit"], row["vartype"], row["source"]) for row in rows
        ]  # fmt: skip

    absent = Fact("setting.", absent=f"PostgreSQL {connection.info.server_version // 10000} has no such setting")
    return [absent, *_probe(connection, "doctor_settings", "setting.", parse)]


def _server(rows: list[Row]) -> list[Fact]:
    row = rows[0]
    activity, version = "pg_stat_activity", "SHOW server_version"
    idle = (
        Fact("server.idle_connections", row["idle_connections"], activity)
        if row["sees_all"]
        else Fact("server.idle_connections", unknown="needs pg_read_all_stats: GRANT pg_monitor TO this user")
    )
    return [
        Fact("server.version", str(row["version"]).split()[0], version),
        Fact("server.version_number", row["version_number"], "SHOW server_version_num"),
        Fact("server.in_recovery", row["in_recovery"], "pg_is_in_recovery()"),
        Fact("server.connections", row["connections"], "pg_stat_database: numbackends"),
        idle,
        Fact("server.pending_restart", list(row["pending"] or ()), "pg_settings: pending_restart"),
    ]


def _sizes(rows: list[Row]) -> list[Fact]:
    return [Fact(SIZES, int(rows[0]["bytes"] or 0), "pg_database_size() of all databases")]


def _tablespaces(rows: list[Row]) -> list[Fact]:
    """Names, locations, and own planner settings of the tablespaces."""
    found = [
        {"name": str(row["name"]), "location": str(row["location"]), "options": _options(row["options"])}
        for row in rows
    ]  # fmt: skip
    return [Fact(TABLESPACES, found, "pg_tablespace")]


def _options(texts: list[str]) -> dict[str, float]:
    """The options of a tablespace that rules use.

    >>> _options(["random_page_cost=1.1", "effective_io_concurrency=200", "of_an_extension=x"])
    {'random_page_cost': 1.1, 'effective_io_concurrency': 200}
    """
    found: dict[str, float] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name in OPTIONS and len(value) <= _LONGEST_NUMBER and math.isfinite(number := OPTIONS[name](value)):
            found[name] = number
    return found


def _managed(rows: list[Row]) -> list[Fact]:
    """The managed service, identified by a role that only it has; null elsewhere."""
    services = [SERVICES[row["role"]] for row in rows if row["role"] in SERVICES]
    return [Fact(MANAGED, services[0] if services else None, "pg_roles")]


def _as_they_are(prefix: str, view: str) -> Callable[[list[Row]], list[Fact]]:
    """Makes facts of a view's columns, with the columns' names."""

    def parse(rows: list[Row]) -> list[Fact]:
        return [Fact(f"{prefix}{name}", value, f"{view}: {name}") for name, value in rows[0].items()]

    return parse


def _probe(connection: UsersConnection, query: str, name: str, parse: Callable[[list[Row]], list[Fact]]) -> list[Fact]:
    """The facts of a query. If it is refused, takes too long or has an unexpected result, the fact contains the
    reason."""
    try:
        with connection.transaction():  # a savepoint, so that a refused query does not affect the others
            rows = connection.execute(_text(connection, query)).fetchall()
        return parse(list(rows))
    except psycopg.errors.QueryCanceled:
        reason = f"took longer than {LIMITS.statement_timeout}, so it was stopped"
    except psycopg.errors.InsufficientPrivilege as error:
        reason = f"{_line(error)}; GRANT pg_monitor to this user"
    except psycopg.Error as error:
        reason = _line(error)
    except KeyError:
        return [Fact(name, absent=f"PostgreSQL {connection.info.server_version // 10000} does not count it")]
    except (ValueError, ArithmeticError, TypeError, IndexError, UsageError):
        reason = "the server's answer is not PostgreSQL's"
    return [Fact(name, unknown=reason)]


def _text(connection: UsersConnection, query: str) -> bytes:
    return sql.load(query, connection.info.server_version).encode()


def transaction(connection: UsersConnection) -> AbstractContextManager[Any]:
    """Opens a read-only transaction with the timeouts, also through a pooler."""
    return connection.transaction() if connection.limits is None else limited(connection, connection.limits)


def _line(error: psycopg.Error) -> str:
    return one_line(error.diag.message_primary or error)

"""The database of a calibration: on a server of our own, or created on a user's server."""

import os
import secrets
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection, conninfo, sql
from psycopg.rows import DictRow, dict_row

from octavo import knobs
from octavo.costs import tables
from octavo.costs.measure import NO_FILES, CalibrationDatabase, empty
from octavo.errors import HostError, OctavoError
from octavo.home import make_directory, octavo_home
from octavo.host import trees
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.host.kernel_text import shown
from octavo.host.mounts import mount_of
from octavo.host.owner import owner_of
from octavo.host.page_cache import forget
from octavo.knobs import device
from octavo.knobs.base import KnobTarget
from octavo.knobs.server_group import server_group
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.own_connection import peer_of
from octavo.postgres.user_connection import SessionLimits, UsersConnection, connect, patience_of, without_secrets
from octavo.text import one_line

_SETTINGS = {
    "shared_buffers": "128MB", "autovacuum": "off", "jit": "off", "wal_level": "minimal",
    "max_wal_senders": "0", "max_wal_size": "8GB", "checkpoint_timeout": "1h",
}  # fmt: skip
# Tables of the cached kind, rows and indexes besides what is asked for, with their WAL.
_FURTHER_BYTES = 320 * 1024**2
# They ignore POSIX_FADV_DONTNEED: the ARC is a cache of its own (zpl_fadvise), the others have no device
# (generic_fadvise).
_NEVER_COLD = ("zfs", "tmpfs", "ramfs")
_READAHEAD = "128kB"  # Linux's default
_TIMEOUTS = SessionLimits("5min", "5s")
# On a user's server. The tables are in the directory of which the kernel forgets the files, whatever the user's
# defaults are, and in the one schema that a new database has.
_SESSION = {
    "statement_timeout": _TIMEOUTS.statement_timeout, "default_tablespace": "", "search_path": "public",
    "default_transaction_read_only": "off",
}  # fmt: skip
_CONNECT_SECONDS = 10
_NAME = "octavo_costs_"
_MADE_BY_US = "made by octavo costs calibrate; can be dropped"


@contextmanager
def own_database(
    build: Build, size: int, level: str, journal: Journal, account: Account, *, cold: bool
) -> Generator[tuple[CalibrationDatabase, dict[str, Any]], None, None]:
    """A server of this build with the tables, on the device of this level, removed afterwards. Yields the achieved
    limits.

    Limits apply once the tables exist. Raises HostError when this host cannot make such a device or nothing on it is
    read cold, OctavoError when the tables cannot be made.
    """
    levels = {"device": level}
    if reason := device.cannot(levels):
        raise HostError(f"--device {level}: {reason}")
    block = int(build.manifest["data_block"].removesuffix("kB")) * 1024
    sized = tables.sizes(block, size)
    with ExitStack() as stack:
        volume = stack.enter_context(device.volume(levels, 3 * size + _FURTHER_BYTES, journal))
        if volume is None:
            work = make_directory(octavo_home() / "scratch") / secrets.token_hex(8)
            entry = journal.record("directory", path=str(work))
            stack.callback(_remove, work, journal, entry)
            make_directory(work)
            log = work / "server.log"
        else:
            work = volume.directory
            # A new loop device may have any; beyond some hundred kB the kernel does not hold a device to its bytes.
            stack.enter_context(knobs.applied({"readahead": _READAHEAD}, journal, KnobTarget(work)))
            log = volume.image.with_name("server.log")
        data = trees.make_for(work / "data", account)
        cluster.check_reachable(data, account)
        if cold:
            check_cold(data)
        arguments = [
            build.program("initdb"), "--pgdata", data, "--username", cluster.SUPERUSER, "--auth=trust",
            "--encoding=UTF8", "--locale=C", "--no-instructions", "--no-sync",
        ]  # fmt: skip
        cluster.run_initdb(arguments, journal, account)
        group = stack.enter_context(server_group(levels, journal))
        server = stack.enter_context(
            cluster.start(build, data, _SETTINGS, journal, account, log=log, memory_group=group)
        )
        connection = stack.enter_context(server.connect("postgres"))
        try:
            tables.make(connection, sized)
            _with_buffercache(connection)
            # All of it now, while the device is fast: what is written out and read again would be so under its limits.
            empty(connection)
            connection.execute("CHECKPOINT")
        except psycopg.Error as error:  # such as a full disk
            raise OctavoError(f"the tables of the calibration could not be made: {_message(error)}") from None
        forget(data)
        checked = device.measured(level, volume, journal, group)
        limited = stack.enter_context(device.limited(level, volume, journal, group))
        yield CalibrationDatabase(connection, sized, lambda: forget(data)), checked | limited.facts


@contextmanager
def users_database(dsn: str, size: int, *, cold: bool) -> Generator[CalibrationDatabase, None, None]:
    """A database of our own on a user's server, dropped afterwards, with those that earlier calibrations left.

    Statements have a time limit. Raises HostError when the server cannot be reached or refuses the database, or its
    files, for cold reads, are not here.
    """
    with connect(dsn, "octavo costs", _TIMEOUTS) as first:
        if first.limits is not None:
            raise HostError("the connection goes through a pooler; pass the --dsn of PostgreSQL itself")
        first.execute("SET default_transaction_read_only = off")
        first.execute("SET idle_session_timeout = 0")  # it is idle until it drops the database
        name = f"{_NAME}{secrets.token_hex(4)}"
        try:
            _drop_left(first)
            first.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        except psycopg.Error as error:
            raise HostError(
                f"the server refuses a database for the calibration: {_message(error)}; the user needs CREATEDB"
            ) from None
        try:
            first.execute(
                sql.SQL("COMMENT ON DATABASE {} IS {}").format(sql.Identifier(name), sql.Literal(_MADE_BY_US))
            )
            with _connected(dsn, name) as connection:
                forgets = _forgets(connection) if cold else None
                if cold and forgets is None:
                    raise HostError(NO_FILES)
                block = int(str(_value(connection, "SELECT current_setting('block_size')")))
                sized = tables.sizes(block, size)
                try:
                    tables.make(connection, sized)
                    _with_buffercache(connection)
                    if forgets is not None:
                        connection.execute("CHECKPOINT")
                except psycopg.Error as error:
                    raise OctavoError(f"the server refuses the tables of the calibration: {_message(error)}") from None
                yield CalibrationDatabase(connection, sized, forgets)
        finally:
            _drop(first, name)


def _connected(dsn: str, database: str) -> UsersConnection:
    """A connection to our own database on the user's server, whose answers are limited in time and memory. Defaults of
    the user that would move the tables are not in effect."""
    asked: dict[str, Any] = {
        "connect_timeout": _CONNECT_SECONDS, **conninfo.conninfo_to_dict(dsn),
        "dbname": database, "application_name": "octavo costs",
    }  # fmt: skip
    try:
        connection = UsersConnection.connect(**asked, autocommit=True, row_factory=dict_row)
        for name, value in _SESSION.items():
            connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", (name, value))
    except psycopg.Error as error:
        raise HostError(f"could not connect to the calibration's database: {_message(error)}") from None
    connection.patience = patience_of(_TIMEOUTS)
    return connection


def _drop_left(connection: Connection[Any]) -> None:
    """Drops what a calibration that was killed has left: ours by name and comment, and nobody is connected to it. Those
    of a user whom this one may not act for stay."""
    rows = connection.execute(
        "SELECT datname FROM pg_database d JOIN pg_shdescription s ON s.objoid = d.oid"
        " AND s.classoid = 'pg_database'::regclass WHERE starts_with(datname, %s) AND description = %s"
        " AND pg_has_role(d.datdba, 'USAGE') AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.datid = d.oid)",
        (_NAME, _MADE_BY_US),
    ).fetchall()
    for row in rows:
        _drop(connection, str(row["datname"]))


def _drop(connection: Connection[Any], name: str) -> None:
    try:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
    except psycopg.Error as error:
        raise OctavoError(f"the database {name} could not be dropped: {_message(error)}; drop it yourself") from None


def _with_buffercache(connection: Connection[DictRow]) -> None:
    """The extension that empties shared buffers, where the server has it and lets us; cold runs check what it did."""
    if connection.info.server_version < 170000:
        return
    try:
        connection.execute("CREATE EXTENSION pg_buffercache")
    except psycopg.Error:
        return


def _forgets(connection: Connection[DictRow]) -> Callable[[], None] | None:
    """Drops our database's files from the page cache; None where they are not on this host, or not ours to open.

    The server has to be at the other end of a Unix socket, and its directory has to be its user's. Raises HostError
    where files cannot be dropped.
    """
    try:
        _, owner = peer_of(connection.fileno())
        oid = _value(connection, "SELECT oid FROM pg_database WHERE datname = current_database()")
        directory = Path(str(_value(connection, "SELECT current_setting('data_directory')")))
        if owner_of(directory.stat()) != owner or os.geteuid() not in (0, owner):
            return None
        check_cold(directory)
    except (OSError, psycopg.Error):
        return None
    return lambda: forget(directory / "base" / str(oid))


def check_cold(directory: Path) -> None:
    """Raises HostError where files stay in memory although the kernel is told to drop them."""
    mount = mount_of(directory)
    if mount is not None and mount.kind in _NEVER_COLD:
        raise HostError(
            f"{shown(str(directory))} is on {mount.kind}, whose files cannot be dropped from memory, so nothing is "
            "read cold; measure warm caches: --cache warm, in a plan cache = warm"
        )


def _value(connection: Connection[DictRow], query: str) -> object:
    row: Mapping[str, object] | None = connection.execute(query.encode()).fetchone()
    assert row is not None  # every such query gives a row
    return next(iter(row.values()))


def _message(error: psycopg.Error) -> str:
    return one_line(without_secrets(str(error)))


def _remove(work: Path, journal: Journal, entry: int) -> None:
    if trees.remove(work):
        journal.done(entry)

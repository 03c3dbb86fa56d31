"""SQLAlchemy's engines for the two databases, and their special settings."""

import sqlite3
import time
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event

from octavo.home import make_directory, make_private_file
from octavo.store.address import ServerAddress, StoreAddress
from octavo.store.claim import NAMESPACE
from octavo.store.listing import connect_to_read

_PATIENCE = 60.0  # for others that hold the file; seconds


def engine_to_write(store: StoreAddress) -> Engine:
    """An engine for a store that may be written; a file is made where there is none."""
    if isinstance(store, ServerAddress):
        return _of_server(store)
    make_directory(store.parent)
    make_private_file(store)
    # Not as text, in which a ? in a directory's name would begin options, and another file be the store.
    engine = create_engine(URL.create("sqlite", database=str(store)), connect_args={"timeout": _PATIENCE})

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _: object) -> None:  # pyright: ignore[reportUnusedFunction]
        _log_ahead(connection)
        # What is committed survives a power cut.
        for pragma in ("synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    return engine


def _log_ahead(connection: Any) -> None:
    """Turns write-ahead logging on. SQLite does not wait there when another process does the same to a new file."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def engine_to_read(store: StoreAddress) -> Engine:
    """An engine that changes nothing; a read-only role, or a disk that cannot be written, is enough."""
    if isinstance(store, ServerAddress):
        return _of_server(store, read_only=True)
    return create_engine("sqlite://", creator=lambda: connect_to_read(store), poolclass=NullPool)


def _of_server(address: ServerAddress, *, read_only: bool = False) -> Engine:
    """The parameters go to libpq alone: SQLAlchemy shows the URL that it knows.

    A connection is tried before it is used, so that a server that was restarted in between is not even noticed.
    """
    return create_engine(
        "postgresql+psycopg://",
        creator=lambda: address.connect(read_only=read_only),
        pool_size=1,
        pool_pre_ping=True,
    )


def is_sqlite(connection: Connection) -> bool:
    """Whether the store is a file."""
    return connection.dialect.name == "sqlite"


def begin_to_read(connection: Connection) -> Connection:
    """One snapshot of the store for all reads, so that a trial committed meanwhile is not seen in part."""
    if is_sqlite(connection):
        connection.exec_driver_sql("BEGIN")
        return connection
    return connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def begin_to_make(connection: Connection) -> None:
    """A transaction in which one process alone makes or changes the tables."""
    if is_sqlite(connection):
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # SQLite commits each statement of DDL without it
    else:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({NAMESPACE}, 0)")


def lacking_encoding(connection: Connection) -> str | None:
    """The encoding of a database that has no place for some characters; None for one that takes all. SQL_ASCII converts
    nothing, so that it keeps our UTF-8."""
    if is_sqlite(connection):
        return None
    encoding = str(connection.exec_driver_sql("SHOW server_encoding").scalar_one())
    return None if encoding in ("UTF8", "SQL_ASCII") else encoding


def driver_error(error: Exception) -> Exception:
    """The driver's error within SQLAlchemy's error."""
    original = getattr(error, "orig", None)
    return original if isinstance(original, Exception) else error


def driver_errors() -> tuple[type[Exception], ...]:
    """The errors that drivers raise outside of SQLAlchemy."""
    import psycopg

    return sqlite3.Error, psycopg.Error

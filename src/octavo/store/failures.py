"""Errors of the store, as one line with the fix. It does not import SQLAlchemy, and neither does the fast list."""

import shutil
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from octavo.errors import HostError, OctavoError, StoreAwayError
from octavo.store.address import ServerAddress, StoreAddress
from octavo.text import one_line

# With less than this free, whatever SQLite complains about comes from a full disk: it may not even make its log.
_FULL_BELOW_BYTES = 256 * 1024
# Of a server: it was shut down, crashed, starts; it has no connection left (errcodes-appendix of PostgreSQL's manual).
_AWAY = ("08", "57P01", "57P02", "57P03", "57P05", "53300")
_LONGEST_CAUSE = 160


def explain(error: Any, store: StoreAddress, doing: str) -> OctavoError | None:
    """The error that a user meets, or None for one that is our own defect.

    `error` is the driver's, `doing` what failed: "the trial could not be stored".
    """
    if isinstance(store, ServerAddress):
        return _of_server(error, store, doing)
    return _of_file(error, store, doing)


def _of_file(error: Any, path: Path, doing: str) -> OctavoError | None:
    """SQLite's errors (https://www.sqlite.org/rescode.html)."""
    name: str = getattr(error, "sqlite_errorname", None) or ""
    if name.startswith("SQLITE_CONSTRAINT") or not isinstance(error, sqlite3.Error):
        return None
    if isinstance(error, sqlite3.OperationalError) and "decode to UTF-8" in str(error):
        return damaged(path, "invalid text")  # the error quotes what is there
    if name == "SQLITE_NOTADB":
        return OctavoError(f"{path} is not a store: {error}; move it away to start a new one")
    if name.startswith("SQLITE_CORRUPT"):
        return damaged(path, error)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return HostError(f"{doing}: another process has held {path} for too long; end it")
    if name == "SQLITE_FULL" or _is_full(path):
        return HostError(f"{doing}: the disk of {path} is full; make room")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return HostError(f"{doing}: {path} is not writable ({error}); grant access, or set OCTAVO_HOME")
    return HostError(f"{doing}: {error} ({path}); check its disk and permissions")


def _of_server(error: Any, store: ServerAddress, doing: str) -> OctavoError | None:
    """PostgreSQL's errors, by SQLSTATE; libpq's own have none."""
    import psycopg

    from octavo.postgres.user_connection import without_secrets

    if not isinstance(error, psycopg.Error):
        return None
    state = error.sqlstate or ""
    password = str(store.parameters.get("password") or "")
    message = without_secrets(str(error.diag.message_primary or error), password)
    text = one_line(message).removeprefix("connection failed: ")
    if (not state and isinstance(error, psycopg.OperationalError)) or state.startswith(_AWAY):
        return StoreAwayError(f"{doing}: {store} does not respond: {text}; check the server and OCTAVO_STORE")
    if state == "53100":
        return HostError(f"{doing}: the disk of {store} is full; make room")
    if state == "42501" and doing.endswith("cannot be read"):
        return HostError(f"{doing}: {text} ({store}); grant the role SELECT on its tables (docs/store.md)")
    if state == "25006":  # a standby, or a role or database that is set to read only
        return HostError(
            f"{doing}: {store} is not writable ({text}); name the primary, or all servers with "
            "target_session_attrs=read-write, in OCTAVO_STORE"
        )
    if state == "42501":
        return HostError(f"{doing}: {store} is not writable ({text}); use a role that may write (docs/store.md)")
    if state == "55P03":
        return HostError(f"{doing}: another session has held a table of {store} for a minute; end it")
    if state.startswith(("22", "23", "42")) or isinstance(error, psycopg.ProgrammingError):
        return None
    return HostError(f"{doing}: {text} ({store})")


def is_refused(error: Any) -> bool:
    """Whether the database rejected the data, and will reject it again: because of a value, not of the server or its
    tables.

    `error` is the driver's: SQLite's result codes, SQLSTATE classes 22 (data) and 23 (integrity), or no code at all
    where the driver itself had no way to send it (psycopg: DataError, and ProgrammingError for a type that it does not
    know).
    """
    import psycopg

    if isinstance(error, sqlite3.Error):
        name: str = getattr(error, "sqlite_errorname", None) or ""
        return name.startswith(("SQLITE_CONSTRAINT", "SQLITE_TOOBIG", "SQLITE_MISMATCH")) or (
            not name and isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError)
        )
    if isinstance(error, psycopg.Error):
        state = error.sqlstate or ""
        unsendable = isinstance(error, psycopg.DataError | psycopg.ProgrammingError)
        return state.startswith(("22", "23")) or (not state and unsendable)
    return False


def damaged(store: StoreAddress, error: object) -> OctavoError:
    """For a store whose content makes no sense."""
    if isinstance(store, ServerAddress):
        return OctavoError(f"the store {store} is damaged: {error}; restore a backup")
    return OctavoError(
        f"the store {store} is damaged: {error}; restore a backup, or recover what is left: sqlite3 {store} .recover"
    )


@contextmanager
def content_of(run: str, store: StoreAddress) -> Generator[None, None, None]:
    """Where a run is read and shown: in a team's store it may have any content, and what fails at it is OctavoError.

    In a file, which nobody else can write, it is a defect of ours and stays one.
    """
    try:
        yield
    except (OctavoError, OSError):
        raise
    except Exception as error:
        if not isinstance(store, ServerAddress):
            raise
        what = one_line(f"{type(error).__name__}: {error}")[:_LONGEST_CAUSE]
        raise OctavoError(
            f"{one_line(run)[:_LONGEST_CAUSE]} cannot be read: its content in the store is not what Octavo writes "
            f"({what}); check who may write to the store"
        ) from error


def _is_full(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.parent).free < _FULL_BELOW_BYTES
    except OSError:
        return False

"""The list of runs, read without SQLAlchemy, whose import alone takes longer than the limit for this command (0.3
s)."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from octavo.errors import OctavoError, UsageError
from octavo.host.journal import is_owned
from octavo.store.address import ServerAddress, StoreAddress
from octavo.store.claim import HELD, key_of
from octavo.store.failures import explain
from octavo.text import one_line

_QUERY = """
SELECT run.id, run.name, run.status, run.token, run.started, run.ended,
       count(trial.id) AS trials, coalesce(sum(CASE WHEN trial.status = 'ok' THEN 1 ELSE 0 END), 0) AS ok
FROM run LEFT JOIN trial ON trial.run = run.id
GROUP BY run.id
ORDER BY run.started DESC, run.id DESC
"""
_LAST_MOMENT = 250_000_000_000  # a calendar ends with the year 9999


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, and works where nothing may be written: a read-only disk, another user's home.

    SQLite reads a store in WAL mode only where it can make its -shm file, unless it is opened as immutable
    (https://www.sqlite.org/wal.html#read_only_databases). Without a log, all its contents are in the store.
    """
    alone = not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists()
    name = quote(os.fsencode(path))  # of any bytes
    return sqlite3.connect(f"file:{name}?mode=ro{'&immutable=1' if alone else ''}", uri=True, timeout=10)


def list_runs(store: StoreAddress) -> list[dict[str, Any]]:
    """The runs, newest first, each with `id`, `name`, `status`, `started`, `ended`, `trials` and `ok`.

    A run that is marked as running but whose process has ended is `interrupted`. Invalid times, as a team's store may
    have, are None. Raises OctavoError.
    """
    rows = _on_server(store) if isinstance(store, ServerAddress) else _in_file(store)
    for row in rows:
        for name in ("started", "ended"):
            row[name] = _time(row[name])
    return rows


def _time(value: Any) -> float | None:
    return value if isinstance(value, int | float) and 0 <= value < _LAST_MOMENT else None


def _in_file(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    try:
        with closing(connect_to_read(path)) as connection:
            connection.row_factory = sqlite3.Row
            # Whoever was to make its tables was killed before: the next run makes them.
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return []
            rows = [dict(row) for row in connection.execute(_QUERY)]
    except sqlite3.Error as error:
        reported = explain(error, path, f"the store {path} cannot be read")
        raise reported or OctavoError(f"the store {path} cannot be read: {error}") from error
    for row in rows:
        token = row.pop("token")
        if row["status"] == "running" and not is_owned(token):
            row["status"] = "interrupted"
    return rows


def _on_server(address: ServerAddress) -> list[dict[str, Any]]:
    import psycopg

    try:
        with address.connect(read_only=True) as connection:
            if connection.execute("SELECT to_regclass('schema_version')").fetchone() == (None,):
                return []
            found = connection.execute(_QUERY)
            names = [column.name for column in found.description or ()]
            rows = [dict(zip(names, row, strict=True)) for row in found]
            held = {key for (key,) in connection.execute(HELD)}
    except psycopg.Error as error:
        reported = explain(error, address, "the store cannot be read")
        raise reported or OctavoError(f"the store {address} cannot be read: {one_line(error)}") from error
    for row in rows:
        del row["token"]
        if row["status"] == "running" and key_of(row["id"]) not in held:
            row["status"] = "interrupted"
    return rows


def find_run(store: StoreAddress, wanted: str) -> str:
    """The id of the one run that the text begins; `last` is the newest. Raises OctavoError naming what there is."""
    ids = [row["id"] for row in list_runs(store)]
    if not ids:
        raise UsageError("no runs yet; start one with: octavo run oltp-blocks-demo")
    if wanted == "last":
        return ids[0]
    found = [wanted] if wanted in ids else [identifier for identifier in ids if identifier.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    problem = "more than one run starts with" if found else "no run"
    raise UsageError(f"{problem} {wanted!r}; the newest is {ids[0]}; octavo runs lists them")

"""Records as rows of the tables, inserted in a transaction of the caller's."""

import dataclasses
import functools
import hashlib
import json
import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, cast

from sqlalchemy import JSON, Column, Connection, CursorResult, Float, Table, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from octavo.errors import UnstorableError
from octavo.plan.cells import Cell
from octavo.store import schema
from octavo.store.engines import is_sqlite
from octavo.store.records import RunRecord, TrialRecord

_NOT_COLUMNS = ("id", "observations", "series")
# Rows that SQLite is given in one statement. Python's module waits for the interpreter's lock after each statement,
# executemany after each row: beside a busy thread that is most of the time.
_ROWS_AT_ONCE = 500
# Since SQLite 3.35; RHEL 9 has 3.34.
_HAS_RETURNING = sqlite3.sqlite_version_info >= (3, 35)
# What an INTEGER of PostgreSQL holds.
_LEAST_INTEGER, _MOST_INTEGER = -(2**31), 2**31 - 1


def put_run(connection: Connection, record: RunRecord, cells: Sequence[Cell]) -> None:
    """Inserts a run and its cells."""
    documents = {name: storable(getattr(record, name)) for name in ("plan", "metrics", "environment")}
    connection.execute(insert(schema.run).values(**{**_columns(record), **documents}))
    connection.execute(
        insert(schema.cell),
        [
            {**_columns(cell), "levels": dict(cell.levels), "run": record.id, "position": position}
            for position, cell in enumerate(cells)
        ],
    )


def put_trials(connection: Connection, run: str, records: Sequence[TrialRecord]) -> list[int]:
    """Inserts trials with all that they have, unless one of their identity is there; returns the ids of all.

    However many they are, the database is asked a few times only. Raises UnstorableError when one that is there under
    the same identity is another trial.
    """
    digests = _put_documents(connection, records)
    # Those without an identity cannot be told apart in what comes back: one by one.
    named = {record.identity: _trial_row(run, record, digests) for record in records if record.identity}
    fresh = _put_named(connection, list(named.values())) if named else {}
    known = _known(connection, run, [record for record in records if record.identity and record.identity not in fresh])
    ids: list[int] = []
    new: list[tuple[int, TrialRecord]] = []
    for record in records:
        identifier = known.get(record.identity) if record.identity else None
        if identifier is None:
            if record.identity:
                identifier = fresh[record.identity]
                known[record.identity] = identifier  # once, should it be in the list again
            else:
                result = connection.execute(insert(schema.trial).values(_trial_row(run, record, digests)))
                identifier = _inserted(result)
            new.append((identifier, record))
        ids.append(identifier)
    if any(record.observations for _, record in new):
        _put_rows(connection, schema.observation, chain.from_iterable(_observations(*one) for one in new))
    if any(record.series for _, record in new):
        _put_rows(connection, schema.series, chain.from_iterable(_series(*one) for one in new))
    return ids


def _put_named(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> dict[str | None, int]:
    """Inserts rows of trials whose identity is not there yet; returns the ids of these by their identity."""
    trial = schema.trial
    if is_sqlite(connection):
        statement = sqlite.insert(trial).on_conflict_do_nothing(index_elements=["identity"])
        if not _HAS_RETURNING:
            results = ((row["identity"], connection.execute(statement, row)) for row in rows)
            return {identity: _inserted(result) for identity, result in results if result.rowcount}
        found = connection.execute(statement.returning(trial.c.id, trial.c.identity), rows)
    else:
        # An array for each column: a parameter for each value costs the driver and the server many times as much.
        columns = [column for column in trial.columns if not column.primary_key]
        arrays = ", ".join(f"%s::{column.type.compile(connection.dialect)}[]" for column in columns)
        found = connection.exec_driver_sql(
            f"INSERT INTO trial ({', '.join(column.name for column in columns)}) SELECT * FROM unnest({arrays}) "  # noqa: S608
            "ON CONFLICT (identity) DO NOTHING RETURNING id, identity",
            tuple([_element(column, row[column.name]) for row in rows] for column in columns),
        )
    return {row.identity: row.id for row in found}


def _element(column: Column[Any], value: Any) -> Any:
    """A value in an array of the column's."""
    if isinstance(column.type, JSON):
        return json.dumps(value)
    return float(value) if isinstance(column.type, Float) else value


def _inserted(result: CursorResult[Any]) -> int:
    assert result.inserted_primary_key is not None
    return result.inserted_primary_key[0]


def _trial_row(run: str, record: TrialRecord, digests: Mapping[int, str]) -> dict[str, Any]:
    values = {name: value for name, value in _columns(record).items() if name not in _NOT_COLUMNS}
    return {
        **values,
        "run": run,
        "facts": storable(record.facts or {}),
        "settings": None if record.settings is None else digests[id(record.settings)],
        "build": None if record.build is None else digests[id(record.build)],
    }


def _observations(identifier: int, record: TrialRecord) -> list[tuple[Any, ...]]:
    return [
        (identifier, number, _name(seen.item), _whole(seen.repetition), _name(seen.metric), _number(seen.value),
         _name(seen.unit))
        for number, seen in enumerate(record.observations)
    ]  # fmt: skip


def _series(identifier: int, record: TrialRecord) -> list[tuple[Any, ...]]:
    return [
        (identifier, number, _name(kept.metric), _name(kept.item), _name(kept.unit), kept.packed_seconds,
         kept.packed_values)
        for number, kept in enumerate(record.series)
    ]  # fmt: skip


def _known(connection: Connection, run: str, records: Sequence[TrialRecord]) -> dict[str | None, int]:
    """The ids of trials that the store had before, by their identity."""
    if not records:
        return {}
    trial = schema.trial.c
    query = select(trial.id, trial.run, trial.cell, trial.started, trial.identity)
    rows = connection.execute(query.where(trial.identity.in_([record.identity for record in records])))
    found = {row.identity: row for row in rows}
    for record in records:
        row = found[record.identity]
        if (row.run, row.cell, row.started) != (run, record.cell, record.started):
            raise UnstorableError(
                f"the store has another trial under the identity {record.identity} (of {row.run}, {row.cell}); "
                "the one that arrived is not stored"
            )
    return {identity: row.id for identity, row in found.items()}


def _put_documents(connection: Connection, records: Sequence[TrialRecord]) -> dict[int, str]:
    """Stores settings and builds under their digests unless they are there; returns the digests by the objects' id().

    In the order of digests: two that store the same wait for each other, and never in a circle.
    """
    contents = {id(one): one for record in records for one in (record.settings, record.build) if one is not None}
    digests = {number: _digest(content) for number, content in contents.items()}
    wanted = {digests[number]: content for number, content in contents.items()}
    document = schema.document.c
    there: set[str] = set()
    if wanted:
        there.update(connection.scalars(select(document.digest).where(document.digest.in_(wanted))))
    for digest in sorted(wanted.keys() - there):
        statement = _upsert(connection, schema.document).values(digest=digest, content=storable(wanted[digest]))
        connection.execute(statement.on_conflict_do_nothing())
    return digests


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(dict(content), sort_keys=True).encode()).hexdigest()


def _upsert(connection: Connection, table: Table) -> "sqlite.Insert | postgresql.Insert":
    return sqlite.insert(table) if is_sqlite(connection) else postgresql.insert(table)


def _put_rows(connection: Connection, table: Table, rows: Iterator[tuple[Any, ...]]) -> None:
    """Inserts rows, values in the order of the columns, by the driver's fastest way: they are a hundred a trial.

    PostgreSQL takes some in while the next ones are made.
    """
    names = ", ".join(column.name for column in table.columns)
    if is_sqlite(connection):
        marks = f"({', '.join('?' for _ in table.columns)})"
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            insertion = f"INSERT INTO {table.name} ({names}) VALUES {', '.join([marks] * len(some))}"  # noqa: S608
            connection.exec_driver_sql(insertion, tuple(chain.from_iterable(some)))
        return
    driver: Any = connection.connection.driver_connection
    types: dict[str, list[int]] = connection.info.setdefault("octavo's column types", {})
    with driver.cursor() as cursor:
        if table.name not in types:
            described = cursor.execute(f"SELECT {names} FROM {table.name} LIMIT 0").description  # noqa: S608
            types[table.name] = [column.type_code for column in described]
        # Half of the CPU time that text takes here, where numbers are decimal and each byte is two digits.
        with cursor.copy(f"COPY {table.name} ({names}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(types[table.name])
            for row in rows:
                copy.write_row(row)


def _columns(record: Any) -> dict[str, Any]:
    return {field.name: _text(getattr(record, field.name)) for field in dataclasses.fields(record)}


def _text(value: Any) -> Any:
    """Text as both databases take it: no NUL, and nothing that UTF-8 has no bytes for."""
    if not isinstance(value, str) or (value.isascii() and "\0" not in value):
        return value
    return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


@functools.lru_cache(4096)
def _name(value: str | None) -> str | None:
    """`_text` of what many rows share."""
    return _text(value)


def _number(value: float | None) -> float | None:
    """None, which no column takes, for what is no number: SQLite would make that of it too."""
    return None if value is None or value != value else float(value)


def _whole(value: int) -> int:
    """The number itself. Raises OverflowError for one that no column takes: PostgreSQL's driver would cut it."""
    if not _LEAST_INTEGER <= value <= _MOST_INTEGER:
        raise OverflowError(f"{value} is too large")
    return value


def storable(content: Mapping[str, Any]) -> dict[str, Any]:
    """A document that both databases accept: null for infinity and NaN, which JSON does not have."""
    try:
        json.dumps(plain := dict(content), allow_nan=False)
    except ValueError:
        return cast("dict[str, Any]", _finite(content))
    return plain


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in cast("list[Any]", value)]
    return value

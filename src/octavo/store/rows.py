"""Records as rows of the tables, inserted in a transaction of the caller's."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from sqlalchemy import Connection, Table, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from octavo.errors import OctavoError
from octavo.plan.cells import Cell
from octavo.series import pack_seconds, pack_values
from octavo.store import schema
from octavo.store.engines import is_sqlite
from octavo.store.records import RunRecord, TrialRecord

_NOT_COLUMNS = ("id", "observations", "series")


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

    Raises OctavoError when one that is there under the same identity is another trial.
    """
    _put_documents(connection, [one for record in records for one in (record.settings, record.build)])
    ids: list[int] = []
    observations: list[tuple[Any, ...]] = []
    series: list[tuple[Any, ...]] = []
    for record in records:
        identifier = _put_trial(connection, run, record)
        if identifier is None:
            ids.append(_known(connection, run, record))
            continue
        ids.append(identifier)
        for number, seen in enumerate(record.observations):
            observations.append(
                (identifier, number, _text(seen.item), seen.repetition, _text(seen.metric), _number(seen.value),
                 _text(seen.unit))
            )  # fmt: skip
        for number, kept in enumerate(record.series):
            series.append(
                (identifier, number, _text(kept.metric), _text(kept.item), _text(kept.unit),
                 pack_seconds(kept.seconds), pack_values(kept.values))
            )  # fmt: skip
    _put_rows(connection, schema.observation, observations)
    _put_rows(connection, schema.series, series)
    return ids


def _put_trial(connection: Connection, run: str, record: TrialRecord) -> int | None:
    """The id of the new row, None when there is one of this identity."""
    values = {name: value for name, value in _columns(record).items() if name not in _NOT_COLUMNS}
    values |= {
        "run": run,
        "facts": storable(record.facts or {}),
        "settings": _digest(record.settings),
        "build": _digest(record.build),
    }
    statement = _upsert(connection, schema.trial).values(values).on_conflict_do_nothing(index_elements=["identity"])
    return connection.scalar(statement.returning(schema.trial.c.id))


def _known(connection: Connection, run: str, record: TrialRecord) -> int:
    trial = schema.trial.c
    query = select(trial.id, trial.run, trial.cell, trial.started).where(trial.identity == record.identity)
    row = connection.execute(query).one()
    if (row.run, row.cell, row.started) != (run, record.cell, record.started):
        raise OctavoError(
            f"the store has another trial under the identity {record.identity} (of {row.run}, {row.cell}); "
            "the one that arrived is not stored"
        )
    return row.id


def _put_documents(connection: Connection, contents: Sequence[Mapping[str, Any] | None]) -> None:
    """Stores each under its digest unless it is there, in the order of digests: two that store the same wait for each
    other, and never in a circle."""
    found = {digest: storable(content) for content in contents if content is not None and (digest := _digest(content))}
    for digest, content in sorted(found.items()):
        statement = _upsert(connection, schema.document).values(digest=digest, content=content)
        connection.execute(statement.on_conflict_do_nothing())


def _digest(content: Mapping[str, Any] | None) -> str | None:
    if content is None:
        return None
    return hashlib.sha256(json.dumps(dict(content), sort_keys=True).encode()).hexdigest()


def _upsert(connection: Connection, table: Table) -> "sqlite.Insert | postgresql.Insert":
    return sqlite.insert(table) if is_sqlite(connection) else postgresql.insert(table)


def _put_rows(connection: Connection, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
    """Inserts rows, values in the order of the columns, by the driver's fastest way: they are a hundred a trial."""
    if not rows:
        return
    names = ", ".join(column.name for column in table.columns)
    if is_sqlite(connection):
        marks = ", ".join("?" for _ in table.columns)
        connection.exec_driver_sql(f"INSERT INTO {table.name} ({names}) VALUES ({marks})", list(rows))  # noqa: S608
        return
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f"COPY {table.name} ({names}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _columns(record: Any) -> dict[str, Any]:
    return {field.name: _text(getattr(record, field.name)) for field in dataclasses.fields(record)}


def _text(value: Any) -> Any:
    """Text as both databases take it: no NUL, and nothing that UTF-8 has no bytes for."""
    if not isinstance(value, str) or (value.isascii() and "\0" not in value):
        return value
    return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _number(value: float | None) -> float | None:
    """None, which no column takes, for what is no number: SQLite would make that of it too."""
    return None if value is None or value != value else float(value)


def storable(content: Mapping[str, Any]) -> dict[str, Any]:
    """A document as both databases take it: null for what is no number (JSON has neither infinity nor NaN)."""
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

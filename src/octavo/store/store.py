"""The store on SQLAlchemy Core. SQLite in WAL mode with synchronous=FULL: what is committed survives a power cut."""

import dataclasses
import hashlib
import json
import sqlite3
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Self, cast

from sqlalchemy import (
    Connection,
    Engine,
    Executable,
    NullPool,
    Row,
    create_engine,
    event,
    func,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.exc import DBAPIError

from octavo.errors import OctavoError
from octavo.home import make_directory, make_private_file
from octavo.host.journal import is_owned
from octavo.observation import Observation
from octavo.plan.cells import Cell
from octavo.series import Series, pack_seconds, pack_values, unpack_seconds, unpack_values
from octavo.store import schema
from octavo.store.failures import damaged, explain
from octavo.store.listing import connect_to_read
from octavo.store.records import RunRecord, RunStatus, TrialRecord

_TRIALS_AT_ONCE = 100


class Store:
    """Runs and trials. One process writes a run; any number may read meanwhile."""

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine = engine
        self._path = path

    @classmethod
    def open(cls, path: Path) -> Self:
        """Opens the store, and makes or checks its tables. Raises OctavoError when it is another version's."""
        make_directory(path.parent)
        make_private_file(path)
        engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 60})

        @event.listens_for(engine, "connect")
        def configure(connection: Any, _: object) -> None:  # pyright: ignore[reportUnusedFunction]
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {pragma}")

        store = cls(engine, path)
        with store._told("the store cannot be opened"):
            store._prepare()
        return store

    @classmethod
    def open_to_read(cls, path: Path) -> Self:
        """Opens a store that is there, and changes nothing, unless it is an earlier version's and may be written."""
        store = cls(create_engine("sqlite://", creator=lambda: connect_to_read(path), poolclass=NullPool), path)
        with store._told("the store cannot be read"):
            version = store._version()
        if version == schema.SCHEMA_VERSION:
            return store
        store.close()
        return cls.open(path)

    @contextmanager
    def _told(self, doing: str) -> Generator[None, None, None]:
        """Turns what SQLite says into one line with the way out."""
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:
            told = explain(error.orig if isinstance(error, DBAPIError) else error, self._path, doing)
            if told is None:
                raise
            raise told from error
        except (ValueError, TypeError) as error:  # JSON that is none
            raise damaged(self._path, error) from error

    @contextmanager
    def _reading(self) -> Generator[Connection, None, None]:
        """One state of the store for all that is read: a trial that is committed meanwhile is not seen by half."""
        with self._told("the store cannot be read"), self._engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            yield connection

    @contextmanager
    def _writing(self, what: str) -> Generator[Connection, None, None]:
        """A transaction: committed whole at the end, else nothing of it. Raises HostError naming the way out."""
        with self._told(f"{what} could not be stored"), self._engine.begin() as connection:
            yield connection

    def _version(self) -> int | None:
        with self._engine.connect() as connection:
            ready = inspect(connection).has_table("schema_version")
            return connection.scalar(select(schema.schema_version.c.version)) if ready else None

    def _prepare(self) -> None:
        """Makes the tables, or brings them to this version. Two processes may do so at once, and either be killed."""
        version = self._version()
        if version is None or version in schema.MIGRATIONS:
            with self._engine.begin() as connection:
                connection.exec_driver_sql("BEGIN IMMEDIATE")  # SQLite commits each statement of DDL without it
                version = _migrate(connection)
        if version != schema.SCHEMA_VERSION:
            raise OctavoError(
                f"the store has schema version {version}, this Octavo knows {schema.SCHEMA_VERSION}; "
                "use the Octavo that made it, or set OCTAVO_HOME to start a new store"
            )

    def close(self) -> None:
        """Closes all connections."""
        self._engine.dispose()

    def create_run(self, record: RunRecord, cells: Sequence[Cell]) -> None:
        """Writes a new run with its cells."""
        with self._writing("the run") as connection:
            _put_run(connection, record, cells)

    def add_finished_run(self, record: RunRecord, cells: Sequence[Cell], trials: Sequence[TrialRecord]) -> None:
        """Commits a run that was measured elsewhere in one transaction: whole, or nothing of it. Trials get new ids."""
        with self._writing("the run") as connection:
            _put_run(connection, record, cells)
            for trial in trials:
                _put_trial(connection, record.id, trial)

    def set_status(self, run: str, status: RunStatus, *, token: str | None = None, ended: float | None = None) -> None:
        """Notes how a run stands; `token` names the process that works on it from now on."""
        values: dict[str, Any] = {"status": status, "ended": ended}
        if token is not None:
            values["token"] = token
        with self._writing("how the run stands") as connection:
            connection.execute(update(schema.run).where(schema.run.c.id == run).values(**values))

    def set_plan(self, run: str, plan: Mapping[str, Any]) -> None:
        """Replaces the plan, as a larger budget does."""
        with self._writing("how the run stands") as connection:
            connection.execute(update(schema.run).where(schema.run.c.id == run).values(plan=dict(plan)))

    def set_environment(self, run: str, environment: Mapping[str, Any]) -> None:
        """Notes what is known of the host and the builds once they are there."""
        with self._writing("how the run stands") as connection:
            connection.execute(update(schema.run).where(schema.run.c.id == run).values(environment=dict(environment)))

    def add_trial(self, run: str, record: TrialRecord) -> int:
        """Commits an ended trial whole, and returns its id. Raises HostError when it cannot be written."""
        with self._writing("the trial") as connection:
            return _put_trial(connection, run, record)

    def run(self, identifier: str) -> RunRecord:
        """The run. One that is marked as running but whose process is gone is `interrupted`."""
        with self._reading() as connection:
            row = connection.execute(select(schema.run).where(schema.run.c.id == identifier)).one()
        record = RunRecord(**_row(row))
        if record.status == "running" and not is_owned(record.token):
            record = dataclasses.replace(record, status="interrupted")
        return record

    def count_trials(self, run: str) -> int:
        """How many trials of the run are stored so far."""
        with self._reading() as connection:
            query = select(func.count()).select_from(schema.trial).where(schema.trial.c.run == run)
            return connection.scalar(query) or 0

    def cells(self, run: str) -> list[Cell]:
        """The run's cells in the order of the plan."""
        columns = [column for column in schema.cell.c if column.name not in ("run", "position")]
        query = select(*columns).where(schema.cell.c.run == run).order_by(schema.cell.c.position)
        with self._reading() as connection:
            return [Cell(**_row(row)) for row in connection.execute(query)]

    def trials(self, run: str, metrics: Sequence[str] | None = None) -> list[TrialRecord]:
        """The run's trials in the order in which they ran, with observations (of these metrics, or of all), without
        settings and builds."""
        seen = schema.observation.c
        # One after the other as the primary key has them: a join would be sorted again.
        query = (
            select(seen.trial, seen.metric, seen.value, seen.unit, seen.item, seen.repetition)
            .where(seen.trial.in_(select(schema.trial.c.id).where(schema.trial.c.run == run)))
            .order_by(seen.trial, seen.number)
        )
        if metrics is not None:
            query = query.where(seen.metric.in_(metrics))
        with self._reading() as connection:
            observations = {
                trial: tuple(Observation(*fields) for _, *fields in group)
                for trial, group in groupby(_plain_rows(connection, query), itemgetter(0))
            }
            columns = [column for column in schema.trial.c if column.name not in ("run", "settings", "build")]
            rows = connection.execute(select(*columns).where(schema.trial.c.run == run).order_by(schema.trial.c.id))
            return [TrialRecord(**_row(row), observations=observations.get(row.id, ())) for row in rows]

    def series(self, trials: Sequence[int], metrics: Sequence[str] | None = None) -> Iterator[tuple[int, Series]]:
        """The series of these trials (of these metrics, or of all), each with its trial's id, trial by trial.

        They are read as they are asked for, so that a long run is never held as a whole.
        """
        kept = schema.series.c
        query = select(kept.trial, kept.metric, kept.unit, kept.seconds, kept.numbers, kept.item)
        if metrics is not None:
            query = query.where(kept.metric.in_(metrics))
        for start in range(0, len(trials), _TRIALS_AT_ONCE):
            chosen = query.where(kept.trial.in_(trials[start : start + _TRIALS_AT_ONCE]))
            with self._reading() as connection:
                rows = connection.execute(chosen.order_by(kept.trial, kept.number)).all()
            for trial, metric, unit, seconds, numbers, item in rows:
                yield trial, Series(metric, unit, unpack_seconds(seconds), unpack_values(numbers), item)

    def settings_by_cell(self, run: str) -> dict[str, dict[str, str]]:
        """The server's settings in the first trial of each cell that has them."""
        first = (
            select(func.min(schema.trial.c.id))
            .where(schema.trial.c.run == run, schema.trial.c.settings.is_not(None))
            .group_by(schema.trial.c.cell)
        )
        query = (
            select(schema.trial.c.cell, schema.document.c.content)
            .join(schema.document, schema.document.c.digest == schema.trial.c.settings)
            .where(schema.trial.c.id.in_(first))
        )
        with self._reading() as connection:
            return {row.cell: row.content for row in connection.execute(query)}


def _migrate(connection: Connection) -> int:
    """From nothing, or from an earlier version step by step, to this one; returns the version reached."""
    ready = inspect(connection).has_table("schema_version")
    version = connection.scalar(select(schema.schema_version.c.version)) if ready else None
    if version is None:
        schema.metadata.create_all(connection)
        version = schema.SCHEMA_VERSION
        connection.execute(insert(schema.schema_version).values(version=version))
    while version in schema.MIGRATIONS:
        for statement in schema.MIGRATIONS[version]:
            connection.exec_driver_sql(statement)
        version += 1
        connection.execute(update(schema.schema_version).values(version=version))
    return version


def _fields(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def _packed(series: Series) -> dict[str, Any]:
    return {
        "metric": series.metric,
        "item": series.item,
        "unit": series.unit,
        "seconds": pack_seconds(series.seconds),
        "numbers": pack_values(series.values),
    }


def _row(row: Row[Any]) -> dict[str, Any]:
    return dict(cast(Mapping[str, Any], row._mapping))  # pyright: ignore[reportPrivateUsage]


def _plain_rows(connection: Connection, query: Executable) -> list[tuple[Any, ...]]:
    """The driver's own rows, for columns that need no conversion: half the time of SQLAlchemy's, of millions."""
    cursor = connection.execute(query).cursor
    assert cursor is not None
    return cast(list[tuple[Any, ...]], cursor.fetchall())


def _put_run(connection: Connection, record: RunRecord, cells: Sequence[Cell]) -> None:
    """Inserts a run and its cells."""
    connection.execute(insert(schema.run).values(**_fields(record)))
    connection.execute(
        insert(schema.cell),
        [
            {**_fields(cell), "levels": dict(cell.levels), "run": record.id, "position": position}
            for position, cell in enumerate(cells)
        ],
    )


def _put_trial(connection: Connection, run: str, record: TrialRecord) -> int:
    """Inserts a trial with all that it has; returns its id."""
    values = _fields(record)
    for derived in ("id", "observations", "series"):
        del values[derived]
    for name in ("settings", "build"):
        values[name] = _put_document(connection, values[name])
    result = connection.execute(
        insert(schema.trial).values(run=run, **{**values, "facts": dict(values["facts"] or {})})
    )
    assert result.inserted_primary_key is not None
    identifier: int = result.inserted_primary_key[0]
    if record.observations:
        connection.execute(
            insert(schema.observation),
            [
                {"trial": identifier, "number": number, **_fields(observation)}
                for number, observation in enumerate(record.observations)
            ],
        )
    if record.series:
        connection.execute(
            insert(schema.series),
            [{"trial": identifier, "number": number, **_packed(series)} for number, series in enumerate(record.series)],
        )
    return identifier


def _put_document(connection: Connection, content: Mapping[str, Any] | None) -> str | None:
    """Stores the content under its digest unless it is there; returns the digest."""
    if content is None:
        return None
    digest = hashlib.sha256(json.dumps(dict(content), sort_keys=True).encode()).hexdigest()
    connection.execute(upsert(schema.document).values(digest=digest, content=dict(content)).on_conflict_do_nothing())
    return digest

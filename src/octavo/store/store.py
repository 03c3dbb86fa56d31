"""The store on SQLAlchemy Core. SQLite in WAL mode with synchronous=FULL: what is committed survives a power cut."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

from sqlalchemy import Connection, Engine, Row, create_engine, event, func, insert, inspect, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from octavo.errors import HostError, OctavoError
from octavo.host.journal import is_owned
from octavo.observation import Observation
from octavo.plan.cells import Cell
from octavo.store import schema
from octavo.store.records import RunRecord, RunStatus, TrialRecord


class Store:
    """Runs and trials. One process writes a run; any number may read meanwhile."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @classmethod
    def open(cls, path: Path) -> Self:
        """Opens the store, and makes or checks its tables. Raises OctavoError when it is another version's."""
        path.parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 60})

        @event.listens_for(engine, "connect")
        def configure(connection: Any, _: object) -> None:  # pyright: ignore[reportUnusedFunction]
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {pragma}")

        store = cls(engine)
        try:
            store._prepare()
        except OperationalError as error:
            raise HostError(f"the store {path} cannot be opened: {error.orig}") from error
        except DBAPIError as error:
            raise OctavoError(f"{path} is no store: {error.orig}; move it away to start a new one") from error
        return store

    def _prepare(self) -> None:
        """Makes the tables, or brings them to this version. Two processes may do so at once, and either be killed."""
        with self._engine.connect() as connection:
            ready = inspect(connection).has_table("schema_version")
            version = connection.scalar(select(schema.schema_version.c.version)) if ready else None
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
        with self._engine.begin() as connection:
            connection.execute(insert(schema.run).values(**_fields(record)))
            connection.execute(
                insert(schema.cell),
                [
                    {**_fields(cell), "levels": dict(cell.levels), "run": record.id, "position": position}
                    for position, cell in enumerate(cells)
                ],
            )

    def set_status(self, run: str, status: RunStatus, *, token: str | None = None, ended: float | None = None) -> None:
        """Notes how a run stands; `token` names the process that works on it from now on."""
        values: dict[str, Any] = {"status": status, "ended": ended}
        if token is not None:
            values["token"] = token
        with self._engine.begin() as connection:
            connection.execute(update(schema.run).where(schema.run.c.id == run).values(**values))

    def set_environment(self, run: str, environment: Mapping[str, Any]) -> None:
        """Notes what is known of the host and the builds once they are there."""
        with self._engine.begin() as connection:
            connection.execute(update(schema.run).where(schema.run.c.id == run).values(environment=dict(environment)))

    def add_trial(self, run: str, record: TrialRecord) -> int:
        """Commits an ended trial whole, and returns its id. Raises HostError when it cannot be written."""
        values = _fields(record)
        for derived in ("id", "observations"):
            del values[derived]
        try:
            with self._engine.begin() as connection:
                for name in ("settings", "build"):
                    values[name] = _put_document(connection, values[name])
                result = connection.execute(
                    insert(schema.trial).values(run=run, **{**values, "facts": values["facts"] or {}})
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
        except OperationalError as error:
            raise HostError(f"the trial could not be stored: {error.orig}; make room, then resume the run") from error
        return identifier

    def run(self, identifier: str) -> RunRecord:
        """The run. One that is marked as running but whose process is gone is `interrupted`."""
        with self._engine.connect() as connection:
            row = connection.execute(select(schema.run).where(schema.run.c.id == identifier)).one()
        record = RunRecord(**_row(row))
        if record.status == "running" and not is_owned(record.token):
            record = dataclasses.replace(record, status="interrupted")
        return record

    def cells(self, run: str) -> list[Cell]:
        """The run's cells in the order of the plan."""
        columns = [column for column in schema.cell.c if column.name not in ("run", "position")]
        query = select(*columns).where(schema.cell.c.run == run).order_by(schema.cell.c.position)
        with self._engine.connect() as connection:
            return [Cell(**_row(row)) for row in connection.execute(query)]

    def trials(self, run: str) -> list[TrialRecord]:
        """The run's trials in the order in which they ran, with observations, without settings and builds."""
        observations: dict[int, list[Observation]] = {}
        with self._engine.connect() as connection:
            rows = connection.execute(
                select(schema.observation)
                .join(schema.trial, schema.trial.c.id == schema.observation.c.trial)
                .where(schema.trial.c.run == run)
                .order_by(schema.observation.c.trial, schema.observation.c.number)
            )
            for row in rows:
                observations.setdefault(row.trial, []).append(
                    Observation(row.metric, row.value, row.unit, row.item, row.repetition)
                )
            trials = connection.execute(
                select(schema.trial).where(schema.trial.c.run == run).order_by(schema.trial.c.id)
            ).all()
        records: list[TrialRecord] = []
        for row in trials:
            values = _row(row)
            for left_out in ("run", "settings", "build"):
                del values[left_out]
            records.append(TrialRecord(**values, observations=tuple(observations.get(row.id, ()))))
        return records

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
        with self._engine.connect() as connection:
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


def _row(row: Row[Any]) -> dict[str, Any]:
    return dict(cast(Mapping[str, Any], row._mapping))  # pyright: ignore[reportPrivateUsage]


def _put_document(connection: Connection, content: Mapping[str, Any] | None) -> str | None:
    """Stores the content under its digest unless it is there; returns the digest."""
    if content is None:
        return None
    digest = hashlib.sha256(json.dumps(dict(content), sort_keys=True).encode()).hexdigest()
    if connection.scalar(select(schema.document.c.digest).where(schema.document.c.digest == digest)) is None:
        try:
            with connection.begin_nested():
                connection.execute(insert(schema.document).values(digest=digest, content=dict(content)))
        except IntegrityError:
            pass  # another run stored the same meanwhile
    return digest

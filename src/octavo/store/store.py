"""The store on SQLAlchemy Core: SQLite, or PostgreSQL for a team. Each trial is committed atomically, and only once."""

import dataclasses
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from typing import Any, Self, TypeVar, cast

from sqlalchemy import Connection, Engine, Executable, Row, func, insert, inspect, select, text, update
from sqlalchemy.exc import DBAPIError, StatementError

from octavo.errors import OctavoError, StoreAwayError, UnstorableError
from octavo.host.journal import is_owned
from octavo.observation import Observation
from octavo.plan.cells import Cell
from octavo.series import Series
from octavo.store import schema
from octavo.store.address import ServerAddress, StoreAddress
from octavo.store.claim import HELD, Claim, key_of
from octavo.store.engines import (
    begin_to_make,
    begin_to_read,
    driver_error,
    driver_errors,
    engine_to_read,
    engine_to_write,
    is_sqlite,
    lacking_encoding,
)
from octavo.store.failures import damaged, explain, is_refused
from octavo.store.records import RunRecord, RunStatus, TrialRecord
from octavo.store.rows import put_run, put_trials, storable
from octavo.text import one_line

T = TypeVar("T")

_TRIALS_AT_ONCE = 100
# A server that is restarted is back by then; seconds.
PATIENCE = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0


class Store:
    """Runs and trials. One process writes a run; any number may read meanwhile, and write other runs."""

    def __init__(self, engine: Engine, address: StoreAddress) -> None:
        self._engine = engine
        self.address = address
        self._claim: Claim | None = None

    @classmethod
    def open(cls, address: StoreAddress) -> Self:
        """Opens the store, and makes or checks its tables. Raises OctavoError when it is another version's."""
        store = cls(engine_to_write(address), address)
        with store._translated_errors("the store cannot be opened"):
            store._prepare()
        return store

    @classmethod
    def open_to_read(cls, address: StoreAddress) -> Self:
        """Opens a store that is there, and changes nothing, unless it is an earlier version's and may be written."""
        store = cls(engine_to_read(address), address)
        with store._translated_errors("the store cannot be read"):
            version = store._version()
        if version == schema.SCHEMA_VERSION:
            return store
        store.close()
        return cls.open(address)

    @contextmanager
    def _translated_errors(self, doing: str) -> Generator[None, None, None]:
        """Turns what the database says into one line with the way out."""
        try:
            yield
        except (DBAPIError, *driver_errors()) as error:
            reported = explain(driver_error(error), self.address, doing)
            if reported is None:
                raise
            raise reported from error
        except (ValueError, TypeError, RecursionError) as error:  # JSON that is none, or nested without end
            raise damaged(self.address, error) from error

    @contextmanager
    def _reading(self) -> Generator[Connection, None, None]:
        with self._translated_errors("the store cannot be read"), self._engine.connect() as connection:
            yield begin_to_read(connection)

    @contextmanager
    def _writing(self, what: str) -> Generator[Connection, None, None]:
        """A transaction: committed whole at the end, else nothing of it. Raises HostError naming the way out."""
        with self._translated_errors(f"{what} could not be stored"), self._engine.begin() as connection:
            yield connection

    def _version(self) -> int | None:
        with self._engine.connect() as connection:
            return _version(connection)

    def _prepare(self) -> None:
        """Makes the tables, or brings them to this version. Two processes may do so at once, and either be killed."""
        version = self._version()
        if version is None or version in schema.MIGRATIONS:
            with self._engine.begin() as connection:
                begin_to_make(connection)
                if version is None and (encoding := lacking_encoding(connection)) is not None:
                    raise OctavoError(
                        f"the database of {self.address} has the encoding {encoding}, in which not all texts of plans "
                        "can be stored; create one with ENCODING 'UTF8' TEMPLATE template0"
                    )
                version = _migrate(connection)
        if version != schema.SCHEMA_VERSION:
            other = "name another database" if isinstance(self.address, ServerAddress) else "set OCTAVO_HOME"
            raise OctavoError(
                f"the store has schema version {version}, this Octavo supports {schema.SCHEMA_VERSION}; "
                f"use the Octavo that made it, or {other} to start a new store"
            )

    def close(self) -> None:
        """Closes all connections."""
        if self._claim is not None:
            self._claim.close()
        self._engine.dispose()

    def claim(self, run: str) -> None:
        """Claims the run for this process: readers of a team's store see that, and other coordinators are refused.

        For a store in a file, the host's lock and the run's token do that. Raises UsageError if another process works
        on it.
        """
        if isinstance(self.address, ServerAddress):
            if self._claim is not None:
                self._claim.close()
            self._claim = Claim(self.address, run)
            with self._translated_errors("the run could not be claimed"):
                self._claim.hold()

    def create_run(self, record: RunRecord, cells: Sequence[Cell]) -> None:
        """Writes a new run with its cells."""
        with self._writing("the run") as connection:
            put_run(connection, record, cells)

    def add_finished_run(self, record: RunRecord, cells: Sequence[Cell], trials: Sequence[TrialRecord]) -> None:
        """Commits a run that was measured elsewhere in one transaction: whole, or nothing of it. Trials get new ids."""
        with self._writing("the run") as connection:
            put_run(connection, record, cells)
            put_trials(connection, record.id, trials)

    def set_status(
        self, run: str, status: RunStatus, *, token: str | None = None, ended: float | None = None,
        patience: float = PATIENCE,
    ) -> None:  # fmt: skip
        """Stores the status of a run; `token` names the process that works on it from now on."""
        values: dict[str, Any] = {"status": status, "ended": ended}
        if token is not None:
            values["token"] = token
        self._update_run(run, values, patience)

    def set_plan(self, run: str, plan: Mapping[str, Any]) -> None:
        """Replaces the plan, as a larger budget does."""
        self._update_run(run, {"plan": storable(plan)})

    def set_environment(self, run: str, environment: Mapping[str, Any]) -> None:
        """Stores the facts about the host and the builds, once they exist."""
        self._update_run(run, {"environment": storable(environment)})

    def _update_run(self, run: str, values: Mapping[str, Any], patience: float = PATIENCE) -> None:
        def change() -> None:
            with self._writing("the status of the run") as connection:
                connection.execute(update(schema.run).where(schema.run.c.id == run).values(**values))

        self._patiently(change, patience)

    def add_trial(self, run: str, record: TrialRecord, patience: float = 0.0) -> int:
        """Commits an ended trial whole, and returns its id; see `add_trials`."""
        return self.add_trials(run, [record], patience)[0]

    def add_trials(self, run: str, records: Sequence[TrialRecord], patience: float = 0.0) -> list[int]:
        """Commits ended trials in one transaction, and returns their ids.

        One whose `identity` the store has is not stored again, so that a sender without a reply may send it once more.
        Raises StoreAwayError if the server does not respond for so many seconds, HostError when they cannot be written,
        UnstorableError when one of them never can be: then none is stored.
        """

        def write() -> list[int]:
            with self._writing("the trial") as connection, _refusals_named():
                return put_trials(connection, run, records)

        # Without an identity a second attempt could store it twice: the first may have been committed unheard.
        return self._patiently(write, patience if all(one.identity for one in records) else 0.0)

    def add_storable_trials(
        self, run: str, records: Sequence[TrialRecord], patience: float, refused: Callable[[TrialRecord, str], None]
    ) -> list[TrialRecord]:
        """Commits ended trials, and returns them with their ids; `refused` gets each that never can be stored, with
        the reason. One such trial among many costs a few commits more. Raises as `add_trials`."""
        if not records:
            return []
        try:
            ids = self.add_trials(run, records, patience)
        except UnstorableError as error:
            if len(records) == 1:
                refused(records[0], str(error))
                return []
            half = len(records) // 2
            return [
                one
                for some in (records[:half], records[half:])
                for one in self.add_storable_trials(run, some, patience, refused)
            ]
        return [dataclasses.replace(one, id=number) for one, number in zip(records, ids, strict=True)]

    def _patiently(self, work: Callable[[], T], patience: float) -> T:
        """Does it, again and again for so many seconds while the server is away, and claims the run anew after that."""
        deadline, pause = time.monotonic() + patience, _FIRST_PAUSE
        while True:
            try:
                done = work()
            except StoreAwayError:
                if time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                if self._claim is not None:
                    with suppress(*driver_errors()):  # what it is for is done with the next trial
                        self._claim.hold()
                return done

    def run(self, identifier: str) -> RunRecord:
        """The run. One that is marked as running but whose process is gone is `interrupted`."""
        with self._reading() as connection:
            row = connection.execute(select(schema.run).where(schema.run.c.id == identifier)).one()
            record = RunRecord(**_row(row))
            if record.status == "running" and not _is_worked_on(connection, record):
                record = dataclasses.replace(record, status="interrupted")
            return record

    def has_run(self, run: str, patience: float = 0.0) -> bool:
        """Whether the run is in this store. Raises StoreAwayError if the store does not respond for so many seconds."""

        def look() -> bool:
            with self._reading() as connection:
                return connection.scalar(select(schema.run.c.id).where(schema.run.c.id == run)) is not None

        return self._patiently(look, patience)

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
                yield trial, Series(metric, unit, seconds, numbers, item)

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


@contextmanager
def _refusals_named() -> Generator[None, None, None]:
    """Turns what can be said against a trial into UnstorableError."""
    try:
        yield
    except (StatementError, *driver_errors()) as error:
        cause = driver_error(error)
        if not is_refused(cause) and not isinstance(cause, ValueError | TypeError):
            raise
        raise UnstorableError(f"the store refuses it: {one_line(cause)}") from error
    except (ValueError, TypeError, OverflowError) as error:
        raise UnstorableError(f"the store cannot hold it: {error}") from error


def _version(connection: Connection) -> int | None:
    ready = inspect(connection).has_table("schema_version")
    return connection.scalar(select(schema.schema_version.c.version)) if ready else None


def _migrate(connection: Connection) -> int:
    """From nothing, or from an earlier version step by step, to this one; returns the version reached."""
    version = _version(connection)
    if version is None:
        schema.metadata.create_all(connection)
        version = schema.SCHEMA_VERSION
        connection.execute(insert(schema.schema_version).values(version=version))
    binary, more = ("BLOB", {}) if is_sqlite(connection) else ("BYTEA", schema.POSTGRESQL_MIGRATIONS)
    while version in schema.MIGRATIONS:
        for statement in (*schema.MIGRATIONS[version], *more.get(version, ())):
            connection.exec_driver_sql(statement.format(binary=binary))
        version += 1
        connection.execute(update(schema.schema_version).values(version=version))
    return version


def _is_worked_on(connection: Connection, record: RunRecord) -> bool:
    """Whether the process that the run names lives: on this host by its journal, in a team's store by its claim."""
    if is_sqlite(connection):
        return is_owned(record.token)
    return key_of(record.id) in {key for (key,) in connection.execute(text(HELD))}


def _row(row: Row[Any]) -> dict[str, Any]:
    return dict(cast(Mapping[str, Any], row._mapping))  # pyright: ignore[reportPrivateUsage]


def _plain_rows(connection: Connection, query: Executable) -> list[tuple[Any, ...]]:
    """The driver's own rows, for columns that need no conversion: half the time of SQLAlchemy's, of millions."""
    cursor = connection.execute(query).cursor
    assert cursor is not None
    return cast(list[tuple[Any, ...]], cursor.fetchall())

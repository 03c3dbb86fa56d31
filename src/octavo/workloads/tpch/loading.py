"""The load in five steps: COPY, primary keys, foreign keys, indexes, VACUUM ANALYZE."""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from octavo.postgres.cluster import DATABASE, Server
from octavo.workloads.base import Levels
from octavo.workloads.tpch import generator, schema
from octavo.workloads.tpch.query import Session
from octavo.workloads.tpch.usage import ONE, Processes

STEPS = ("copy", "pkey", "fkey", "indexes", "analyze")
# The published run made the indexes before the keys ("Postgres vs. page sizes", 2022); its talk lists the keys first.
ORDERS = {"keys-first": STEPS, "indexes-first": ("copy", "indexes", "pkey", "fkey", "analyze")}
_STATEMENTS: Mapping[str, Sequence[str]] = {
    "pkey": schema.PRIMARY_KEYS,
    "fkey": schema.FOREIGN_KEYS,
    "indexes": schema.INDEXES,
    "analyze": tuple(f"VACUUM (ANALYZE) {table}" for table in schema.TABLES),
}


@dataclass(frozen=True, slots=True)
class LoadStep:
    """One step: its seconds, of which COPY waited `waited` for the generator (None if not measured), the plans of
    queries within it, such as a foreign key's check, and the processes that worked at the same time."""

    name: str
    seconds: float
    waited: float | None = 0.0
    plans: tuple[Mapping[str, Any], ...] = ()
    processes: Processes = ONE


@dataclass(frozen=True, slots=True)
class StepWork:
    """The work of a step: the seconds that COPY waited for the generator, and the processes of its statements."""

    waited: float = 0.0
    processes: Processes = ONE


@dataclass(frozen=True, slots=True)
class Loading:
    """A load on its own connection, of which each step runs once."""

    session: Session
    rows: generator.Rows

    def run(self, name: str) -> StepWork:
        """Runs one step. Raises OctavoError or psycopg.Error when it fails."""
        self.session.texts.clear()
        if name == "copy":
            return StepWork(self._copy())
        processes: list[tuple[int, float]] = []
        for statement in _STATEMENTS[name]:
            self.session.workers, began = 0, time.perf_counter()
            self.session.connection.execute(statement.encode())
            processes.append((1 + self.session.workers, time.perf_counter() - began))
        return StepWork(processes=tuple(processes))

    def _copy(self) -> float:
        """Creates and fills the tables."""
        connection = self.session.connection
        for statement in schema.CREATE:
            connection.execute(statement.encode())
        return generator.copy_rows(connection, self.rows)


@contextmanager
def opened(server: Server, levels: Levels, explain: str) -> Generator[Loading, None, None]:
    """Yields a load that has not begun, with a running generator. `explain` is a level of that factor. Raises
    psycopg.Error."""
    with (
        generator.lent_program(server) as program,
        generator.stream(server, program, tuple(schema.TABLES), levels["scale"]) as rows,
        server.connect(DATABASE) as connection,
    ):
        session = Session(connection, explain)
        session.set("default_statistics_target", levels["statistics_target"])
        session.report_workers()
        session.capture_nested()
        rows.wait_for_first()
        yield Loading(session, rows)


def load(
    server: Server,
    levels: Levels,
    steps: Sequence[str],
    *,
    explain: str = "off",
    before: Callable[[], None] = lambda: None,
    after: Callable[[LoadStep], None] = lambda step: None,
) -> None:
    """Runs the steps, one after the other on one connection. `before` and `after` are called around each, outside of
    its time. `explain` is a level of that factor.

    Raises OctavoError or psycopg.Error when one fails.
    """
    with opened(server, levels, explain) as loading:
        for name in steps:
            before()
            started = time.perf_counter()
            work = loading.run(name)
            seconds = time.perf_counter() - started
            after(LoadStep(name, seconds, work.waited, tuple(loading.session.captured()), work.processes))

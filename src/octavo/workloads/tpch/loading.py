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
    """One step: its seconds, of which COPY waited `waited` for the generator (None if not measured), and the plans of
    queries within it, such as a foreign key's check."""

    name: str
    seconds: float
    waited: float | None = 0.0
    plans: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Loading:
    """A load on its own connection, of which each step runs once."""

    session: Session
    rows: generator.Rows

    def run(self, name: str) -> float:
        """Runs one step. Returns the seconds that COPY waited for the generator.

        Raises OctavoError or psycopg.Error when it fails.
        """
        self.session.texts.clear()
        if name == "copy":
            return self._copy()
        for statement in _STATEMENTS[name]:
            self.session.connection.execute(statement.encode())
        return 0.0

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
            waited = loading.run(name)
            seconds = time.perf_counter() - started
            after(LoadStep(name, seconds, waited, tuple(loading.session.captured())))

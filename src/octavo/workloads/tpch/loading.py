"""The load in five steps: COPY, primary keys, foreign keys, indexes, VACUUM ANALYZE."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.postgres.cluster import DATABASE, Server
from octavo.workloads.base import Levels
from octavo.workloads.tpch import generator, schema
from octavo.workloads.tpch.query import Session

STEPS = ("copy", "pkey", "fkey", "indexes", "analyze")
# The published run made the indexes before the keys ("Postgres vs. page sizes", 2022); its talk names the keys first.
ORDERS = {"keys-first": STEPS, "indexes-first": ("copy", "indexes", "pkey", "fkey", "analyze")}
_STATEMENTS: Mapping[str, Sequence[str]] = {
    "pkey": schema.PRIMARY_KEYS,
    "fkey": schema.FOREIGN_KEYS,
    "indexes": schema.INDEXES,
    "analyze": tuple(f"VACUUM (ANALYZE) {table}" for table in schema.TABLES),
}


@dataclass(frozen=True, slots=True)
class LoadStep:
    """One step: seconds, of which COPY spent `waited` on the generator; and the plans of queries within, such as a
    foreign key's check."""

    name: str
    seconds: float
    waited: float = 0.0
    plans: tuple[Mapping[str, Any], ...] = ()


def load(
    server: Server,
    levels: Levels,
    steps: Sequence[str],
    *,
    explain: str = "off",
    before: Callable[[str], None] = lambda name: None,
    after: Callable[[LoadStep], None] = lambda step: None,
) -> None:
    """The steps, one after the other on one connection; `before` and `after` are called around each, and are no part
    of its time. `explain` is a level of that factor.

    Raises OctavoError or psycopg.Error when one fails.
    """
    with generator.lent_program(server) as program, server.connect(DATABASE) as connection:
        session = Session(connection, explain)
        session.capture_nested()
        for name in steps:
            before(name)
            session.texts.clear()
            started, waited = time.perf_counter(), 0.0
            if name == "copy":
                waited = _copy(server, levels, session, program)
            else:
                for statement in _STATEMENTS[name]:
                    connection.execute(statement.encode())
            seconds = time.perf_counter() - started
            after(LoadStep(name, seconds, waited, tuple(session.captured())))


def _copy(server: Server, levels: Levels, session: Session, program: Path) -> float:
    """Makes and fills the tables; returns the seconds for which COPY waited for the generator."""
    for statement in schema.CREATE:
        session.connection.execute(statement.encode())
    return sum(
        generator.copy_table(server, session.connection, program, table, levels["scale"]) for table in schema.TABLES
    )

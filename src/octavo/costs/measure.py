"""Runs the queries of a calibration in rounds, each after its pages were evicted or read into shared buffers."""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import DictRow

from octavo.costs.probes import SESSION, ProbeQuery, lookups, processor, scan_of_pages
from octavo.costs.tables import TableSizes
from octavo.errors import HostError, OctavoError
from octavo.postgres.plan_shape import shape_of
from octavo.text import one_line
from octavo.workload_support.explained import explain

NO_FILES = "cold reads need the server's files on this host, and root or their owner; try --cache warm"
# A cold query is to last about so long: limits of devices hold over a tenth of a second and more.
_COLD_SECONDS = 1.5
_LONGEST_SCAN = 8.0
_FEWEST_LOOKUPS = 20
# Of a table's rows: more, and the kernel would find neighbours of what it has read, and read ahead.
_SHARE_OF_ROWS = 0.25
_WARM_REPETITIONS = 5
_MOST_HITS = 0.2
_MOST_READS = 0.02
# What is read cold: the other tables stay in shared buffers, where they are read warm.
_COLD_TABLES = "('wide', 'wide_small', 'scattered', 'scattered_place')"
_EVICT = {
    18: f"SELECT pg_buffercache_evict_relation(oid::regclass) FROM pg_class WHERE relname IN {_COLD_TABLES}",  # noqa: S608
    17: "SELECT pg_buffercache_evict(bufferid) FROM pg_buffercache b JOIN pg_class c"  # noqa: S608
    " ON b.relfilenode = pg_relation_filenode(c.oid) AND b.reldatabase = ("
    f"SELECT oid FROM pg_database WHERE datname = current_database()) WHERE relname IN {_COLD_TABLES}",
}
# Only a superuser can create it.
_HAS_BUFFERCACHE = b"SELECT extname FROM pg_extension WHERE extname = 'pg_buffercache'"


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """One run of a query: its round, seconds, and what it did by unit, pages included."""

    probe: str
    round: int
    seconds: float
    work: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class CalibrationDatabase:
    """A database with the tables of a calibration.

    `forget` drops its files from the page cache; None if that is not possible.
    """

    connection: Connection[DictRow]
    tables: TableSizes
    forget: Callable[[], None] | None


def measure(
    database: CalibrationDatabase, *, cold: bool, rounds: int, progress: Callable[[str], None]
) -> list[ProbeRun]:
    """All runs, in rounds in which each query runs once. Raises OctavoError if a plan is not the one to be measured.

    Cold: pages come from the device; the costs of rows are still measured on pages in shared buffers.
    """
    connection = database.connection
    try:
        for name, value in SESSION.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        chosen = _cold(database) if cold else []
        found: list[ProbeRun] = []
        for number in range(1, rounds + 1):
            progress(f"round {number} of {rounds}")
            found += [_run_warm(database.connection, probe, number) for probe in _warm(database)]
            for place, probe in enumerate(chosen):
                found.append(_run_cold(database, _in_round(database, probe, number, place), number))
        return found
    except psycopg.Error as error:
        raise OctavoError(f"the server refuses a query of the calibration: {one_line(error)}") from error


def _warm(database: CalibrationDatabase) -> list[ProbeQuery]:
    count = database.tables.cached
    return [scan_of_pages("wide_cached", count), lookups("scattered_cached", 1, count), *processor()]


def _cold(database: CalibrationDatabase) -> list[ProbeQuery]:
    """The scan and the lookups that last long enough here, found by smaller ones."""
    if database.forget is None:
        raise HostError(NO_FILES)
    tables = database.tables
    first = _run_cold(database, scan_of_pages("wide_small", tables.wide_small), 0)
    small = first.seconds * tables.wide / tables.wide_small > _LONGEST_SCAN
    scan = scan_of_pages("wide_small", tables.wide_small) if small else scan_of_pages("wide", tables.wide)
    few = _run_cold(database, lookups("scattered", 1, _FEWEST_LOOKUPS), 0)
    most = int(tables.wide * _SHARE_OF_ROWS)
    count = max(_FEWEST_LOOKUPS, min(most, int(_FEWEST_LOOKUPS * _COLD_SECONDS / few.seconds)))
    return [scan, lookups("scattered", 1, count)]


def _in_round(database: CalibrationDatabase, probe: ProbeQuery, number: int, place: int) -> ProbeQuery:
    """Lookups of other rows in each round."""
    if place == 0:
        return probe
    count = int(probe.work["tuple"])
    first = 1 + (number - 1) * count % max(1, database.tables.wide - count)
    return lookups("scattered", first, count)


def _run_warm(connection: Connection[DictRow], probe: ProbeQuery, number: int) -> ProbeRun:
    """The shortest of a few runs, less what a query over nothing takes; timed here, as EXPLAIN would count each row."""
    _explained(connection, probe)  # brings its pages into shared buffers
    work = _explained(connection, probe).work
    again, found = work[probe.reads], work[probe.finds]
    if again > _MOST_READS * found:
        raise OctavoError(f"{probe.name}: {again:.0f} pages were read again; shared_buffers are in use, or under 128MB")
    # The runs that are timed find them: a cost of their own would be fitted to a few pages, and take the rest's.
    work = {**probe.work, probe.finds: found + again}
    with _held(connection, probe):
        seconds = _least(connection, probe.query) - _least(connection, "SELECT count(*) FROM nothing")
    return ProbeRun(probe.name, number, max(seconds, 1e-6), work)


def _run_cold(database: CalibrationDatabase, probe: ProbeQuery, number: int) -> ProbeRun:
    """The middle one of three runs where they are short, as a disk that others use has long ones."""
    first = _cold_once(database, probe, number)
    if first.seconds > _COLD_SECONDS / 4:
        return first
    three = [first, _cold_once(database, probe, number), _cold_once(database, probe, number)]
    return sorted(three, key=lambda one: one.seconds)[1]


def _cold_once(database: CalibrationDatabase, probe: ProbeQuery, number: int) -> ProbeRun:
    assert database.forget is not None
    empty(database.connection)
    database.forget()
    measured = replace(_explained(database.connection, probe), round=number)
    hits, reads = measured.work.get(probe.finds, 0.0), measured.work.get(probe.reads, 0.0)
    # The root of an index and a few pages of a small table may be wanted twice.
    if hits > _MOST_HITS * (hits + reads) + 0.1 * probe.work["tuple"] + 8:
        raise OctavoError(
            f"{probe.name} found {hits:.0f} of {hits + reads:.0f} pages in shared buffers, so it was not cold; "
            "PostgreSQL 17 and later empty them with pg_buffercache, which a superuser can create"
        )
    return measured


def empty(connection: Connection[DictRow]) -> None:
    """Takes the tables for cold reads out of shared buffers, where the server can: 17 and later, with the extension."""
    statement = _EVICT.get(min(connection.info.server_version // 10000, 18))
    if statement and connection.execute(_HAS_BUFFERCACHE).fetchone() is not None:
        connection.execute(statement.encode())


def _least(connection: Connection[DictRow], query: str) -> float:
    least = float("inf")
    for _ in range(_WARM_REPETITIONS):
        started = time.perf_counter()
        connection.execute(query.encode()).fetchall()
        least = min(least, time.perf_counter() - started)
    return least


def _explained(connection: Connection[DictRow], probe: ProbeQuery) -> ProbeRun:
    """One run by EXPLAIN (ANALYZE, BUFFERS), with its plan checked."""
    with _held(connection, probe):
        run = explain(connection, probe.query)
    shape = shape_of(dict(run.plan)).line()
    if shape != probe.shape:
        raise OctavoError(f"{probe.name}: the plan is {shape} instead of {probe.shape}")
    fetches = _heap_fetches(run.plan)
    if fetches:
        raise OctavoError(
            f"{probe.name}: {fetches} rows were looked up in the table; another session keeps it from VACUUM"
        )
    pages = {probe.reads: float(run.read_blocks), probe.finds: float(run.hit_blocks)}
    return ProbeRun(probe.name, 0, run.execution_ms / 1000, {**probe.work, **pages})


@contextmanager
def _held(connection: Connection[DictRow], probe: ProbeQuery) -> Generator[None, None, None]:
    """A transaction in which the planner is held to the probe's plan."""
    with connection.transaction():
        for name, value in probe.settings.items():
            connection.execute("SELECT set_config(%s, %s, true)", (name, value))
        yield


def _heap_fetches(plan: Mapping[str, Any]) -> int:
    return int(plan.get("Heap Fetches", 0)) + sum(_heap_fetches(one) for one in plan.get("Plans", ()))

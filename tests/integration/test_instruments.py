"""Every instrument on real servers, at a smaller, the default and a larger data block."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.integration.conftest import needs_root
from tests.integration.servers import data_directory, running

from octavo.errors import OctavoError
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.host.process_table import child_pids, read_process
from octavo.instruments import instruments
from octavo.instruments.running import InstrumentResults, InstrumentSet, target_of
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import Server
from octavo.postgres.process_roles import OURS, POSTMASTER, role_of
from octavo.units import parse_size
from octavo.watch.connect import connect
from octavo.watch.connect import target_of as watched
from octavo.watch.snapshot import ServerMonitor
from octavo.workloads.base import WorkloadResult

_CLIENTS = 3


@pytest.fixture
def server(build: Build, journal: Journal, account: Account) -> Iterator[Server]:
    with (
        data_directory(build, journal, account) as path,
        running(
            build, path, journal, account, shared_buffers="16MB", shared_preload_libraries="pg_stat_statements",
            autovacuum="off",
        ) as server,
    ):  # fmt: skip
        server.run_client("pgbench", "--initialize", "--quiet", "--scale=2")
        server.execute("CHECKPOINT")
        yield server


def trial(server: Server, observers: InstrumentSet, seconds: int = 3) -> tuple[InstrumentResults, int]:
    """A short read-write pgbench, with the instruments."""
    with observers.start(server) as watching:
        finished = server.run_client("pgbench", "--no-vacuum", f"--client={_CLIENTS}", f"--time={seconds}")
        assert finished.returncode == 0, finished.stderr
        (line,) = (line for line in finished.stdout.splitlines() if "actually processed" in line)
        transactions = int(line.rpartition(" ")[2])
        result = WorkloadResult(
            (), seconds, transactions, seconds_asked=seconds, client_cpu_seconds=finished.cpu_seconds
        )
        return watching.finish(result), transactions


def values(seen: InstrumentResults) -> dict[tuple[str, str | None], float]:
    return {(one.metric, one.item): one.value for one in seen.observations}


def test_all_instruments_agree_with_each_other(server: Server) -> None:
    notices: list[str] = []
    seen, transactions = trial(server, InstrumentSet(instruments(), notices.append))
    assert not seen.off
    assert all("is off: " in notice and "\n" not in notice for notice in notices)
    found = values(seen)
    block = parse_size(server.build.manifest["data_block"])

    assert found["processes", "client backend"] == _CLIENTS
    assert found["processes", "checkpointer"] == found["processes", POSTMASTER] == found["processes", OURS] == 1
    assert found["process_page_table_bytes", None] > found["process_page_table_bytes", "client backend"] > 0
    assert 0 < found["process_shmem_bytes", "client backend"] <= 200 * 1024**2
    assert found["process_cpus", "client backend"] > 0
    assert 0 < found["client_cpu_share", None] < 1

    # The server's counters: they differ from pgbench's by one statistics report and our own few transactions.
    assert found["transactions_per_second", None] * 3 >= transactions * 0.5
    assert found["wal_bytes", None] > found["wal_record_bytes", None] > 0
    assert found["wal_bytes_per_transaction", None] == pytest.approx(found["wal_bytes", None] / transactions)
    assert found["wal_full_page_images", None] > 0  # the first change after a checkpoint
    assert found["wal_written_bytes", None] >= found["wal_bytes", None] * 0.9
    assert found["wal_amplification", None] == pytest.approx(
        found["wal_written_bytes", None] / found["wal_bytes", None], rel=0.01
    )
    assert found["checkpoints", None] == 0

    # Reading the WAL again: images, records and headers account for all of it, except the alignment of records.
    assert found["wal_inspected_share", None] == 1.0
    parts = found["wal_records_share", None] + found["wal_images_share", None]
    assert found["wal_images_share", None] > 0.1
    assert 0.9 < parts + found["wal_header_bytes", None] / found["wal_bytes", None] <= 1.0

    assert found["relation_growth_bytes", "pgbench_history"] % block == 0
    assert found["relation_bytes", "pgbench_accounts"] % block == 0
    updates = next(
        item for metric, item in found if metric == "statement_calls" and "UPDATE pgbench_accounts" in str(item)
    )
    assert found["statement_calls", updates] == transactions
    assert not [item for _, item in found if item and "pg_stat_statements" in item]
    if ("server_read_request_bytes", "client backend") in found:
        assert found["server_read_request_bytes", "client backend"] >= block


def test_series_stand_beside_the_observations_and_looking_is_accounted(server: Server) -> None:
    observers = InstrumentSet(instruments(), lambda text: None)
    began = time.monotonic()
    seen, _ = trial(server, observers)
    longest = time.monotonic() - began
    units = {metric.name: metric.unit for metric in observers.metrics}
    assert {one.metric for one in seen.observations} | {one.metric for one in seen.series} <= set(units)
    assert all(series.unit == units[series.metric] for series in seen.series)
    for series in seen.series:
        assert len(series.seconds) == len(series.values) >= 1
        assert list(series.seconds) == sorted(series.seconds)
    names = {series.metric for series in seen.series}
    assert {"memory_page_tables_bytes", "cpu_busy_share", "wal_bytes_per_second", "process_shmem_bytes"} <= names
    costs = {one.item: one.value for one in seen.observations if one.metric == "instrument_cpu_seconds"}
    assert all(cost >= 0 for cost in costs.values())
    assert costs["processes"] > 0
    assert costs["the server, for all of them"] > 0
    share = values(seen)["instruments_cpu_share", None]
    machine = sum(costs.values()) / (os.cpu_count() or 1)
    assert machine / longest <= share <= machine / 3


@needs_root
def test_requests_are_those_that_the_device_counts(server: Server) -> None:
    """Direct writes of one size by our own process are counted in the class of that size."""
    table = {name: instruments()[name] for name in ("device", "requests")}
    notices: list[str] = []
    with InstrumentSet(table, notices.append).start(server) as watching:
        subprocess.run(
            ["dd", "if=/dev/zero", f"of={server.directory / 'direct'}", "bs=64k", "count=200", "oflag=direct"],
            check=True, capture_output=True,
        )  # fmt: skip
        seen = watching.finish(WorkloadResult((), 1.0, 1, seconds_asked=1.0))
    if notices:
        pytest.skip(notices[0])
    found = values(seen)
    assert found["requests_of_size", "write 64kB"] >= 200
    assert found["device_writes", None] >= 200


def test_roles_are_those_of_pg_stat_activity(server: Server) -> None:
    query = b"SELECT pid, backend_type FROM pg_stat_activity"
    told = {row["pid"]: row["backend_type"] for row in server.connection.execute(query).fetchall()}
    seen = {
        pid: role_of(Path(f"/proc/{pid}/cmdline").read_text())
        for pid in child_pids(server.process.pid, Path("/proc"))
        if read_process(pid) is not None
    }
    assert {pid: role for pid, role in seen.items() if pid in told} == told


def test_children_are_found_without_the_kernels_list(server: Server, tmp_path: Path) -> None:
    """A kernel without CONFIG_PROC_CHILDREN: the whole table is read instead."""
    pid = server.process.pid
    without = tmp_path / "proc"
    without.mkdir()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            (without / entry.name).mkdir()
            for name in ("stat", "cmdline"):
                (without / entry.name / name).symlink_to(entry / name)
    assert set(child_pids(pid, without)) == set(child_pids(pid, Path("/proc")))


def test_a_server_that_dies_leaves_what_was_seen(server: Server) -> None:
    with InstrumentSet(instruments(), lambda text: None).start(server) as watching:
        server.process.send_signal(signal.SIGQUIT)
        server.process.wait()
        seen = watching.finish(WorkloadResult((), 1.0, 0, seconds_asked=1.0))
    assert {"database", "wal", "the server"} <= set(seen.off)
    assert all("\n" not in reason for reason in seen.off.values())
    assert ("cpu_busy_share", None) in values(seen)


def test_a_trial_that_breaks_off_leaves_nothing_running(server: Server) -> None:
    threads, files = threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))
    server.disconnect()
    with pytest.raises(OctavoError, match="the workload failed"), InstrumentSet(instruments(), print).start(server):
        assert threading.active_count() == threads + 1
        raise OctavoError("the workload failed")
    server.disconnect()
    assert threading.active_count() == threads
    assert len(list(Path("/proc/self/fd").iterdir())) <= files


def test_instruments_cannot_write_and_do_not_wait(server: Server) -> None:
    target, close = target_of(server)
    try:
        assert target.query("database")[0]["connections"] >= 1
        with server.connect("octavo") as other:
            other.autocommit = False
            other.execute("LOCK TABLE pg_class IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(psycopg.errors.QueryCanceled):
                target.query("relations")
    finally:
        close()


def test_an_ordinary_role_can_watch(server: Server) -> None:
    server.execute("CREATE ROLE plain LOGIN")
    host = server.client_environment()["PGHOST"]
    with connect(f"host={host} user=plain dbname=octavo") as connection:
        target, told = watched(connection)
        assert told["data_directory"] is None
        assert told["data_block"] == parse_size(server.build.manifest["data_block"])
        assert target.postmaster == server.process.pid
        monitor = ServerMonitor(target, told, gone=lambda: connection.closed)
        monitor.sample()
        seen = monitor.sample()
        monitor.close()
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("CREATE TABLE t (a int)")
    assert not {"database", "wal", "checkpointer", "processes", "memory"} & set(seen.blind)
    assert seen.value("processes", "checkpointer") == 1


@pytest.mark.parametrize("build", ["8kB"], indirect=True)
def test_statements_that_begin_alike_are_one(server: Server) -> None:
    server.execute("CREATE EXTENSION pg_stat_statements")
    columns = ", ".join(f"{number} AS column_{number}" for number in range(20))
    for last in ("'text'::text AS last", "now() AS last"):
        server.execute(f"SELECT {columns}, {last}")
    (calls,) = (row["calls"] for row in server.query("statements") if "column_0" in row["item"])
    assert calls == 2


def test_every_query_runs_on_this_version(server: Server) -> None:
    for name in (
        "database", "io", "wal_counters", "checkpointer", "relations", "has_statements", "wal_end", "cluster_name",
        "watched_server", "other_clients",
    ):  # fmt: skip
        server.query(name)

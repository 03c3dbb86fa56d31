"""Loads on real servers: one for every WAL geometry, identical copies, ageing."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.integration.loads import SMALL, copied, ensure, row, serving, settings_of, spec_of
from tests.integration.servers import MB

from octavo.errors import HostError, OctavoError
from octavo.home import make_directory
from octavo.host import children, published
from octavo.host.children import Account
from octavo.host.journal import Journal, recover
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.builds.make import ensure_builds
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.cluster import Server
from octavo.postgres.datasets import cache, control, disk_space
from octavo.postgres.datasets import load as loading
from octavo.postgres.datasets.spec import Dataset
from octavo.workloads import find, pgbench

pytestmark = pytest.mark.usefixtures("empty_cache")


@pytest.fixture(scope="module")
def other_wal_block(home: Path, builds: dict[str, Build]) -> Build:
    """A build that differs from the default one only in its WAL block."""
    with Journal() as journal:
        return ensure_builds([BuildSpec("18", "8kB", "32kB")], journal)[0]


CONTENTS = """
    SELECT count(*) AS rows, sum(aid) AS aids, pg_current_xact_id()::text AS transaction,
           pg_relation_size('pgbench_accounts') AS bytes,
           (SELECT count(*) FROM pg_ls_waldir()) AS wal_files, pg_walfile_name(pg_current_wal_lsn()) AS wal_file,
           (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint AS position,
           current_setting('wal_segment_size') AS segment, current_setting('wal_block_size') AS wal_block
    FROM pgbench_accounts
"""
TOTALS = (
    "SELECT count(*) AS rows, sum(delta) AS total, (SELECT sum(abalance) FROM pgbench_accounts) FROM pgbench_history"
)


def test_one_load_serves_every_wal_geometry(
    builds: dict[str, Build], other_wal_block: Build, journal: Journal, account: Account
) -> None:
    before = {load.name for load in cache.list_loads()}
    seen: list[dict[str, Any]] = []
    for build, segment in ((builds["8kB"], 16), (other_wal_block, 16), (builds["8kB"], 1), (other_wal_block, 64)):
        spec = spec_of(pgbench.WORKLOAD, SMALL, segment=segment)
        made = ensure(build, pgbench.WORKLOAD, SMALL, journal, account, spec)
        with copied(made, journal) as data:
            verified = children.run(
                [build.program("pg_checksums"), "--check", "--pgdata", data], journal, role="check", account=account
            )
            assert verified.returncode == 0
            assert "Bad checksums:  0" in verified.stdout
            supply = [path.stat() for path in (data / "pg_wal").iterdir() if path.is_file()]
            assert {facts.st_size for facts in supply} == {segment * MB}
            assert all(facts.st_blocks * 512 >= segment * MB for facts in supply)  # no holes: a trial only rewrites
        with serving(made, journal, account) as server:
            seen.append(row(server, CONTENTS))
            finished = server.run_client("pgbench", "--no-vacuum", "--transactions=50", "--client=2")
            assert finished.returncode == 0, finished.stderr
            assert "ERROR" not in server.log.read_text()
    assert len({load.name for load in cache.list_loads()} - before) == 1
    assert [(facts["segment"], facts["wal_block"]) for facts in seen] == [
        ("16MB", "8192"), ("16MB", "32768"), ("1MB", "8192"), ("64MB", "32768"),
    ]  # fmt: skip
    for facts in seen:
        assert facts["rows"] == 200_000
        assert facts["wal_files"] == 5  # the current one and four recycled ones
        for same in ("aids", "transaction", "bytes"):
            assert facts[same] == seen[0][same]
        assert 0 < facts["position"] - 2 * 1024**3 < 64 * 1024  # every geometry begins at the same position
    assert int(seen[0]["transaction"]) > 700  # continues from the load's transaction ID, not from initdb's


def test_a_trial_uses_the_recycled_segments_and_makes_no_new_one(
    builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    made = ensure(builds["4kB"], pgbench.WORKLOAD, SMALL, journal, account)
    with serving(made, journal, account) as server:
        files = "SELECT array_agg(name ORDER BY name) AS names FROM pg_ls_waldir()"
        # Write something, so that the switch to the next segment is not skipped.
        switch = "SELECT pg_current_xact_id(), pg_switch_wal()"
        before = row(server, files)["names"]
        for _ in range(4):
            server.execute(switch)
        assert row(server, files)["names"] == before
        server.execute(switch)
        assert len(row(server, files)["names"]) == len(before) + 1


def test_what_a_crash_leaves_in_a_graft_is_recovered(
    other_wal_block: Build, journal: Journal, account: Account
) -> None:
    made = ensure(other_wal_block, pgbench.WORKLOAD, SMALL, journal, account)
    with copied(made, journal) as data:
        log = data.with_name("copy.log")
        with cluster.start(made.build, data, {}, journal, account, log=log) as server:
            finished = server.run_client("pgbench", "--no-vacuum", "--transactions=200", "--client=1")
            assert finished.returncode == 0
            written = row(server, TOTALS)
        with cluster.start(made.build, data, {}, journal, account, log=log) as server:
            assert "redo done" in log.read_text()
            assert written["rows"] == 200
            assert written == row(server, TOTALS)


def test_a_load_is_told_apart_by_what_it_depends_on_only(
    builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    build = builds["8kB"]
    levels = {**SMALL, "scale": "1"}
    first = ensure(build, pgbench.WORKLOAD, levels, journal, account)
    again = loading.find_dataset(build, spec_of(pgbench.WORKLOAD, levels, segment=64), settings_of(build))
    assert again is not None
    assert again.name == first.name
    assert again.copy_bytes - first.copy_bytes == 5 * (64 - 16) * MB
    for other in (
        spec_of(pgbench.WORKLOAD, levels, load=2),
        spec_of(pgbench.WORKLOAD, levels, checksums=False),
        spec_of(pgbench.WORKLOAD, SMALL),
        spec_of(pgbench.WORKLOAD, {**levels, "age": "churned 10%"}),
    ):
        assert loading.find_dataset(build, other, settings_of(build)) is None
    assert loading.find_dataset(builds["4kB"], again.spec, settings_of(builds["4kB"])) is None
    assert control.Counters(**first.manifest["counters"]).next_xid > 700


def test_checksums_that_are_off_stay_off(builds: dict[str, Build], journal: Journal, account: Account) -> None:
    levels = {**SMALL, "scale": "1"}
    spec = spec_of(pgbench.WORKLOAD, levels, checksums=False)
    made = ensure(builds["8kB"], pgbench.WORKLOAD, levels, journal, account, spec)
    with serving(made, journal, account) as server:
        assert row(server, "SHOW data_checksums")["data_checksums"] == "off"


def test_churned_tables_are_larger_and_out_of_order(build: Build, journal: Journal, account: Account) -> None:
    facts: dict[tuple[str, int], dict[str, Any]] = {}
    for age, load in (("packed", 1), ("churned 100%", 1), ("churned 100%", 2)):
        levels = {**SMALL, "age": age}
        made = ensure(build, pgbench.WORKLOAD, levels, journal, account, spec_of(pgbench.WORKLOAD, levels, load=load))
        with serving(made, journal, account) as server:
            facts[age, load] = row(
                server,
                "SELECT pg_relation_size('pgbench_accounts') AS bytes, (SELECT sum(abalance) FROM pgbench_accounts) "
                "AS updates, (SELECT md5(string_agg(abalance::text, '' ORDER BY aid)) FROM pgbench_accounts) AS which, "
                "(SELECT correlation FROM pg_stats WHERE tablename = 'pgbench_accounts' AND attname = 'aid')",
            )
    packed, churned, other = facts["packed", 1], facts["churned 100%", 1], facts["churned 100%", 2]
    assert packed["updates"] == 0
    assert packed["correlation"] == pytest.approx(1.0)
    assert 0.9 < churned["updates"] / 200_000 <= 1.0  # a row that a transaction drew twice is updated once
    assert churned["bytes"] > 1.1 * packed["bytes"]
    assert churned["correlation"] < 0.9
    assert other["which"] != churned["which"]  # each load has its own random numbers


def test_a_limit_and_a_full_disk_are_told_before_anything_is_loaded(
    builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    build = builds["8kB"]

    def fill(_server: Server) -> None:
        raise AssertionError("nothing is loaded")

    for most, expected, message in (
        (None, 2**60, "free, loading .* needs about"),
        (100 * MB, 200 * MB, "the limit is"),
    ):
        disk_space.set_limit(most)
        with pytest.raises(HostError, match=message):
            loading.ensure_dataset(
                build, spec_of(pgbench.WORKLOAD, SMALL), fill, settings_of(build), journal, account,
                database_bytes=expected,
            )  # fmt: skip
    assert cache.list_loads() == []


def test_a_new_load_makes_the_least_recently_used_go_but_none_in_use(
    builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    build, levels = builds["8kB"], {**SMALL, "scale": "1"}

    def load(number: int) -> Dataset:
        return ensure(build, pgbench.WORKLOAD, levels, journal, account, spec_of(pgbench.WORKLOAD, levels, load=number))

    names = [load(number).name for number in (1, 2, 3)]
    for age, name in enumerate((names[2], names[0], names[1])):  # the third is the least recently used
        os.utime(cache.datasets_directory() / name / published.MANIFEST, (age, age))
    size = max(entry.size for entry in cache.list_loads())
    disk_space.set_limit(3 * size + size // 2)
    cache.release(names[1])  # the first and the third are still held
    fourth = load(4).name
    assert [entry.name for entry in cache.list_loads()] == sorted([names[0], names[2], fourth])
    assert fourth != names[1]


KILLED = """
import os, signal, sys
from octavo.host.children import server_account
from octavo.host.journal import Journal
from tests.integration import loads as tests
from octavo.postgres.datasets.load import ensure_dataset
from octavo.postgres.builds.cache import read_build
from octavo.workloads import pgbench

def fill(server):
    pgbench.WORKLOAD.fill(server, tests.SMALL)
    os.kill(os.getpid(), signal.SIGKILL)

build = read_build(sys.argv[1])
with Journal() as journal:
    ensure_dataset(
        build, tests.spec_of(pgbench.WORKLOAD, tests.SMALL), fill, tests.settings_of(build), journal, server_account()
    )
"""


def test_a_load_that_is_killed_leaves_nothing_that_is_served(
    builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    build = builds["8kB"]
    killed = subprocess.run([sys.executable, "-c", KILLED, build.name], cwd=Path(__file__).parents[2], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert cache.list_loads() == []
    assert loading.find_dataset(build, spec_of(pgbench.WORKLOAD, SMALL), settings_of(build)) is None
    told = recover()
    assert any("ended server" in line for line in told)
    assert [path.name for path in cache.datasets_directory().iterdir() if path.is_dir()] == []
    ensure(build, pgbench.WORKLOAD, SMALL, journal, account)
    assert len(cache.list_loads()) == 1


def test_tablespaces_are_refused(builds: dict[str, Build], journal: Journal, account: Account, home: Path) -> None:
    place = make_directory(home / "scratch" / "tablespace")
    if os.geteuid() == 0:
        os.chown(place, account.uid, account.gid)

    def fill(server: Server) -> None:
        server.execute(f"CREATE TABLESPACE elsewhere LOCATION '{place}'")

    spec = spec_of(pgbench.WORKLOAD, SMALL)
    with pytest.raises(OctavoError, match="tablespace"):
        loading.ensure_dataset(builds["8kB"], spec, fill, settings_of(builds["8kB"]), journal, account)
    assert cache.list_loads() == []
    shutil.rmtree(place)


def test_an_offered_rate_is_kept_and_its_lag_told(builds: dict[str, Build], journal: Journal, account: Account) -> None:
    levels = {**SMALL, "scale": "1", "rate": "50", "duration": "6s", "mode": "read-only", "protocol": "simple"}
    made = ensure(builds["8kB"], pgbench.WORKLOAD, levels, journal, account)
    with serving(made, journal, account) as server:
        for mode, script in (("read-only", "select only"), ("tpcb", "TPC-B")):
            result = find("pgbench").run(server, {**levels, "mode": mode}, 3)
            values = {observation.metric: observation.value for observation in result.observations}
            assert values["transactions"] == pytest.approx(300, rel=0.4)
            assert 0 <= values["schedule_lag_avg_ms"] <= values["schedule_lag_max_ms"]
            assert script in result.output
            assert "query mode: simple" in result.output

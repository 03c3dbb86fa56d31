"""Loads on real servers: one for every WAL geometry, copies that are all alike, a user's own database, age."""

import math
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.integration.servers import MB, data_directory, running

from octavo.errors import HostError, OctavoError, UsageError
from octavo.home import make_directory, octavo_home
from octavo.host import children, published
from octavo.host.children import Account
from octavo.host.journal import Journal, recover
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.builds.make import ensure_builds
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.cluster import Server
from octavo.postgres.datasets import cache, control, disk_space, graft
from octavo.postgres.datasets import load as loading
from octavo.postgres.datasets.spec import Dataset, DatasetSpec
from octavo.postgres.pinned import pinned_settings
from octavo.workloads import custom, find, pgbench
from octavo.workloads.base import Levels, Workload

pytestmark = pytest.mark.beside

RUN = {"mode": "read-write", "clients": "2", "duration": "1s", "rate": "none", "protocol": "prepared"}
SMALL = {**RUN, "scale": "2", "age": "packed"}


@pytest.fixture(autouse=True)
def empty_cache(home: Path) -> Iterator[None]:
    yield
    cache.release_all()
    shutil.rmtree(home / "datasets", ignore_errors=True)


@pytest.fixture(scope="module")
def other_wal_block(home: Path, builds: dict[str, Build]) -> Build:
    """A build that differs from the default one in its WAL block alone."""
    with Journal() as journal:
        return ensure_builds([BuildSpec("18", "8kB", "32kB")], journal)[0]


def spec_of(
    workload: Workload, levels: Levels, *, segment: int = 16, load: int = 1, checksums: bool = True
) -> DatasetSpec:
    return DatasetSpec(workload.contents(levels), segment * MB, 4 * segment * MB, checksums, load)


def settings_of(build: Build) -> dict[str, str]:
    return pinned_settings(build.manifest["version"], build.manifest["data_block"])


def ensure(
    build: Build,
    workload: Workload,
    levels: Levels,
    journal: Journal,
    account: Account,
    spec: DatasetSpec | None = None,
) -> Dataset:
    spec = spec or spec_of(workload, levels)
    return loading.ensure_dataset(
        build, spec, lambda server: workload.fill(server, levels, spec.load), settings_of(build), journal, account
    )


@contextmanager
def copied(made: Dataset, journal: Journal) -> Generator[Path, None, None]:
    target = make_directory(octavo_home() / "scratch") / "copy"
    try:
        graft.copy(made, target, journal)
        yield target
    finally:
        shutil.rmtree(target, ignore_errors=True)
        target.with_name("copy.log").unlink(missing_ok=True)


@contextmanager
def serving(made: Dataset, journal: Journal, account: Account) -> Generator[Server, None, None]:
    """A server on a copy of the dataset, with the settings that a trial has."""
    settings = {
        **settings_of(made.build),
        "min_wal_size": f"{made.spec.recycled_bytes // MB}MB",
        "max_wal_size": f"{2 * made.spec.recycled_bytes // MB}MB",
        "autovacuum": "off",
    }
    with (
        copied(made, journal) as data,
        cluster.start(made.build, data, settings, journal, account, log=data.with_name("copy.log")) as server,
    ):
        yield server


def row(server: Server, query: str) -> dict[str, Any]:
    found = server.connection.execute(query.encode()).fetchone()
    assert found is not None
    return found


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
        assert facts["wal_files"] == 5  # the one in use and four ready for reuse
        for same in ("aids", "transaction", "bytes"):
            assert facts[same] == seen[0][same]
        assert 0 < facts["position"] - 2 * 1024**3 < 64 * 1024  # every geometry begins at the same place
    assert int(seen[0]["transaction"]) > 700  # it went on from the load's, not from initdb's own


def test_a_trial_uses_the_recycled_segments_and_makes_no_new_one(
    builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    made = ensure(builds["4kB"], pgbench.WORKLOAD, SMALL, journal, account)
    with serving(made, journal, account) as server:
        files = "SELECT array_agg(name ORDER BY name) AS names FROM pg_ls_waldir()"
        # Something to write, so that the switch to the next segment is not skipped.
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
    assert other["which"] != churned["which"]  # each load its own random numbers


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
    for age, name in enumerate((names[2], names[0], names[1])):  # the third is the one not used for longest
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
from tests.integration import test_datasets as tests
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


SHOP = """
    CREATE ROLE keeper;
    CREATE SCHEMA shop AUTHORIZATION keeper;
    CREATE EXTENSION hstore;
    CREATE TABLE shop.orders (id int PRIMARY KEY, customer int NOT NULL, more hstore, note text);
    INSERT INTO shop.orders SELECT n, n % 100, hstore('n', n::text), repeat('x', 50) FROM generate_series(1, 5000) n;
    CREATE INDEX ON shop.orders (customer);
    ALTER TABLE shop.orders OWNER TO keeper;
    GRANT SELECT ON shop.orders TO keeper;
    ALTER TABLE shop.orders ENABLE ROW LEVEL SECURITY;
    CREATE POLICY mine ON shop.orders FOR SELECT TO keeper USING (customer = 1);
"""


@pytest.fixture(scope="module")
def archives(home: Path, builds: dict[str, Build], account: Account) -> Iterator[Path]:
    """The same shop in each of pg_dump's formats, dumped from a server with the default block size."""
    place = make_directory(home / "archives", 0o700)
    with (
        Journal() as journal,
        data_directory(builds["8kB"], journal, account) as path,
        running(builds["8kB"], path, journal, account) as server,
    ):
        server.execute(SHOP)
        for form in ("custom", "directory", "plain", "tar"):
            target = server.socket_directory / form
            finished = server.run_client("pg_dump", f"--format={form}", f"--file={target}")
            assert finished.returncode == 0, finished.stderr
            shutil.move(target, place / form)
    (place / "look.sql").write_text("\\set c random(0, 99)\nSELECT count(*) FROM shop.orders WHERE customer = :c;\n")
    (place / "change.sql").write_text(
        "\\set n random(1, 5000)\nUPDATE shop.orders SET note = note || 'y' WHERE id = :n;\n"
    )
    yield place
    shutil.rmtree(place)


def shop(archives: Path, form: str = "custom", **changes: str) -> dict[str, str]:
    script = f"{archives}/look.sql@3 + {archives}/change.sql"
    return {**RUN, "archive": str(archives / form), "script": script, "age": "packed", **changes}


@pytest.mark.parametrize("form", ["custom", "directory", "plain", "tar"])
def test_a_users_own_database_and_scripts_run_at_another_block_size(
    form: str, archives: Path, builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    levels = shop(archives, form, duration="3s")
    made = ensure(builds["32kB"], custom.WORKLOAD, levels, journal, account)
    with serving(made, journal, account) as server:
        good = "SELECT count(*) FILTER (WHERE more->'n' = id::text AND length(note) = 50) AS n FROM shop.orders"
        assert row(server, good)["n"] == 5000
        custom.WORKLOAD.warm(server, levels, 7)
        result = custom.WORKLOAD.run(server, levels, 7)
        assert result.problems == ()
        values = {observation.metric: observation.value for observation in result.observations}
        assert values["tps"] > 0
        assert 0 < values["latency_p50_ms"] <= values["latency_p95_ms"] <= values["latency_p99_ms"]
        assert 0 < values["latency_samples"] < values["transactions"] / 5
        shares = [int(share) for share in re.findall(r"- (\d+) transactions", result.output)]
        deviation = math.sqrt(0.75 * 0.25 / sum(shares))  # of the share, when each transaction is drawn
        assert shares[0] / sum(shares) == pytest.approx(0.75, abs=5 * deviation)
        assert [path.name for path in server.socket_directory.iterdir() if not path.name.startswith(".s.")] == []


def test_scripts_churn_a_users_database(
    archives: Path, builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    levels = shop(archives, script=f"{archives}/change.sql", age="churned 2000 transactions")
    made = ensure(builds["8kB"], custom.WORKLOAD, levels, journal, account)
    with serving(made, journal, account) as server:
        assert row(server, "SELECT sum(length(note) - 50) AS changes FROM shop.orders")["changes"] == 2000


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("database version 18", "database version 99", "is from PostgreSQL 99, newer"),
        ("hstore", "nonesuch", "needs the extension nonesuch, which .* lacks"),
        ("\nCREATE TABLE", "\nALTER TABLE shop.nothing ADD x int;\nCREATE TABLE", '"shop.nothing" does not exist'),
    ],
)
def test_an_archive_that_cannot_be_restored_is_named(
    before: str,
    after: str,
    message: str,
    archives: Path,
    builds: dict[str, Build],
    journal: Journal,
    account: Account,
) -> None:
    (archives / "spoilt").write_text((archives / "plain").read_text().replace(before, after))
    with pytest.raises(OctavoError, match=message) as raised:
        ensure(builds["4kB"], custom.WORKLOAD, shop(archives, "spoilt"), journal, account)
    assert "\n" not in str(raised.value)
    assert cache.list_loads() == []


def test_a_damaged_archive_and_a_wrong_script_are_named(
    archives: Path, builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    whole = (archives / "custom").read_bytes()
    (archives / "damaged").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(OctavoError, match="restoring damaged failed"):
        ensure(builds["8kB"], custom.WORKLOAD, shop(archives, "damaged"), journal, account)
    (archives / "empty").write_text("-- nothing\n")
    with pytest.raises(UsageError, match="created no table"):
        ensure(builds["8kB"], custom.WORKLOAD, shop(archives, "empty"), journal, account)
    (archives / "wrong.sql").write_text("SELECT nonesuch;\n")
    levels = shop(archives, script=f"{archives}/wrong.sql")
    made = ensure(builds["8kB"], custom.WORKLOAD, levels, journal, account)
    with serving(made, journal, account) as server, pytest.raises(OctavoError, match="nonesuch"):
        custom.WORKLOAD.run(server, levels, 1)


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

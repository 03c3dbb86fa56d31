"""The doctor on real servers: planted faults are found and none is invented; a Bus error that it predicts."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ROOT, Octavo
from tests.integration.conftest import needs_root
from tests.integration.hugetlb import hugetlb_group, offers_hugetlb, within
from tests.integration.servers import data_directory, running

from octavo.doctor import examine
from octavo.doctor.collect import gather
from octavo.doctor.collect.server import LIMITS
from octavo.doctor.facts import Facts
from octavo.host import children
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.hugepages import apply as pool
from octavo.hugepages.pool import default_page, pool_file
from octavo.knobs.huge_pages import sizes
from octavo.postgres.builds.cache import Build, find_build
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.cluster import Server
from octavo.postgres.user_connection import connect

SMALL = {"shared_buffers": "16MB", "max_connections": "20", "wal_buffers": "1MB", "effective_cache_size": "8GB"}
FAULTS = {
    "random-page-cost": {"random_page_cost": "0.5"},
    "full-page-writes": {"full_page_writes": "off"},
    "io-combine-limit": {"io_combine_limit": "16kB"},
    "io-method": {"io_method": "sync"},
    "effective-cache-size": {"effective_cache_size": "2MB"},
    "work-mem": {"work_mem": "1TB"},
    "shared-memory-type": {"shared_memory_type": "sysv"},
    "shared-buffers": {"shared_buffers": "4MB"},
}
# Settings of later versions: the release that introduced each.
SINCE = {"io-combine-limit": 17, "io-method": 18}
pytestmark = pytest.mark.alone  # another server's huge_pages = try would take the pages of these tests

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
PAUSE = Path("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs")
DEBIAN = Path("/usr/lib/postgresql/15/bin")


def build_of(version: str, builds: dict[str, Build], machine: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """18 as made for the tests; Debian's own 15; 17 if it was built on this machine, which takes minutes."""
    if version == "18":
        return builds["8kB"]
    if version == "15":
        if not DEBIAN.is_dir():
            pytest.skip("Debian's PostgreSQL 15 is not installed")
        return Build("debian", DEBIAN.parent, {"version": "15"})
    with monkeypatch.context() as context:
        context.setenv("OCTAVO_HOME", str(machine))
        found = find_build(BuildSpec(version, "8kB", "8kB"))
    if found is None:
        pytest.skip(f"octavo build --pg {version} was not run here")
    return found


def dsn_of(server: Server, user: str = "octavo") -> str:
    return f"host={server.socket_directory} user={user} dbname=octavo"


def report_of(dsn: str) -> dict[str, Any]:
    (patient,), refused = examine.patients(dsn)
    assert not refused
    try:
        return patient.look(0.0)
    finally:
        patient.close()


def findings(part: dict[str, Any]) -> set[str]:
    return {one["rule"] for one in part["results"] if one["status"] == "finding"}


def statuses(part: dict[str, Any]) -> dict[str, str]:
    return {one["rule"]: one["status"] for one in part["results"]}


def seen_by_nobody(server: Server, user: str) -> dict[str, Any]:
    """The report that an unprivileged user gets; only root can run this."""
    nobody = pwd.getpwnam("nobody")
    server.socket_directory.chmod(0o755)
    # nobody may not be able to read the interpreter: a first run loads everything.
    code = (
        "import json, os\n"
        "from octavo.doctor import examine\n"
        f"(patient,), _ = examine.patients({dsn_of(server, user)!r})\n"
        "patient.look(0.1), patient.close()\n"
        f"os.setgroups([]); os.setresgid({nobody.pw_gid}, {nobody.pw_gid}, {nobody.pw_gid})\n"
        f"os.setresuid({nobody.pw_uid}, {nobody.pw_uid}, {nobody.pw_uid})\n"
        f"(patient,), _ = examine.patients({dsn_of(server, user)!r})\n"
        "print(json.dumps(patient.look(0.2)))\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd="/")
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


@contextmanager
def planted_in_the_host() -> Generator[set[str], None, None]:
    """As root: transparent huge pages for all, khugepaged without a pause, and a pool that is too small."""
    if os.geteuid() != 0 or not sizes() or not THP.exists():
        yield set()
        return
    mode, file = THP.read_text().partition("[")[2].partition("]")[0], pool_file(default_page())
    before, pause = file.read_text(), PAUSE.read_text()
    try:
        THP.write_text("always")
        PAUSE.write_text("0")
        file.write_text(str(int(before) + 2))
        yield {"transparent-huge-pages", "khugepaged", "huge-pages"}
    finally:
        file.write_text(before)
        PAUSE.write_text(pause)
        THP.write_text(mode)


@pytest.mark.parametrize("version", ["15", "17", "18"])
def test_planted_faults_are_found_and_none_invented(
    version: str, builds: dict[str, Build], machine: Path, journal: Journal, account: Account,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """At least ten faults as root, at least seven otherwise; the same server without them shows what this host has of
    its own."""
    build = build_of(version, builds, machine, monkeypatch)
    faults = {name: settings for name, settings in FAULTS.items() if SINCE.get(name, 0) <= int(version)}
    with data_directory(build, journal, account) as path:
        with running(build, path, journal, account, **SMALL) as server:
            clean = report_of(dsn_of(server))
            there = examine.on(path)
            assert there is not None
            assert statuses(there.look(0.0)) == statuses(clean)
            there.close()
            server.shut_down()
        assert examine.on(path) is None
        stopped = examine.of_stopped(path, build.prefix / "bin")
        assert statuses(stopped)["work-mem"] == statuses(stopped)["checksums"] == "ok"
        assert not findings(clean) & {*faults, "checksums"}
        done = children.run([build.program("pg_checksums"), "--disable", "-D", path], journal, role="pg_checksums",
                            account=account)  # fmt: skip
        assert done.returncode == 0, done.stderr
        faulty = SMALL | {name: value for settings in faults.values() for name, value in settings.items()}
        with planted_in_the_host() as more, running(build, path, journal, account, **faulty) as server:
            found = report_of(dsn_of(server))
            # How much the device writes atomically can only be determined by a user who may enter the data directory.
            if os.geteuid() == 0:
                seen = findings(seen_by_nobody(server, "octavo"))
                assert {*faults, "checksums"} - {"full-page-writes"} | more <= seen <= findings(found)
        assert findings(found) == findings(clean) | {*faults, "checksums"} | more
        assert len({*faults, "checksums"} | more) >= (10 if more else 7)
        named = {one["rule"]: one for one in found["results"]}
        assert named["full-page-writes"]["severity"] == "error"
        assert "8 kB" in named["full-page-writes"]["text"]
        if more:
            assert "fell back" in named["huge-pages"]["text"]


@pytest.fixture(scope="module")
def server(builds: dict[str, Build], home: Path, account: Account) -> Iterator[Server]:
    """A server with a user who has pg_monitor, and one without privileges."""
    build = builds["8kB"]
    with (
        Journal() as journal,
        data_directory(build, journal, account, "doctor") as path,
        running(build, path, journal, account, **SMALL) as started,
    ):
        with started.connect("octavo") as connection:
            connection.execute("CREATE ROLE watcher LOGIN IN ROLE pg_monitor")
            connection.execute("CREATE ROLE stranger LOGIN")
        yield started


def test_pg_monitor_is_enough(server: Server) -> None:
    told = statuses(report_of(dsn_of(server, "watcher")))
    assert told == statuses(report_of(dsn_of(server)))


def test_a_user_without_rights_is_told_what_needs_more(server: Server) -> None:
    part = report_of(dsn_of(server, "stranger"))
    facts = part["facts"]
    assert "pg_monitor" in facts["server.idle_connections"]["unknown"]
    assert statuses(part)["huge-pages"] != "unknown"


def test_what_it_asks_changes_nothing_and_is_limited(server: Server) -> None:
    connection = connect(dsn_of(server), examine.APPLICATION, LIMITS)
    try:
        facts = gather.of_server(connection, 0.0)
        row = connection.execute(
            "SELECT application_name AS name, current_setting('statement_timeout') AS statement,"
            " current_setting('lock_timeout') AS lock, current_setting('transaction_read_only') AS read_only"
            " FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        ).fetchone()
        assert row == {"name": "octavo doctor", "statement": "1s", "lock": "100ms", "read_only": "on"}
    finally:
        connection.close()
    assert facts["setting.block_size"].value == 8192
    assert facts["host.process.count"].value >= 5
    assert [one["name"] for one in facts["server.tablespaces"].value] == ["pg_default", "pg_global"]
    assert facts["host.volumes"].value[0]["holds"] == ["data directory"]
    assert facts["server.managed"].value is None


def test_every_fact_that_a_rule_asks_for_is_looked_for(server: Server) -> None:
    """A misspelt name would always be unknown."""
    import re

    from octavo.doctor import amounts, rules, stack

    connection = connect(dsn_of(server), examine.APPLICATION, LIMITS)
    try:
        facts: Facts = gather.of_server(connection, 0.1)
    finally:
        connection.close()
    package = Path(str(rules.__file__)).parent
    asked: set[str] = set()
    for file in (*package.glob("*.py"), Path(str(amounts.__file__)), Path(str(stack.__file__))):
        asked |= set(re.findall(r'"((?:host|server|setting|live)\.[a-z_.]+[a-z])"', file.read_text()))
    assert len(asked) > 60
    settings = (Path(str(examine.__file__)).parents[1] / "postgres/sql/doctor_settings.sql").read_text()
    assert [name for name in asked if name.startswith("setting.") and f"'{name[8:]}'" not in settings] == []
    missing = [name for name in asked if not name.startswith("setting.") and facts[name].unknown]
    # Other facts may be unknown on this machine, for example the counters of a container's disk.
    assert [name for name in missing if facts[name].unknown == "not examined"] == []


@needs_root
def test_an_unprivileged_user_gets_his_answers(server: Server) -> None:
    """As nobody: the host's memory and the server's settings are known; what only the server's user can read is
    unknown."""
    part = seen_by_nobody(server, "watcher")
    told = statuses(part)
    assert told["work-mem"] == "ok" and told["block-sizes"] == "ok"
    assert part["facts"]["host.process.page_tables_bytes"]["value"] > 0
    assert findings(part) <= findings(report_of(dsn_of(server)))


def test_the_command_finds_the_servers_of_this_host(octavo: Octavo, server: Server) -> None:
    """Its socket is in its own network namespace, like a container's."""
    found = octavo("doctor", "--interval", "0s", "--format", "json")
    assert found.returncode in (0, 1), found.stderr
    document = json.loads(found.stdout)
    assert document["schema_version"] == 1
    (part,) = [one for one in document["servers"] if str(server.socket_directory) in one["server"]]
    assert part["problem"] is None and statuses(part)["block-sizes"] == "ok"
    assert octavo("doctor", "--dsn", "host=/nowhere").returncode == 3


def test_what_is_held_twice_is_measured(server: Server) -> None:
    """Written pages are in the page cache and in shared_buffers; without the extension the share is estimated."""
    rule = {one["rule"]: one["text"] for one in report_of(dsn_of(server))["results"]}["double-buffering"]
    assert "an estimate" in rule and "CREATE EXTENSION pg_buffercache" in rule
    with server.connect("octavo") as connection:
        connection.execute("CREATE EXTENSION pg_buffercache")
        connection.execute("CREATE TABLE held AS SELECT n FROM generate_series(1, 100000) AS n")
        connection.execute("CHECKPOINT")
    try:
        part = report_of(dsn_of(server, "watcher"))
        share = part["facts"]["server.buffers.in_page_cache_share"]
        if "unknown" in share:
            pytest.skip(share["unknown"])  # cachestat(2) came with Linux 6.5
        assert share["value"] > 0.5
        assert part["facts"]["server.buffers.used_bytes"]["value"] <= 16 * 1024**2
        (result,) = [one for one in part["results"] if one["rule"] == "double-buffering"]
        assert result["status"] == "ok" and "also in the page cache" in result["text"]
    finally:
        with server.connect("octavo") as connection:
            connection.execute("DROP TABLE held")
            connection.execute("DROP EXTENSION pg_buffercache")


def test_it_goes_on_looking_and_says_what_changes(server: Server) -> None:
    arguments = [ROOT / "octavo", "doctor", "--dsn", dsn_of(server), "--watch", "1s"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd="/") as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            assert any("--verbose lists them" in line for line in lines)
            with server.connect("octavo") as connection:
                connection.execute("ALTER SYSTEM SET random_page_cost = 0.5")
                connection.execute("SELECT pg_reload_conf()")
            assert any("worse: random-page-cost" in line for line in lines)
            with server.connect("octavo") as connection:
                # Below three times seq_page_cost, whatever the device: 4 is judged by the device, if that is known.
                connection.execute("ALTER SYSTEM SET random_page_cost = 1.1")
                connection.execute("SELECT pg_reload_conf()")
            assert any("better: random-page-cost" in line for line in lines)
            process.send_signal(signal.SIGINT)
            assert process.wait() == 0
        finally:
            process.kill()
            with server.connect("octavo") as connection:
                connection.execute("ALTER SYSTEM RESET random_page_cost")
                connection.execute("SELECT pg_reload_conf()")


@pytest.mark.skipif(not DEBIAN.is_dir(), reason="Debian's PostgreSQL 15 is not installed")
def test_debians_postgresql(home: Path, journal: Journal, account: Account) -> None:
    """15 has no pg_stat_io, huge_pages_status or io_method: those rules do not apply, and no rule is unknown because of
    them."""
    build = Build("debian", DEBIAN.parent, {"version": "15"})
    with (
        data_directory(build, journal, account) as path,
        running(build, path, journal, account, **SMALL, random_page_cost="0.5") as server,
    ):
        part = report_of(dsn_of(server))
    told = statuses(part)
    assert "random-page-cost" in findings(part)
    assert {told[name] for name in ("io-method", "io-combine-limit", "hint-bits", "scan-requests")} == {
        "not applicable"
    }
    assert told["huge-pages"] == "ok" and told["work-mem"] == "ok"


def shared_buffers(data: Path) -> str:
    """The value that initdb has written."""
    text = (data / "postgresql.conf").read_text()
    return [line for line in text.splitlines() if line.startswith("shared_buffers")][-1].split()[2]


@needs_root
@pytest.mark.skipif(not offers_hugetlb(), reason="no hugetlb controller of version 2 here")
@pytest.mark.parametrize("version", ["15", "17", "18"])
def test_a_bus_error_is_said_before_and_its_advice_cures_it(
    version: str, builds: dict[str, Build], machine: Path, account: Account, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """initdb in a group that may have no huge pages, while the host has some: as in a container or pod."""
    initdb = build_of(version, builds, machine, monkeypatch).program("initdb")
    place = Path(os.environ["OCTAVO_HOME"]) / "bus"
    place.mkdir()
    os.chown(place, account.uid, account.gid)

    def diagnosis(group: Path) -> dict[str, Any]:
        said = within(group, 0, 0, sys.executable, "-m", "octavo", "doctor", "--before-start", "--format", "json")
        assert said.returncode in (0, 1), said.stderr
        (part,) = json.loads(said.stdout)["servers"]
        return {one["rule"]: one for one in part["results"]}["huge-pages-group"] | {"exit": said.returncode}

    try:
        with hugetlb_group(0) as group:
            assert diagnosis(group)["status"] == "ok"  # nothing is free: mmap fails, initdb falls back
            pool.apply(pages, 128 * 1024**2 // pages + 16, 0)
            said = diagnosis(group)
            assert (said["severity"], said["exit"]) == ("error", 1)
            died = within(group, account.uid, account.gid, initdb, "-D", place / "dies", "--no-sync")
            assert died.returncode != 0
            assert "Bus error" in died.stderr or died.returncode == -signal.SIGBUS, died.stderr
            more: list[str | Path] = list(next(line for line in said["fix"] if line.startswith("initdb")).split()[1:3])
            if version == "15":  # it has no -c: the line goes into its sample file
                share = place / "share"
                shutil.copytree("/usr/share/postgresql/15", share)
                line = next(line for line in said["fix"] if line.startswith("printf"))
                sample = "$(pg_config --sharedir)/postgresql.conf.sample"
                line = line.replace(sample, str(share / "postgresql.conf.sample"))
                subprocess.run(["sh", "-c", line], check=True)
                more = ["-L", share]
            lives = within(group, account.uid, account.gid, initdb, "-D", place / "lives", "--no-sync", *more)
            assert lives.returncode == 0, lives.stderr
            assert shared_buffers(place / "lives") == "128MB"
    finally:
        shutil.rmtree(place)

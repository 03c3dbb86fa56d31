import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from tests.integration.conftest import needs_root
from tests.integration.servers import MB, data_directory, running

from octavo.errors import HostError, OctavoError
from octavo.home import make_directory
from octavo.host import cgroup, children, page_cache, process, trees
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres import cluster, shared_memory_left
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import check_reachable, initialise
from octavo.postgres.pinned import pinned_settings
from octavo.units import parse_size


def test_a_server_has_the_block_size_it_was_built_with(build: Build, journal: Journal, account: Account) -> None:
    block = parse_size(build.manifest["data_block"])
    pinned = pinned_settings(build.manifest["version"], build.manifest["data_block"])
    with (
        data_directory(build, journal, account) as path,
        running(build, path, journal, account, shared_buffers="16MB", **pinned) as server,
    ):
        settings = server.settings()
        assert settings["block_size"] == str(block)
        assert settings["wal_block_size"] == str(parse_size(build.manifest["wal_block"]))
        assert settings["shared_buffers"] == "16MB"
        assert settings["effective_cache_size"] == "4GB"
        assert settings["listen_addresses"] == ""
        assert settings["debug_assertions"] == "off"
        assert settings["data_checksums"] == "on"
        assert len(settings) > 300
        assert server.socket_directory.stat().st_mode & 0o777 == 0o700
        if os.geteuid() == 0:
            status = Path(f"/proc/{server.process.pid}/status").read_text()
            assert f"Uid:\t{account.uid}\t{account.uid}" in status
    assert not server.socket_directory.exists()
    assert not server.is_alive()


@pytest.mark.parametrize("build", ["8kB"], indirect=True)
def test_a_server_that_does_not_start_says_why(build: Build, journal: Journal, account: Account) -> None:
    with data_directory(build, journal, account) as path, pytest.raises(OctavoError, match="shared_buffer"):
        cluster.start(build, path, {"shared_buffers": "1"}, journal, account, log=path.with_name("server.log"))


def test_a_data_directory_of_another_block_size_is_refused(build: Build, journal: Journal, account: Account) -> None:
    from octavo.postgres.builds.make import ensure_build
    from octavo.postgres.builds.spec import BuildSpec

    other = "8kB" if build.manifest["data_block"] == "4kB" else "4kB"
    wrong = ensure_build(BuildSpec("18", other, "8kB"), journal)
    with data_directory(build, journal, account) as path, pytest.raises(OctavoError, match="FATAL"):
        cluster.start(wrong, path, {}, journal, account, log=path.with_name("server.log"))


@pytest.mark.parametrize("build", ["8kB"], indirect=True)
def test_a_server_that_dies_is_noticed(build: Build, journal: Journal, account: Account) -> None:
    with data_directory(build, journal, account) as path, running(build, path, journal, account) as server:
        identity = process.identify(server.process.pid)
        assert identity is not None
        process.end(identity, signal.SIGQUIT)
        assert server.process.wait(300) != 0 or not server.is_alive()
        with pytest.raises((OctavoError, psycopg.Error)):
            server.query("started")


@pytest.mark.parametrize("build", ["8kB"], indirect=True)
def test_warming_reads_documents_in_any_schema(build: Build, journal: Journal, account: Account) -> None:
    with data_directory(build, journal, account) as path, running(build, path, journal, account) as server:
        server.execute("CREATE EXTENSION pg_prewarm")
        server.execute("CREATE SCHEMA shop")
        server.execute("CREATE TABLE shop.documents (body text)")
        server.execute("ALTER TABLE shop.documents ALTER body SET STORAGE EXTERNAL")
        server.execute("INSERT INTO shop.documents SELECT repeat('x', 100000) FROM generate_series(1, 10)")
        (read,) = server.query("prewarm")
    assert read["blocks"] * 8192 > 10 * 100_000


def _cached_bytes(directory: Path) -> int:
    try:
        return page_cache.cached_bytes(directory)
    except OSError as error:
        pytest.skip(str(error))


@needs_root
@pytest.mark.skipif(cgroup.memory_controller() is None, reason="no memory controller")
@pytest.mark.parametrize("build", ["8kB"], indirect=True)
def test_a_server_is_born_inside_its_memory_limit(build: Build, journal: Journal, account: Account) -> None:
    controller = cgroup.memory_controller()
    assert controller is not None
    group = controller / f"octavo-test-{os.getpid()}"
    cgroup.create(group, 256 * 1024**2)
    modules = build.prefix / "lib"
    try:
        with data_directory(build, journal, account) as path:
            log = path.with_name("server.log")
            page_cache.forget(modules)
            with cluster.start(build, path, {}, journal, account, log=log, memory_group=group) as server:
                members = {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
                assert server.process.pid in members
                assert len(members) > 3  # including its children
                assert cgroup.achieved_limit(group) == 256 * 1024**2
                assert f"Uid:\t{account.uid}" in Path(f"/proc/{server.process.pid}/status").read_text()
                # Except its programs, which are read before.
                assert _cached_bytes(modules) >= sum(path.stat().st_size for path in modules.glob("*.so"))
    finally:
        cgroup.remove(group)
    assert not group.exists()


@needs_root
def test_a_directory_that_the_servers_user_cannot_enter_is_named(tmp_path: Path, account: Account) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(HostError, match="cannot enter"):
        check_reachable(closed / "data", account)


def segments(owner: int) -> dict[int, int]:
    """The user's System V segments: id and creator's pid (proc_sysvipc(5))."""
    rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    return {int(row[1]): int(row[4]) for row in rows if int(row[7]) == owner}


def test_a_bootstrap_server_that_was_killed_leaves_no_shared_memory(
    builds: dict[str, Build], home: Path, account: Account
) -> None:
    """It releases nothing at any signal: the journal removes its segments when it ends."""
    place = make_directory(home / "scratch") / "bootstrap"
    before, its = set(segments(account.uid)), dict[int, set[str]]()

    def kill_it() -> None:
        while not its and not stop.is_set():
            for number, pid in segments(account.uid).items():
                with suppress(OSError):
                    if number not in before and b"--boot" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                        maps = Path(f"/proc/{pid}/maps").read_text().split()
                        mapped = {Path(one) for one in maps if one.startswith("/dev/shm/PostgreSQL.")}  # noqa: S108
                        # Before its first bytes are written it is unknown whose control segment this is.
                        if names := {one.name for one in mapped if any(one.read_bytes()[:4])}:
                            os.kill(pid, signal.SIGKILL)
                            its[number] = names

    stop = threading.Event()
    killer = threading.Thread(target=kill_it)
    killer.start()
    failed = False
    try:
        for attempt in range(10):  # on a busy machine the bootstrap server may end before the thread sees it
            with Journal() as journal:
                try:
                    initialise(
                        builds["8kB"], place / f"data{attempt}", journal, account, wal_segment=16 * MB, checksums=True
                    )
                except OctavoError as error:
                    failed = "initdb failed" in str(error)
            if its:
                break
    finally:
        stop.set()
        killer.join()
        trees.remove(place)
    assert its and failed
    assert not its.keys() & segments(account.uid).keys()
    names = {name for found in its.values() for name in found}
    assert not names & {one.name for one in Path("/dev/shm").iterdir()}  # noqa: S108


def test_a_replayed_journal_removes_what_servers_left_since_it_began(journal: Journal, account: Account) -> None:
    before = set(segments(account.uid))
    made = children.run(["ipcmk", "--shmem", "56", "--mode", "600"], journal, role="test", account=account)
    number = int(made.stdout.split()[-1])
    assert number not in before
    assert shared_memory_left.undo({"kind": "shared_memory", "since": time.time() + 60}) is None
    assert number in segments(account.uid)
    undone = shared_memory_left.undo({"kind": "shared_memory", "since": time.time() - 60})
    assert undone is not None and undone.what == "put back"
    assert number not in segments(account.uid)


def test_a_server_that_was_killed_leaves_no_shared_memory(
    builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    segments, directory = Path("/proc/sysvipc/shm"), Path("/dev/shm")  # noqa: S108
    with data_directory(builds["8kB"], journal, account) as path:
        with running(builds["8kB"], path, journal, account) as server:
            postmaster = server.process.pid
            maps = Path(f"/proc/{postmaster}/maps").read_text()
            mine = {name for name in (one.name for one in directory.glob("PostgreSQL.*")) if name in maps}
            assert mine
            assert [line.split()[4] for line in segments.read_text().splitlines()].count(str(postmaster)) == 1
            other = directory / "PostgreSQL.1"  # equally young, but another server's
            other.touch()
            os.kill(postmaster, signal.SIGKILL)
        try:
            assert not mine & {one.name for one in directory.iterdir()}
            assert str(postmaster) not in [line.split()[4] for line in segments.read_text().splitlines()]
            if os.geteuid() == 0:
                assert other.exists()
        finally:
            other.unlink(missing_ok=True)

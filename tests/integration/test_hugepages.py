"""Huge pages of real servers: the predicted need is the actual use, at any block size; a group that kills initdb."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.conftest import needs_root
from tests.integration.hugetlb import hugetlb_group, offers_hugetlb, within
from tests.integration.servers import data_directory, running

from octavo.errors import HostError, UsageError
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.hugepages import apply as pool
from octavo.hugepages import plan, verify
from octavo.hugepages.plan import Situation
from octavo.hugepages.pool import read_pool
from octavo.hugepages.stopped import asking
from octavo.knobs.huge_pages import sizes
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import Server
from octavo.units import parse_size

MB = 1024**2
SMALL = {"shared_buffers": "8MB", "max_connections": "20", "wal_buffers": "1MB"}

pytestmark = [pytest.mark.alone, pytest.mark.skipif(not sizes(), reason="this kernel has no huge pages")]


def configure(path: Path, **settings: str) -> None:
    with (path / "postgresql.conf").open("a") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())


def dsn_of(server: Server) -> str:
    return f"host={server.socket_directory} user=octavo dbname=octavo"


def stopped(path: Path, build: Build) -> Situation:
    return Situation(path, build.prefix / "bin", None)


@needs_root
def test_the_pages_asked_for_are_the_pages_used(build: Build, journal: Journal, account: Account, pages: int) -> None:
    with data_directory(build, journal, account) as path:
        configure(path, **SMALL)
        before = stopped(path, build)
        assert before.server is not None
        needed = before.server.pages[pages]
        assert needed * pages <= 64 * MB
        done = pool.apply(pages, needed, 0)
        assert done["after"]["available"] >= needed
        with running(build, path, journal, account, huge_pages="on", **SMALL) as server:
            now = Situation(None, None, dsn_of(server))
            assert now.server is not None and now.seen is not None
            assert now.server.postmaster == server.process.pid
            assert now.seen.page == pages
            assert now.seen.mapping is not None
            # PostgreSQL requests one page more than it maps if its memory is a multiple of the page.
            assert needed - now.seen.mapping // pages in (0, 1)
            assert now.server.pages == before.server.pages
            state = read_pool(pages)
            assert state.in_use - done["before"]["total"] + done["before"]["available"] == now.own(pages)
            assert pool.apply(pages, now.server.pages[pages], now.own(pages))["asked_pages"] in (0, 1)
            checks = {one["check"]: one["result"] for one in verify.document(now)["checks"]}
            assert checks["in use"] == checks["page size"] == checks["surplus"] == checks["setting"] == "ok"
            (refused,) = pool.undo()
            assert refused.what == "failed" and "stop the server" in refused.line
        assert [told.what for told in pool.undo()][-1] == "put back"
        assert read_pool(pages).total == done["before"]["total"]


@pytest.mark.parametrize("build", ["8kB"], indirect=True)
@pytest.mark.parametrize(
    ("shared_buffers", "page", "pages"),
    [("64GB", "1GB", 66), ("4800MB", "512MB", 10)],
    ids=["66 of 1 GB", "10 of 512 MB"],
)
def test_published_pools_against_what_postgresql_asks_for(
    build: Build, journal: Journal, account: Account, shared_buffers: str, page: str, pages: int
) -> None:
    """Asking the server needs no memory. The second page size is that of other machines: the memory in such pages."""
    with data_directory(build, journal, account) as path:
        configure(path, shared_buffers=shared_buffers)
        with asking(path, build.prefix / "bin") as (ask, _):
            assert -(-int(ask("shared_memory_size", 0)) * MB // parse_size(page)) == pages


@pytest.mark.parametrize("build", ["8kB"], indirect=True)
def test_a_server_on_small_pages_is_found_out(build: Build, journal: Journal, account: Account) -> None:
    with (
        data_directory(build, journal, account) as path,
        running(build, path, journal, account, huge_pages="off", **SMALL) as server,
    ):
        now = Situation(None, None, dsn_of(server))
        found = verify.document(now)
        assert not found["ok"]
        assert {one["check"]: one["result"] for one in found["checks"]}["in use"] == "bad"
        said = plan.document(now, 500)
        seen = said["seen"]
        assert seen["shared_memory_page_bytes"] == os.sysconf("SC_PAGE_SIZE")
        assert seen["over_asked_pages"] > 0
        assert sum(seen["parts_bytes"].values()) <= seen["vm_peak_bytes"]
        # The difference between the recipe and the need is memory that is not shared.
        beside = seen["vm_peak_bytes"] - seen["shared_memory_bytes"]
        assert abs(seen["over_asked_bytes"] - beside) <= 2 * now.page
        assert said["page_tables"]["connections"] == 500
        assert said["page_tables"]["measured_bytes"] > 0
        assert said["needed"][0]["own_pages_now"] == 0


@pytest.mark.parametrize("build", ["8kB"], indirect=True)
def test_a_cluster_that_runs_is_not_asked_by_its_directory(build: Build, journal: Journal, account: Account) -> None:
    with data_directory(build, journal, account) as path, running(build, path, journal, account, **SMALL) as server:
        with pytest.raises(UsageError, match=rf"a server \(pid {server.process.pid}\) runs.*--dsn 'host=") as error:
            stopped(path, build)
        dsn = str(error.value).partition("--dsn '")[2].rstrip("'")
        assert Situation(None, None, f"{dsn} user=octavo").server is not None


@needs_root
@pytest.mark.parametrize("build", ["8kB"], indirect=True)
def test_a_server_in_another_container_is_not_ended_by_asking_its_directory(
    build: Build, journal: Journal, account: Account
) -> None:
    """Its pid is 1 in the container: PostgreSQL itself would consider the lock file stale, and remove it."""
    with data_directory(build, journal, account) as path, in_a_pid_namespace(build, path, account) as pid:
        assert (path / "postmaster.pid").read_text().startswith("1\n")
        with pytest.raises(UsageError, match=rf"a server \(pid {pid}\) runs.*--dsn 'host=") as error:
            stopped(path, build)
        assert (path / "postmaster.pid").exists()
        dsn = str(error.value).partition("--dsn '")[2].rstrip("'")
        seen = Situation(None, None, f"{dsn} user=octavo")
        assert seen.server is not None and seen.server.postmaster == pid
        assert seen.seen is not None and seen.seen.mapping is not None
        seen.require_here()


@contextmanager
def in_a_pid_namespace(build: Build, path: Path, account: Account) -> Generator[int, None, None]:
    """A server as in a container; yields its pid here."""
    arguments = [
        "unshare", "--pid", "--fork", "--mount-proc", "setpriv", f"--reuid={account.uid}",
        f"--regid={account.gid}", "--clear-groups", build.program("postgres"), "-D", path, "-k", path,
        "-c", "listen_addresses=", "-c", "huge_pages=off", "-c", "logging_collector=off",
    ]  # fmt: skip
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, cwd="/") as process:
        try:
            assert process.stderr is not None
            log = iter(process.stderr.readline, "")
            assert any("ready to accept connections" in line for line in log)
            pid = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
            try:
                yield pid
            finally:
                os.kill(pid, signal.SIGQUIT)
                process.wait()
        finally:
            process.kill()


@pytest.mark.parametrize("build", ["8kB"], indirect=True)
def test_a_lock_file_of_a_process_that_cannot_be_seen_is_left_alone(
    build: Build, journal: Journal, account: Account
) -> None:
    with data_directory(build, journal, account) as path:
        (path / "postmaster.pid").write_text(f"1\n{path}\n")
        with pytest.raises(UsageError, match=r"names process 1, which is not visible.*remove that file"):
            stopped(path, build)
        assert (path / "postmaster.pid").exists()


@pytest.mark.parametrize("build", ["8kB"], indirect=True)
def test_the_options_of_the_last_start_count(build: Build, journal: Journal, account: Account) -> None:
    with data_directory(build, journal, account) as path:
        configure(path, **SMALL)
        (path / "postmaster.opts").write_text(f'/bin/postgres "-D" "{path}" "-p" "5433" "-c" "shared_buffers=16MB"\n')
        found = stopped(path, build).server
        assert found is not None and found.shared_buffers == 16 * MB
        assert "options of its last start (shared_buffers)" in found.source


@pytest.mark.parametrize("build", ["8kB"], indirect=True)
def test_a_broken_configuration_is_named_as_postgresql_names_it(
    build: Build, journal: Journal, account: Account
) -> None:
    with data_directory(build, journal, account) as path:
        configure(path, bogus="1")
        with pytest.raises(UsageError, match='unrecognized configuration parameter "bogus"'):
            stopped(path, build)


def test_a_program_of_another_block_size_is_named(builds: dict[str, Build], journal: Journal, account: Account) -> None:
    with (
        data_directory(builds["4kB"], journal, account) as path,
        pytest.raises(UsageError, match=r"BLCKSZ 4096.*--bindir"),
    ):
        stopped(path, builds["32kB"])


@pytest.mark.parametrize("build", ["8kB"], indirect=True)
def test_configuration_and_data_may_be_apart(build: Build, journal: Journal, account: Account) -> None:
    with data_directory(build, journal, account) as path:
        apart = path / "conf"
        apart.mkdir()
        for name in ("postgresql.conf", "pg_hba.conf", "pg_ident.conf"):
            (path / name).rename(apart / name)
        configure(apart, data_directory=str(path), **SMALL)
        with asking(apart, build.prefix / "bin") as (ask, _):
            assert ask("shared_buffers", 0) == str(8 * MB // 8192)
        with pytest.raises(UsageError, match=r"no postgresql\.conf"):
            stopped(path, build)


def test_what_is_no_cluster_is_said(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UsageError, match="not a data directory; before initdb"):
            Situation(path, None, None)


@pytest.mark.parametrize("text", ["", "abc"])
def test_a_version_that_is_none_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "postgresql.conf").touch()
    (tmp_path / "PG_VERSION").write_text(text)
    with pytest.raises(UsageError, match="which is not a version"):
        Situation(tmp_path, None, None)


def test_a_version_that_is_not_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "postgresql.conf").touch()
    (tmp_path / "PG_VERSION").write_text("14\n")
    with pytest.raises(HostError, match="PostgreSQL 14; computing its huge pages needs 15"):
        Situation(tmp_path, None, None)
    (tmp_path / "PG_VERSION").write_text("99\n")
    with pytest.raises(HostError, match=r"no postgres of version 99 was found \(.*--bindir"):
        Situation(tmp_path, None, None)


@needs_root
@pytest.mark.skipif(not offers_hugetlb(), reason="no hugetlb controller of version 2 here")
@pytest.mark.parametrize("build", ["8kB"], indirect=True)
def test_a_group_that_forbids_them_is_named_and_really_kills(
    build: Build, journal: Journal, account: Account, pages: int
) -> None:
    with data_directory(build, journal, account) as path, hugetlb_group(0) as group:
        configure(path, **SMALL)
        now = stopped(path, build)
        assert now.server is not None
        pool.apply(pages, now.server.pages[pages], 0)
        died = within(
            group, account.uid, account.gid, build.program("postgres"), "-D", path, "-c", "logging_collector=off"
        )
        assert died.returncode == -signal.SIGBUS, died.stderr
        said = within(group, 0, 0, sys.executable, "-m", "octavo", "hugepages", "plan", "--format", "json")
        named = {one["limit"]: one for one in json.loads(said.stdout)["limits"]}["hugetlb group"]
        assert named["severity"] == "error" and str(group) in named["found"]

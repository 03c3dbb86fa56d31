"""Other activity besides a real server, seen by the monitoring: a busy loop, a reader, and the server's own work."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.integration.conftest import needs_root
from tests.integration.servers import MB, data_directory, running

from octavo.host import cgroup, children
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.host.process_table import growth, settled_table, tree
from octavo.knobs.server_group import server_group
from octavo.lab.validity import first_doubt, foreign_io
from octavo.lab.validity.evidence import Evidence
from octavo.lab.validity.surroundings import Surroundings
from octavo.lab.validity.watch import Watcher
from octavo.plan.thresholds import Thresholds
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import Server
from octavo.workloads.base import WorkloadResult

pytestmark = pytest.mark.alone

SECONDS = 3
# Other activity of this host is irrelevant to these tests.
NOISE = ("foreign_cpu", "foreign_io")
_BUSY = "while True: pass"
_WRITER = f"""
import os, sys
while True:
    with open(sys.argv[1], "wb") as file:
        file.write(b"x" * {8 * MB})
        os.fsync(file.fileno())
"""


@contextmanager
def stranger(script: str, *arguments: str) -> Generator[int, None, None]:
    """A process that is no descendant of ours: its parent has ended, and it was reparented."""
    started = subprocess.run(
        ["sh", "-c", '"$@" >/dev/null 2>&1 & echo $!', "sh", sys.executable, "-c", script, *arguments],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    pid = int(started.stdout)
    try:
        yield pid
    finally:
        os.kill(pid, 9)


@pytest.fixture
def server(builds: dict[str, Build], journal: Journal, account: Account) -> Generator[Server, None, None]:
    build = builds["4kB"]
    with (
        data_directory(build, journal, account) as path,
        running(build, path, journal, account, shared_buffers="16MB") as started,
    ):
        children.check(started.run_client("pgbench", "--initialize", "--quiet", "--scale=5"), "pgbench")
        yield started


def watched(server: Server) -> Surroundings:
    """The other activity seen during a few seconds of pgbench."""
    server.disconnect()
    watch = Watcher(lambda _: None).start(server.directory)
    children.check(
        server.run_client("pgbench", "--no-vacuum", "-S", "--client=2", f"--time={SECONDS}"),
        "pgbench",
    )
    return watch()


def judged(seen: Surroundings) -> Evidence:
    result = WorkloadResult((), SECONDS, 1000, seconds_asked=SECONDS, client_cpu_seconds=1.0)
    return Evidence(result, {}, True, 1.0, 1.0, "", Thresholds(), surroundings=seen)


def test_a_busy_loop_beside_a_trial_is_named(server: Server) -> None:
    """Or another process on this host that used more than the loop; the server and its client are never named."""
    with stranger(_BUSY) as pid:
        before = settled_table(os.getpid())
        seen = watched(server)
        after = settled_table(os.getpid())
    used = growth(before, after, lambda process: process.all_cpu)
    assert seen.foreign_cpu_share is not None
    assert seen.foreign_cpu_share > 0.3 / (os.cpu_count() or 1)
    assert seen.busiest is not None
    named = int(seen.busiest.partition("(pid ")[2].rstrip(")"))
    assert named not in tree(os.getpid(), after)
    assert named == pid or used.get(named, SECONDS) >= 0.9 * used[pid]
    doubt = first_doubt(judged(seen), outcomes=["foreign_io"])
    assert doubt is not None
    assert doubt.rule == "foreign_cpu"
    assert doubt.reason.endswith(f"of the CPU (more than 5%), most of all {seen.busiest}")


def test_the_loop_counts_as_ours_when_it_is(server: Server) -> None:
    """The same load in our own child: its CPU time counts as ours, whether it has ended or not."""
    watch = Watcher(lambda _: None).start(server.directory)
    child = subprocess.Popen([sys.executable, "-c", "import time\nwhile time.process_time() < 1: pass"])
    assert child.wait() == 0
    seen = watch()
    assert seen.busiest is None or f"(pid {child.pid})" not in seen.busiest
    assert seen.foreign_cpu_share is not None
    # A second of CPU on this host is at least 1 / (cores × seconds) of it: all of that is deducted as ours.
    assert seen.foreign_cpu_share <= 1.01 - 1 / ((os.cpu_count() or 1) * seen.seconds)


@needs_root
def test_a_foreign_writer_is_named(server: Server, tmp_path: Path) -> None:
    with stranger(_WRITER, str(tmp_path / "file")):
        seen = watched(server)
    assert seen.own_read_bytes is not None
    if not seen.foreign_written_bytes:
        pytest.skip("the temporary directory is in memory, where nothing is written to storage")
    assert seen.foreign_written_bytes >= 8 * MB
    reason = foreign_io.judge(judged(seen))
    assert reason is not None and "and wrote" in reason


@contextmanager
def forgotten(directory: Path) -> Generator[None, None, None]:
    """First drops the files' pages from the cache: initdb, which wrote them, was outside the group."""
    os.sync()
    for file in directory.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    yield


@needs_root
@pytest.mark.skipif(cgroup.memory_controller() is None, reason="no memory controller")
def test_files_cached_outside_the_memory_limit_are_found(
    builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    """The server alone stays below its limit; then another process reads its files, and they are charged to that
    one."""
    limit = 64 * MB
    with (
        data_directory(builds["8kB"], journal, account) as path,
        forgotten(path),
        server_group({"memory": f"{limit // MB}MB"}, journal) as group,
        cluster.start(
            builds["8kB"],
            path,
            {"shared_buffers": "16MB"},
            journal,
            account,
            log=path.with_name("log"),
            memory_group=group,
        ) as server,
        server.connect("postgres") as connection,
    ):
        connection.execute("CREATE TABLE t AS SELECT repeat('x', 1000) FROM generate_series(1, 150000)")
        connection.execute("CHECKPOINT")
        try:
            watch = Watcher(lambda _: None).start(path, limited=True)
            held = watch()
            for file in (path / "base").rglob("*"):
                if file.is_file():
                    file.read_bytes()
            spilled = watch()
        finally:
            connection.close()
    if "memory_limit" in held.blind:
        pytest.skip(held.blind["memory_limit"])
    facts = {"memory_limit_bytes": limit, "database_bytes": 150 * MB}
    assert first_doubt(replace(judged(held), facts=facts), outcomes=NOISE) is None
    assert "outside its memory limit of 64 MB" in str(first_doubt(replace(judged(spilled), facts=facts), NOISE))

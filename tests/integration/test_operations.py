"""DBA operations on real servers of 4 kB data blocks as well as 8 kB; errors are reported as failed."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from octavo.home import runtime_directory
from octavo.host.journal import TOKEN_VARIABLE, Journal, recover
from octavo.host.process import find_by_environment
from octavo.operations import OPERATIONS, base_backup, check_operations, contents, pg_checksums
from octavo.operations.base import Operation, OperationEvidence, OperationOutcome
from octavo.operations.contents import Contents
from octavo.operations.sandbox import Sandbox, first
from octavo.postgres.builds.cache import Build, list_builds
from octavo.postgres.builds.make import ensure_build
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.cluster import Server
from octavo.units import parse_size

pytestmark = pytest.mark.beside

# Operations for which only a fuller cache has related builds.
_MAY_BE_SKIPPED = {
    "minor update",
    "pg_upgrade, older major version",
    "data directory, another WAL block",
    "pg_waldump, another WAL block",
}
_INCOMPATIBLE = (
    "FATAL: database files are incompatible with server "
    "DETAIL: The database cluster was initialized with BLCKSZ 8192, but the server was compiled with BLCKSZ 4096."
)


def of_sizes(data_block: str, wal_block: str) -> Build | None:
    """Any build of 18 with these sizes."""
    found = [build for build in list_builds() if build.manifest["version"].startswith("18.")]
    wanted = (data_block, wal_block)
    return next(
        (build for build in found if (build.manifest["data_block"], build.manifest["wal_block"]) == wanted), None
    )


@pytest.fixture(scope="module")
def builds(home: Path) -> list[Build]:
    """4 kB, 8 kB, and another WAL block if the cache has one."""
    with Journal() as journal:
        needed = [of_sizes(size, "8kB") or ensure_build(BuildSpec("18", size), journal) for size in ("4kB", "8kB")]
    return [*needed, *filter(None, [of_sizes("4kB", "16kB")])]


@contextmanager
def nothing_left(journal: Journal, home: Path) -> Generator[None, None, None]:
    """Checks that no process, directory or socket is left at the end."""
    yield
    assert find_by_environment(TOKEN_VARIABLE, journal.token) == []
    assert list((home / "scratch").iterdir()) == []
    assert list(runtime_directory().glob(f"{journal.token[:8]}-*")) == []


def test_all_of_it_works_at_4_kb(builds: list[Build], journal: Journal, home: Path) -> None:
    told: list[OperationOutcome] = []
    with nothing_left(journal, home):
        report = check_operations(builds[0], builds, journal, scale=1, on_outcome=told.append)
    assert tuple(told) == report.outcomes
    assert [outcome.name for outcome in report.outcomes] == [operation.name for operation in OPERATIONS]
    assert [(o.name, o.evidence) for o in report.outcomes if o.result == "failed"] == []
    assert report.passed
    assert {o.name for o in report.outcomes if o.result == "skipped"} <= _MAY_BE_SKIPPED
    found = {outcome.name: outcome for outcome in report.outcomes}
    for name in ("data directory", "base backup", "streaming replica"):
        assert _INCOMPATIBLE in found[f"{name}, another data block"].evidence
    replica = found["streaming replica, another data block"].evidence
    assert "FATAL: database system identifier differs between the primary and standby" in replica
    refused = found["pg_upgrade, another data block"].evidence
    assert refused.endswith("old and new pg_controldata block sizes are invalid or do not match")
    way_over = found["dump and restore, to this data block"]
    assert way_over.figures["restore_seconds"] > 0
    assert way_over.evidence.startswith("8kB to 4kB data blocks")
    assert "100,211 rows of 5 tables are the same" in way_over.evidence
    assert found["logical replication, to this data block"].figures["switchover_seconds"] > 0


def changed(sandbox: Sandbox) -> OperationEvidence:
    """A base backup in which one value is changed before the comparison."""
    servers: list[Server] = []
    reading = contents.read

    def read(server: Server) -> Contents:
        servers.append(server)
        if len(servers) == 2:  # the restored server
            server.execute("UPDATE pgbench_accounts SET abalance = 1 WHERE aid = 7")
        return reading(server)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contents, "read", read)
        return base_backup.OPERATION.check(sandbox)


def starting(sandbox: Sandbox) -> OperationEvidence:
    """An expected refusal that does not happen."""
    return OperationEvidence(sandbox.refusal(sandbox.empty("own")))


def dying(sandbox: Sandbox) -> OperationEvidence:
    """A server that disappears in the middle."""
    with sandbox.serve(sandbox.empty("data")) as server, server.connect("postgres") as connection:
        server.stop()
        connection.execute("SELECT 1")
    return OperationEvidence("it lives")


def living(sandbox: Sandbox) -> OperationEvidence:
    """The next operation after one that failed."""
    with sandbox.serve(sandbox.copy("data")) as server:
        count = first(server, "SELECT count(*) FROM documents")
    return OperationEvidence(f"{count} documents")


def damaged(sandbox: Sandbox) -> OperationEvidence:
    """One byte of the copied data does not match its checksum."""
    filled = sandbox.filled().directory
    largest = max((filled / "base").rglob("*"), key=lambda path: path.stat().st_size)
    offset = 5 * parse_size(sandbox.build.manifest["data_block"])
    owner = replace(sandbox.account, uid=filled.stat().st_uid)  # kept files belong to root
    pg_checksums.damage(filled, str(largest.relative_to(filled)), offset, owner)
    return pg_checksums.OPERATION.check(sandbox)


def test_what_goes_wrong_is_told_as_failed(builds: list[Build], journal: Journal, home: Path) -> None:
    operations = [Operation(check.__name__, check) for check in (changed, starting, dying, living, damaged)]
    with nothing_left(journal, home):
        report = check_operations(builds[0], builds, journal, scale=1, operations=operations)
    assert not report.passed
    told = {outcome.name: (outcome.result, outcome.evidence) for outcome in report.outcomes}
    assert told["changed"] == (
        "failed",
        "the restored backup: table public.pgbench_accounts has as many rows (100,000), but other ones: digests differ",
    )
    assert told["starting"] == ("failed", "the server started on a data directory that it must refuse")
    assert told["dying"][0] == "failed"
    assert told["living"] == ("ok", "200 documents")
    assert told["damaged"][0] == "failed"
    assert "checksum verification failed in file" in told["damaged"][1]
    assert "block 5" in told["damaged"][1]


# Runs operations that use several servers, and reports when one of them begins.
_CHECKER = """
import sys
from octavo.host.journal import Journal
from octavo.operations import check_operations
from octavo.operations.base import Operation
from octavo.postgres.builds.cache import read_build

def hold(sandbox):
    primary, other = sandbox.copy("primary"), sandbox.empty("other")
    with sandbox.serve(primary) as server, sandbox.load(server, 50), sandbox.serve(other):
        print(sandbox.journal.token, flush=True)
        sys.stdin.read()

with Journal() as journal:
    check_operations(read_build(sys.argv[1]), [], journal, scale=1, operations=[Operation("hold", hold)])
"""


def test_a_killed_check_leaves_nothing_after_the_next_command(builds: list[Build], home: Path) -> None:
    checker = subprocess.Popen(
        [sys.executable, "-c", _CHECKER, builds[0].name],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ),
    )  # fmt: skip
    assert checker.stdout is not None
    assert checker.stdin is not None
    token = checker.stdout.readline().strip()
    assert token
    assert len(find_by_environment(TOKEN_VARIABLE, token)) > 2
    checker.kill()
    checker.wait()
    checker.stdin.close()
    checker.stdout.close()
    assert any("/scratch/" in line for line in recover())
    assert find_by_environment(TOKEN_VARIABLE, token) == []
    assert list((home / "scratch").iterdir()) == []
    assert list(runtime_directory().glob(f"{token[:8]}-*")) == []

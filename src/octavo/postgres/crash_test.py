"""Kills a server while it writes, and checks the result of recovery: pgbench's TPC-B, whose sums must agree.

Every transaction adds one amount to an account, a teller and a branch, and a line to the history. After recovery the
four sums must be equal, and the history must have every transaction whose commit was acknowledged. All processes are
killed (SIGKILL), but the machine keeps running: the operating system keeps its page cache.
"""

import re
import time
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired

import psycopg

from octavo.errors import OctavoError
from octavo.host import children
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.host.safe_read import read_tail
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import DATABASE, Server
from octavo.postgres.scratch import build_test

_WAL_SEGMENT = 1024**2  # small, so that many segments are started and completed
_SCALE = 2
_CLIENTS = 4
# The server is killed once the history has so many lines, with a checkpoint before, so that recovery starts at that and
# has work to do.
_TRANSACTIONS = 1500
_PATIENCE_SECONDS = 120.0
_POLL_SECONDS = 0.02
_SETTINGS = {"shared_buffers": "4MB", "checkpoint_timeout": "30s", "max_wal_size": "64MB", "autovacuum": "on"}

_SUMS = """
SELECT (SELECT coalesce(sum(abalance), 0) FROM pgbench_accounts)::text AS accounts,
       (SELECT coalesce(sum(tbalance), 0) FROM pgbench_tellers)::text AS tellers,
       (SELECT coalesce(sum(bbalance), 0) FROM pgbench_branches)::text AS branches,
       (SELECT coalesce(sum(delta), 0) FROM pgbench_history)::text AS history,
       (SELECT count(*) FROM pgbench_history) AS lines
"""
_PROCESSED = re.compile(r"number of transactions actually processed: (\d{1,18})")


@dataclass(frozen=True, slots=True)
class CrashOutcome:
    """The transactions acknowledged before the kill, the lines of the history after recovery, and the duration of
    recovery."""

    acknowledged: int
    found: int
    recovery_seconds: float


def crash_test(build: Build, journal: Journal, account: Account) -> CrashOutcome:
    """Kills a server of the build while it writes, and checks the recovered data. Leaves nothing behind.

    Raises OctavoError when a sum differs, an acknowledged commit is missing, a block cannot be read or its checksum is
    wrong, or the server does not recover; HostError when the disk is full.
    """
    with build_test(build, "crash test", journal) as work:
        data = work / "data"
        cluster.initialise(build, data, journal, account, wal_segment=_WAL_SEGMENT, checksums=True)
        with cluster.start(build, data, _SETTINGS, journal, account, log=work / "before.log") as server:
            server.create_database()
            children.check(
                server.run_client("pgbench", "--initialize", "--quiet", f"--scale={_SCALE}"), "pgbench --initialize"
            )
            acknowledged = _write_until_killed(server, work / "pgbench.log")
        began = time.monotonic()
        with cluster.start(build, data, _SETTINGS, journal, account, log=work / "after.log") as recovered:
            with recovered.connect(DATABASE) as connection:
                seconds = time.monotonic() - began
                row = connection.execute(_SUMS.encode()).fetchone()
            assert row is not None
            _check_sums({name: str(row[name]) for name in ("accounts", "tellers", "branches", "history")})
            found = int(row["lines"])
            if found < acknowledged:
                raise OctavoError(f"{acknowledged} commits were acknowledged, but only {found} survived recovery")
            recovered.shut_down()
        cluster.check_blocks(build, data, journal, account)
        return CrashOutcome(acknowledged, found, seconds)


def _write_until_killed(server: Server, output: Path) -> int:
    """Kills the server in the middle of TPC-B. Returns the number of transactions that the client knows to be
    committed."""
    client, entry = server.start_client(
        "pgbench", "--no-vacuum", f"--client={_CLIENTS}", "--time=600", "--protocol=prepared", output=output
    )
    try:
        _wait_for_lines(server, _TRANSACTIONS // 3)
        server.execute("CHECKPOINT")
        _wait_for_lines(server, _TRANSACTIONS)
        server.process.kill()
        server.process.wait()
        server.stop()  # this also kills everything that it started
        try:
            client.wait(_PATIENCE_SECONDS)
        except TimeoutExpired:
            raise OctavoError("pgbench did not notice that the server had died") from None
    finally:
        client.kill()
        client.wait()
        children.ended(server.journal, entry)
    match = _PROCESSED.search(read_tail(output))
    if match is None:
        raise OctavoError("the output of pgbench has no number of transactions")
    return int(match[1])


def _wait_for_lines(server: Server, lines: int) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            row = server.connection.execute("SELECT count(*) AS lines FROM pgbench_history").fetchone()
        except psycopg.Error as error:
            raise OctavoError(f"the server was lost before it was killed: {str(error).strip()}") from error
        if row is not None and row["lines"] >= lines:
            return
        time.sleep(_POLL_SECONDS)
    raise OctavoError(f"pgbench did not reach {lines} transactions in {_PATIENCE_SECONDS:.0f} s")


def _check_sums(sums: dict[str, str]) -> None:
    """Raises OctavoError unless all sums are the same number.

    >>> _check_sums({"accounts": "-5", "history": "-5"})
    >>> _check_sums({"accounts": "-5", "history": "7"})
    Traceback (most recent call last):
    octavo.errors.OctavoError: after recovery the sums differ: accounts -5, history 7
    """
    if len(set(sums.values())) > 1:
        raise OctavoError(f"after recovery the sums differ: {', '.join(f'{name} {sum}' for name, sum in sums.items())}")

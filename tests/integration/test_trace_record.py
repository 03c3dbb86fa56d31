"""A package's server recorded through its probes: the simulated buffer manager has PostgreSQL's counts, and the
recorded WAL is what pg_walinspect reports."""

import os
import shutil
import threading
from pathlib import Path

import pytest
from tests.integration.servers import data_directory, running

from octavo import _core
from octavo.errors import OctavoError
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import DATABASE, Server
from octavo.trace.files import ignore_progress, summarize
from octavo.trace.record.recorder import RecordingRequest, RecordingResult, record
from octavo.trace.wal import written

_PACKAGES = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))

pytestmark = [
    pytest.mark.alone,  # without free CPUs bpftrace loses events, and nothing is equal
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("bpftrace") is None or not _PACKAGES,
        reason="probes need root, bpftrace, and a PostgreSQL of the distribution's packages",
    ),
]
_SECONDS = 20.0
_BUFFERS = 4 * 1024**2
# Random lookups through the index, several times the size of shared_buffers, and a scan of the table.
_TABLE = """
CREATE TABLE t (id int PRIMARY KEY, filler text);
INSERT INTO t SELECT id, repeat('x', 80) FROM generate_series(1, 200000) AS id;
CREATE TABLE few (id int);
CREATE EXTENSION pg_walinspect;
"""
_LOOKUPS = """
SELECT count(t.filler)
FROM (SELECT 1 + (random() * random() * 199999)::int AS id FROM generate_series(1, 20000) OFFSET 0) AS wanted
JOIN t USING (id)
"""
_SETTINGS = {
    "shared_buffers": "4MB",
    "autovacuum": "off",
    "max_parallel_workers_per_gather": "0",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_memoize": "off",
}


def _counters(server: Server) -> tuple[int, int]:
    with server.connect(DATABASE) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        row = connection.execute(
            "SELECT sum(blks_hit)::bigint AS hits, sum(blks_read)::bigint AS reads FROM pg_stat_database"
        ).fetchone()
    assert row is not None
    return row["hits"], row["reads"]


def _accesses(path: Path) -> int:
    try:
        return summarize(path)["reads"]
    except OctavoError:  # not started
        return 0


def test_hits_and_reads_are_those_of_the_server(journal: Journal, account: Account, tmp_path: Path) -> None:
    """Takes half a minute: twenty seconds are recorded, and the load must end before."""
    package = _PACKAGES[-1].parents[1]
    build = Build(f"package-{package.name}", package, {"version": f"{package.name}.0"})
    trace = tmp_path / "t.octrace"
    with data_directory(build, journal, account) as directory:
        with running(build, directory, journal, account, **_SETTINGS) as server, server.connect(DATABASE) as connection:
            connection.execute(_TABLE)
            connection.execute("VACUUM (FREEZE, ANALYZE) t")
        with running(build, directory, journal, account, **_SETTINGS) as server:
            found = list[RecordingResult]()
            request = RecordingRequest(
                f"host={server.socket_directory} port=5432 user=octavo dbname=octavo", _SECONDS, trace, None
            )
            recording = threading.Thread(target=lambda: found.append(record(request, journal, print)))
            recording.start()
            with server.connect(DATABASE) as connection:
                while _accesses(trace) == 0 and recording.is_alive():
                    connection.execute("SELECT 1 FROM pg_class LIMIT 1")
                    recording.join(0.1)
                # Counting starts here: before the probes are attached the recorder reads the catalog.
                before = _counters(server)
                for _ in range(2):
                    connection.execute(_LOOKUPS)
                    connection.execute("SELECT count(*), sum(length(filler)) FROM t")
                connection.execute("INSERT INTO few SELECT generate_series(1, 100)")
            assert recording.is_alive(), "the recording ended before the load"
            recording.join()
            after = _counters(server)
    assert found and found[0].lost == 0
    assert not summarize(trace)["missing"]["is_cut"]
    wal = written(summarize(trace))
    assert wal is not None and _SECONDS <= wal.seconds < 3 * _SECONDS
    inserted = sum(kind.records for kind in wal.kinds if kind.name.startswith("Heap/INSERT"))
    assert 100 <= inserted <= sum(kind.records for kind in wal.kinds) and wal.growth_bytes > 100 * 50
    told = summarize(trace)["properties"]
    # The server had started shortly before: this is its last checkpoint.
    assert 0 <= float(told["checkpoint_seconds"]) < 120 and int(told["checkpoint_wal_bytes"]) < 16 * 1024**2
    assert int(told["checkpoint_commits"]) < 100
    hits, reads = (two - one for one, two in zip(before, after, strict=True))
    points = [(8192, _BUFFERS, 256 * 1024, 16 * 1024**2, 256 * 1024)]
    _, (point,) = _core.trace_buffers(trace, 8192, points, rate=None, seed=1, threads=1, observe=ignore_progress)
    assert hits + reads > 120_000
    assert point["hits"] == pytest.approx(hits, rel=0.01)
    # Pages that were in the buffers when the recording began are read once more by an empty buffer manager.
    assert point["reads"] == pytest.approx(reads, abs=0.01 * reads + _BUFFERS // 8192)

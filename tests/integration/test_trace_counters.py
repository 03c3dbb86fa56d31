"""A server whose page accesses cannot be traced: its counters, its WAL and its buffers are recorded over TCP or a
socket, by any user with pg_monitor, and no prediction is made for other sizes."""

import threading
from pathlib import Path

import pytest
from tests.integration.servers import data_directory, running
from typer.testing import CliRunner

from octavo.cli.app import app
from octavo.errors import HostError
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import DATABASE
from octavo.trace.files import summarize
from octavo.trace.record.recorder import RecordingRequest, record
from octavo.trace.surface import SurfaceRequest, surface
from octavo.trace.wal import written

_PACKAGES = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
_SETUP = """
CREATE EXTENSION pg_buffercache;
CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
CREATE TABLE t AS SELECT id, repeat('x', 500) AS filler FROM generate_series(1, 60000) AS id;
CREATE TABLE huge (id int);  -- as if of more than 2^31 pages
UPDATE pg_class SET relpages = -2000000000, reltuples = 1e10 WHERE relname = 'huge';
"""


_ROWS = "".join(f"{number}\t{'x' * 500}\n" for number in range(5000))


@pytest.mark.parametrize("which", ["18", "package"])
def test_counters_alone(
    which: str, builds: dict[str, Build], journal: Journal, account: Account, tmp_path: Path
) -> None:
    build, trace, said = builds["8kB"], tmp_path / "t.octrace", list[str]()
    if which == "package":  # of the distribution: 15, without pg_stat_io
        if not _PACKAGES:
            pytest.skip("no PostgreSQL of the distribution's packages")
        package = _PACKAGES[0].parents[1]
        build = Build(f"package-{package.name}", package, {"version": f"{package.name}.0"})
    with (
        data_directory(build, journal, account) as directory,
        # Few buffers and few backends, so that each may pin only a dozen, and extend a table by as many.
        running(
            build, directory, journal, account, shared_buffers="16MB", autovacuum="off", max_connections="10"
        ) as server,
        server.connect(DATABASE) as connection,
    ):
        connection.execute(_SETUP)
        request = RecordingRequest(
            f"host={server.socket_directory} port=5432 user=monitor dbname=octavo", 4.0, trace, counters=True
        )
        recording = threading.Thread(target=lambda: record(request, journal, said.append))
        recording.start()
        copies = 0
        while recording.is_alive():
            connection.execute("SELECT sum(length(filler)) FROM t")
            connection.execute("DROP TABLE IF EXISTS copy; CREATE TABLE copy (id int, filler text)")
            with connection.cursor().copy("COPY copy FROM STDIN") as rows:  # extends by several pages at once
                rows.write(_ROWS)
            connection.execute("SELECT pg_stat_force_next_flush()")
            copies += 1
        recording.join()
        (copy,) = connection.execute("SELECT pg_relation_size('copy') / 8192 AS pages").fetchall()
    summary = summarize(trace)
    assert (summary["reads"], summary["missing"]["is_cut"]) == (0, False)
    assert [one["tuple_bytes"] for one in summary["relations"] if one["tuples"] == 10**10] == [1880]
    counts = {name: int(value) for name, value in summary["properties"].items() if value.isdecimal()}
    # The table is larger than the buffers: each scan reads it again.
    assert counts["work_lookups"] >= counts["work_reads"] > 2048
    assert counts["work_transactions"] > 2
    if which == "18":
        assert counts["work_evictions"] > 0
        # Some copies were made before and after the counted interval.
        assert 0.4 * copies * copy["pages"] < counts["work_extends"] < 2 * copies * copy["pages"]
    assert sum(value for name, value in counts.items() if name.startswith("buffers_u")) == 2048
    assert 0 < counts["buffers_dirty"] <= 2048
    wal = written(summary)
    assert wal is not None and wal.records > 100
    assert said[0].startswith("unknown without page accesses")
    with pytest.raises(HostError, match="counters and no page accesses"):
        surface(SurfaceRequest(trace))
    shown = CliRunner().invoke(app, ["trace", "info", str(trace)]).output
    assert "counted by the server" in shown and "2,048 buffers at the end" in shown

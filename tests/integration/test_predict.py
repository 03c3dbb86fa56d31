"""A package's server traced while pgbench runs: the prediction for its own size equals its counters."""

import os
import shutil
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.servers import data_directory, running

from octavo.errors import OctavoError
from octavo.host import children
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import DATABASE, Server
from octavo.predict.predict import Request, predict
from octavo.trace.files import summarize
from octavo.trace.record.recorder import RecordingRequest, RecordingResult, record

_PACKAGES = sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"))

pytestmark = [
    pytest.mark.alone,  # without free CPUs bpftrace loses events, and nothing is equal
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("bpftrace") is None or not _PACKAGES,
        reason="probes need root, bpftrace, and a PostgreSQL of the distribution's packages with pgbench",
    ),
]
_SECONDS = 10.0
_SETTINGS = {"shared_buffers": "4MB", "autovacuum": "off"}


def _counters(server: Server) -> tuple[int, int]:
    """The number of blocks read, and of transactions."""
    with server.connect(DATABASE) as connection:
        row = connection.execute(
            "SELECT sum(blks_read)::bigint AS reads, sum(xact_commit)::bigint AS transactions FROM pg_stat_database"
        ).fetchone()
    assert row is not None
    return row["reads"], row["transactions"]


@contextmanager
def _load(server: Server, output: Path) -> Generator[None, None, None]:
    """Two clients that read, while the block runs."""
    client, entry = server.start_client("pgbench", "-n", "-S", "-c", "2", "-T", "3600", DATABASE, output=output)
    try:
        yield
        assert client.poll() is None, output.read_text()
    finally:
        client.kill()
        client.wait()
        children.ended(server.journal, entry)


def _has_accesses(path: Path) -> bool:
    try:
        return summarize(path)["reads"] > 0
    except OctavoError:  # not started
        return False


def test_the_recorded_size_reads_what_the_server_read(journal: Journal, account: Account, tmp_path: Path) -> None:
    package = _PACKAGES[-1].parents[1]
    build = Build(f"package-{package.name}", package, {"version": f"{package.name}.0"})
    trace = tmp_path / "t.octrace"
    with (
        data_directory(build, journal, account) as directory,
        running(build, directory, journal, account, **_SETTINGS) as server,
    ):
        server.run_client("pgbench", "--initialize", "--quiet", "--scale=2", DATABASE)
        found = list[RecordingResult]()
        dsn = f"host={server.socket_directory} port=5432 user=octavo dbname={DATABASE}"
        recording = threading.Thread(
            target=lambda: found.append(record(RecordingRequest(dsn, _SECONDS, trace, None), journal, print))
        )
        with _load(server, tmp_path / "pgbench.log"):
            recording.start()
            while not _has_accesses(trace) and recording.is_alive():
                recording.join(0.1)
            before = _counters(server)
            recording.join()
            after = _counters(server)
    assert found and found[0].lost == 0
    reads, transactions = (two - one for one, two in zip(before, after, strict=True))
    document = predict(Request(trace, memory=64 * 1024**2, device="iops=1000"))
    rows = {row["data_block_bytes"]: row["figures"] for row in document["sizes"]}
    assert rows[8192]["reads_per_transaction"]["value"] == pytest.approx(reads / transactions, rel=0.1)
    # Rows of pgbench are looked up uniformly: other block sizes with the same bytes of buffers hit about as often.
    for block, figures in rows.items():
        assert figures["hit_ratio"]["value"] == pytest.approx(rows[8192]["hit_ratio"]["value"], abs=0.12), block
        assert figures["tps"] is not None and document["recorded"]["clients"] == 2
    assert any("no page changes" in line for line in document["limitations"]) == (
        document["recorded"]["wal_bytes_per_transaction"] > 16
    )

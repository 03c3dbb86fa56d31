"""The simulator's counts compared with PostgreSQL's, on the same accesses.

    .venv/bin/python benchmarks/trace_equality.py [--data-block 4kB,8kB,32kB] [--seconds 20] [--scale 20]

A tracing build (octavo build --traced) of each size runs pgbench while its accesses are recorded; the trace is then
simulated with the server's shared_buffers. The reference is pg_stat_io, reset when the recording has begun, and
pg_stat_checkpointer; at that moment the server's buffers are emptied, and what was recorded before it and after the end
is cut off. Needs the builds, and the server's account or root.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from octavo.host.children import server_account
from octavo.host.journal import Journal
from octavo.postgres.builds import usage
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.cluster import DATABASE, Server
from octavo.postgres.scratch import scratch_server
from octavo.trace import files, simulate
from octavo.trace.record.recorder import RecordingRequest, record

_MODES: dict[str, Sequence[str]] = {"read-only": ("-S",), "read-write": ("-N",), "tpcb": ()}
_COUNTERS = b"""
SELECT sum(hits)::bigint AS hits, (sum(read_bytes) / current_setting('block_size')::int)::bigint AS reads,
       sum(reads)::bigint AS requests, sum(evictions + coalesce(reuses, 0))::bigint AS evictions,
       (sum(extend_bytes) / current_setting('block_size')::int)::bigint AS extends,
       (SELECT buffers_written FROM pg_stat_checkpointer) AS checkpoint_writes,
       (SELECT wal_fpi FROM pg_stat_wal) AS full_page_images
FROM pg_stat_io WHERE object = 'relation'
"""
_ARE_CONNECTED = b"SELECT 1 AS one FROM pg_stat_activity WHERE application_name = 'pgbench' LIMIT 1"
# The recorder's session reports its earlier reads when it queries again, a second later; then the counters are reset.
_HAS_REPORTED = b"""
SELECT FROM pg_stat_activity
WHERE application_name = 'octavo trace' AND state = 'idle' AND query LIKE '%pg_stat_wal%'
      AND query_start > backend_start + interval '1200 ms'
"""
# Between the reset of the counters and pgbench: longer than from the recording's first message to its first record.
_QUIET_SECONDS = 0.5
_NAMES = ("hits", "reads", "requests", "evictions", "extends", "checkpoint_writes", "full_page_images")


def main() -> None:
    """Runs every size and workload, and prints both sides."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-block", default="4kB,8kB,32kB")
    parser.add_argument("--mode", default="read-only,read-write")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--scale", type=int, default=20, help="pgbench's")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--shared-buffers", default="64MB")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    arguments = parser.parse_args()
    found: list[dict[str, Any]] = []
    for block in arguments.data_block.split(","):
        for mode in arguments.mode.split(","):
            real, ours, transactions = compare(block, mode, arguments)
            found.append({"data_block": block, "mode": mode, "transactions": transactions, "real": real, "ours": ours})
            show(block, mode, real, ours)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1))


def compare(block: str, mode: str, arguments: argparse.Namespace) -> tuple[dict[str, int], dict[str, int], int]:
    """One workload at one size: what the server counted, what the simulator counts, and the transactions."""
    build = usage.find_cached(BuildSpec("18", block, "8kB", traced=True), None)
    if build is None:
        sys.exit(f"there is no tracing build with {block} data blocks: octavo build --traced --data-block {block}")
    settings = {"shared_buffers": arguments.shared_buffers, "autovacuum": "off", "max_connections": "40"}
    with (
        tempfile.TemporaryDirectory() as directory,
        Journal() as journal,
        scratch_server(build, journal, server_account(), settings) as server,
    ):
        trace = Path(directory, "t.octrace")
        with server.connect("postgres") as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}".encode())
        server.run_client("pgbench", "--initialize", "--quiet", f"--scale={arguments.scale}", DATABASE)
        with server.connect(DATABASE) as connection:
            connection.execute("CREATE EXTENSION pg_buffercache")
            connection.execute("CHECKPOINT")
        recording, began = _recording(server, trace, arguments.seconds + 5, journal)
        with server.connect(DATABASE) as connection:
            connection.execute("SELECT pg_buffercache_evict_all()")
            for shared in ("io", "checkpointer", "wal"):
                connection.execute(f"SELECT pg_stat_reset_shared('{shared}')".encode())
        reset = time.monotonic() - began
        time.sleep(_QUIET_SECONDS)
        options = ["-n", *_MODES[mode], "-c", str(arguments.clients), "-j", "2", "-T", str(arguments.seconds)]
        server.run_client("pgbench", *options, DATABASE)
        with server.connect(DATABASE) as connection:
            while connection.execute(_ARE_CONNECTED).fetchone() is not None:
                time.sleep(0.1)  # backends report their counters when they end
            if mode != "read-only":
                connection.execute("CHECKPOINT")
            connection.execute(_COUNTERS)  # reads the catalog, so that the second query does not
            connection.execute("SELECT pg_stat_force_next_flush()")
            real = dict(connection.execute(_COUNTERS).fetchone() or {})
            counted = time.monotonic() - began
            recording.join()
        part = trace.with_name("part.octrace")
        files.cut(trace, part, reset, counted, None)
        document = simulate.simulate(simulate.SimulationRequest(part))
    (ours,) = document["servers"]
    return {name: int(real[name]) for name in _NAMES}, {name: ours[name] for name in _NAMES}, document["transactions"]


def _recording(server: Server, trace: Path, seconds: float, journal: Journal) -> tuple[threading.Thread, float]:
    """A running recording, whose session has reported its own reads, and when it began.

    The trace's time begins slightly later.
    """
    began, times = threading.Event(), list[float]()
    dsn = f"host={server.socket_directory} port=5432 user=octavo dbname={DATABASE}"
    thread = threading.Thread(
        target=lambda: record(
            RecordingRequest(dsn, seconds, trace, None),
            journal,
            lambda _text: (times.append(time.monotonic()), began.set()),
        ),
        daemon=True,
    )
    thread.start()
    if not began.wait(30):
        sys.exit("the recording did not begin within 30 s")
    with server.connect(DATABASE) as connection:
        while connection.execute(_HAS_REPORTED).fetchone() is None:
            time.sleep(0.1)
    return thread, times[0]


def show(block: str, mode: str, real: Mapping[str, int], ours: Mapping[str, int]) -> None:
    """Prints a line per counter."""
    print(f"{block}, {mode}")
    for name in _NAMES:
        apart = f"{100 * (ours[name] / real[name] - 1):+.2f} %" if real[name] else "–"
        print(f"  {name:18} {real[name]:>12,} counted {ours[name]:>12,} simulated {apart:>10}", flush=True)


if __name__ == "__main__":
    main()

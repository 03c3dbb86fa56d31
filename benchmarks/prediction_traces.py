"""Traces for validating octavo predict: pgbench, a skewed script, the TPC-C-like mix and a scan on a tracing build.

    .venv/bin/python -m benchmarks.prediction_traces DIRECTORY [--workloads read-only,read-write,tpcb,skewed,tpcc,tpch]

One server with 8 kB data blocks; each recording is preceded by a run of the workload and a checkpoint. `skewed` looks
up and updates accounts by pgbench's random_zipfian, `tpch` is its query 6. Needs the build (octavo build --traced), and
the server's account or root. NAME.json beside each trace describes its workload.
"""

import argparse
import json
import sys
import threading
import time
from pathlib import Path

from benchmarks import prediction_workloads

from octavo.host.children import server_account
from octavo.host.journal import Journal
from octavo.postgres.builds import usage
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.cluster import DATABASE, Server
from octavo.postgres.scratch import scratch_server
from octavo.trace.record.recorder import RecordingRequest, record


def main() -> None:
    """Makes the server and records each workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--workloads", default="read-only,read-write")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--scale", type=int, default=34)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--shared-buffers", default="64MB")
    parser.add_argument("--warm", type=int, default=100_000, help="transactions before; a thousandth with tpch")
    asked = parser.parse_args()
    build = usage.find_cached(BuildSpec("18", "8kB", "8kB", traced=True), None)
    if build is None:
        sys.exit("there is no tracing build with 8kB data blocks: octavo build --traced --data-block 8kB")
    asked.directory.mkdir(parents=True, exist_ok=True)
    settings = {"shared_buffers": asked.shared_buffers, "autovacuum": "off", "max_connections": "40",
                "max_wal_size": "16GB", "checkpoint_timeout": "1h"}  # fmt: skip
    with Journal() as journal, scratch_server(build, journal, server_account(), settings) as server:
        prediction_workloads.fill(server, asked.workloads.split(","), asked.scale)
        with server.connect(DATABASE) as connection:
            try:
                connection.execute("CREATE EXTENSION pg_walinspect")
            except Exception as error:  # the build may have no contrib of that name
                print(f"kinds of WAL records stay unknown: {error}", flush=True)
        for name in asked.workloads.split(","):
            one(server, name, asked, journal)


def one(server: Server, name: str, asked: argparse.Namespace, journal: Journal) -> None:
    """Records one workload, in the middle of a longer run of it."""
    out = asked.directory / f"{name}.octrace"
    out.unlink(missing_ok=True)
    with prediction_workloads.script(server, name) as options:
        client = ["pgbench", "-n", "-M", "prepared", *options, "-c", str(asked.clients), "-j", "2"]
        # Remove the after-effects of other workloads: the first reader of an updated row sets its hint bits, and with
        # checksums that is a full-page image.
        warm = asked.warm // (1000 if name == "tpch" else 1) // asked.clients
        server.run_client(*client, "-t", str(max(1, warm)), DATABASE)
        _recorded(server, name, client, asked, journal, out)


def _recorded(
    server: Server, name: str, client: list[str], asked: argparse.Namespace, journal: Journal, out: Path
) -> None:
    run = threading.Thread(target=lambda: server.run_client(*client, "-T", str(asked.seconds + 8), DATABASE))
    run.start()
    while clients(server) < asked.clients and run.is_alive():
        time.sleep(0.2)
    with server.connect(DATABASE) as connection:
        connection.execute("CHECKPOINT")
    dsn = f"host={server.socket_directory} port=5432 user=octavo dbname={DATABASE}"
    found = record(RecordingRequest(dsn, asked.seconds, out, None, names=True), journal, print)
    run.join()
    print(f"{name}: {found.accesses:,} accesses", flush=True)
    (out.with_suffix(".json")).write_text(json.dumps({"workload": name, "scale": asked.scale}))


def clients(server: Server) -> int:
    """The number of pgbench's connections."""
    with server.connect("postgres") as connection:
        row = connection.execute(
            "SELECT count(*) AS n FROM pg_stat_activity WHERE application_name = 'pgbench'"
        ).fetchone()
    return int(row["n"]) if row else 0


if __name__ == "__main__":
    main()

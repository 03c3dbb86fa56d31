"""What real servers of every data block read and log per transaction, beside what a trace predicts.

    .venv/bin/python -m benchmarks.predict_counts DIRECTORY --workloads tpcb,skewed --out points.json

DIRECTORY has traces of benchmarks/prediction_traces.py. Each block's own build runs the same workload for a number of
transactions, first to warm, then counted from a checkpoint on; only counts are compared (reads from the kernel, WAL,
full-page images), which do not depend on what else the machine does.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks import prediction_traces

from octavo.host.children import server_account
from octavo.host.journal import Journal
from octavo.postgres.builds import usage
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.cluster import DATABASE, Server
from octavo.postgres.scratch import scratch_server
from octavo.predict.predict import Request, predict
from octavo.trace.files import summarize
from octavo.trace.simulate import recorded_seconds

_COUNTS = """
SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 AS wal, wal_fpi::float8 AS images,
       (SELECT (sum(read_bytes) / current_setting('block_size')::int)::float8
        FROM pg_stat_io WHERE object = 'relation' AND backend_type = 'client backend') AS reads
FROM pg_stat_wal
"""
FIGURES = {
    "reads_per_transaction": "reads",
    "wal_bytes_per_transaction": "wal",
    "full_page_images_per_transaction": "images",
}


def main() -> None:
    """Measures and compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--workloads", default="tpcb,skewed")
    parser.add_argument("--blocks", default="1kB,2kB,4kB,8kB,16kB,32kB")
    parser.add_argument("--scale", type=int, default=34)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--warm", type=int, default=40_000, help="transactions before")
    parser.add_argument("--transactions", type=int, default=20_000, help="that are counted")
    parser.add_argument("--shared-buffers", default="64MB")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    points: list[dict[str, Any]] = []
    predicted = {name: by_block(name, asked) for name in asked.workloads.split(",")}
    for block in asked.blocks.split(","):
        build = usage.find_cached(BuildSpec("18", block, "8kB"), None)
        if build is None:
            sys.exit(f"there is no build with {block} data blocks: octavo build --data-block {block}")
        settings = {"shared_buffers": asked.shared_buffers, "autovacuum": "off", "max_connections": "40",
                    "max_wal_size": "16GB", "checkpoint_timeout": "1h"}  # fmt: skip
        with Journal() as journal, scratch_server(build, journal, server_account(), settings) as server:
            with server.connect("postgres") as connection:
                connection.execute(f"CREATE DATABASE {DATABASE}".encode())
            server.run_client("pgbench", "--initialize", "--quiet", f"--scale={asked.scale}", DATABASE)
            with server.connect(DATABASE) as connection:
                connection.execute("VACUUM (FREEZE, ANALYZE)")
            for name, sizes in predicted.items():
                counted = measure(server, name, asked)
                points += compared(name, block, sizes, counted, asked)
                asked.out.write_text(json.dumps(points, indent=1))


def by_block(name: str, asked: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """What the trace predicts: a cycle is so many transactions as will be counted."""
    trace = asked.directory / f"{name}.octrace"
    tps = predict(Request(trace, data_blocks=(8192,), checkpoint=_length(trace)))["recorded"]["tps"]
    document = predict(Request(trace, checkpoint=max(1.0, min(asked.transactions / tps, _length(trace)))))
    return {f"{row['data_block_bytes'] // 1024}kB": row["figures"] for row in document["sizes"]}


def _length(trace: Path) -> float:
    return recorded_seconds(summarize(trace)) or 1.0


def measure(server: Server, name: str, asked: argparse.Namespace) -> dict[str, float]:
    """Counts of a transaction."""
    options = list(prediction_traces.WORKLOADS[name])
    if name == "skewed":
        script = server.socket_directory / "skewed.sql"
        script.write_text(prediction_traces.SKEWED)
        script.chmod(0o644)
        options = ["-f", str(script)]
    each = ["pgbench", "-n", "-M", "prepared", *options, "-c", str(asked.clients), "-j", "2"]
    server.run_client(*each, "-t", str(asked.warm // asked.clients), DATABASE)
    with server.connect(DATABASE) as connection:
        connection.execute("CHECKPOINT")
    before = counts(server)
    server.run_client(*each, "-t", str(asked.transactions // asked.clients), DATABASE)
    after = counts(server)
    return {key: (after[key] - before[key]) / asked.transactions for key in before}


def counts(server: Server) -> dict[str, float]:
    """What the server counted so far; backends have ended by then, and have reported."""
    with server.connect(DATABASE) as connection:
        row = connection.execute(_COUNTS).fetchone() or {}
    return {key: float(value or 0) for key, value in row.items()}


def compared(
    name: str, block: str, sizes: dict[str, dict[str, Any]], counted: dict[str, float], asked: argparse.Namespace
) -> list[dict[str, Any]]:
    """A point a figure."""
    found: list[dict[str, Any]] = []
    for figure, key in FIGURES.items():
        interval = sizes[block][figure]
        if interval is None or counted[key] < 0.02:
            continue
        error = interval["value"] / counted[key] - 1
        print(f"{name} {block} {figure}: {counted[key]:.4g} counted, {interval['value']:.4g} predicted, {error:+.1%}",
              flush=True)  # fmt: skip
        found.append({"workload": name, "metric": figure, "data_block": block, "measured": counted[key],
                      "predicted": interval["value"], "low": interval["low"], "high": interval["high"],
                      "because": interval["because"], "error": error, "shared_buffers": asked.shared_buffers,
                      "is_covered": interval["low"] <= counted[key] <= interval["high"]})  # fmt: skip
    return found


if __name__ == "__main__":
    main()

"""What real servers of every data block read and log per transaction, compared with the prediction from a trace.

    .venv/bin/python -m benchmarks.predict_counts measure --blocks 4kB --shared-buffers 16MB,32MB --out measured.json
    .venv/bin/python -m benchmarks.predict_counts compare DIRECTORY measured.json --out points.json

`measure` runs the workloads for a number of transactions on each block's own build: first to warm up, until a round
reads as much as the one before, then counted from a checkpoint on. Only counts are taken (reads from the kernel and
from the device, WAL, full-page images), which hardly depend on other load. With --memory the server is in a memory
group, and the final size of its page cache is part of the condition. If the machine's page cache was dropped
(drop_caches) after the last warm-up round, the device's reads are left out. `compare` predicts the same counts from
traces of benchmarks/prediction_traces.py in DIRECTORY, which may have been recorded at another shared_buffers.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import prediction_workloads

from octavo.host import cgroup, process_table
from octavo.host.children import server_account
from octavo.host.journal import Journal
from octavo.postgres.builds import usage
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.cluster import DATABASE, Server
from octavo.postgres.scratch import scratch_server
from octavo.predict.predict import Request, predict
from octavo.trace.files import summarize
from octavo.trace.simulate import recorded_seconds
from octavo.units import parse_size

_COUNTS = """
SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 AS wal, wal_fpi::float8 AS images,
       (SELECT (sum(read_bytes) / current_setting('block_size')::int)::float8
        FROM pg_stat_io WHERE object = 'relation' AND backend_type = 'client backend') AS reads
FROM pg_stat_wal
"""
FIGURES = {
    "reads_per_transaction": "reads",
    "device_read_bytes_per_transaction": "device_read_bytes",
    "wal_bytes_per_transaction": "wal",
    "full_page_images_per_transaction": "images",
}
_SETTLED = 0.95
_MOST_WARMING = 10
# Below this count a ratio is not meaningful.
_LEAST = {"reads": 0.02, "device_read_bytes": 200.0, "wal": 50.0, "images": 0.02}


def main() -> None:
    """Measures, or compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    one = verbs.add_parser("measure")
    one.set_defaults(verb=measured)
    one.add_argument("--workloads", default="read-only,read-write,tpcb,skewed")
    one.add_argument("--blocks", default="1kB,2kB,4kB,8kB,16kB,32kB")
    one.add_argument("--scale", type=int, default=10)
    one.add_argument("--clients", type=int, default=8)
    one.add_argument("--warm", type=int, default=20_000, help="transactions of a round before; a hundredth with tpch")
    one.add_argument("--transactions", type=int, default=20_000, help="that are counted")
    one.add_argument("--shared-buffers", default="16MB")
    one.add_argument("--memory", help="of the server's group, such as 128MB")
    one.add_argument("--out", type=Path, required=True)
    other = verbs.add_parser("compare")
    other.set_defaults(verb=compared)
    other.add_argument("directory", type=Path)
    other.add_argument("measured", type=Path, nargs="+")
    other.add_argument("--readahead", default="128kB", help="read_ahead_kb of the device that was measured")
    other.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    asked.verb(asked)


def measured(asked: argparse.Namespace) -> None:
    """Adds a row for each block, shared_buffers and workload to the file."""
    rows: list[dict[str, Any]] = json.loads(asked.out.read_text()) if asked.out.exists() else []
    names = asked.workloads.split(",")
    for block in asked.blocks.split(","):
        build = usage.find_cached(BuildSpec("18", block, "8kB"), None)
        if build is None:
            sys.exit(f"there is no build with {block} data blocks: octavo build --data-block {block}")
        for buffers in asked.shared_buffers.split(","):
            settings = {"shared_buffers": buffers, "autovacuum": "off", "max_connections": "40",
                        "max_wal_size": "16GB", "checkpoint_timeout": "1h"}  # fmt: skip
            with (
                Journal() as journal,
                _group(asked, journal) as group,
                scratch_server(build, journal, server_account(), settings, group) as server,
            ):
                prediction_workloads.fill(server, names, asked.scale)
                for name in names:
                    counted = _counted(server, name, asked, group)
                    row = {"workload": name, "data_block": block, "shared_buffers": buffers, **counted}
                    print(json.dumps(row), flush=True)
                    rows.append(row)
                    asked.out.write_text(json.dumps(rows, indent=1))


def _group(asked: argparse.Namespace, journal: Journal) -> AbstractContextManager[Path | None]:
    if asked.memory is None:
        return nullcontext()
    return cgroup.group("predict-counts", journal, memory=parse_size(asked.memory))


def _counted(server: Server, name: str, asked: argparse.Namespace, group: Path | None) -> dict[str, float | None]:
    """Counts per transaction, and the final size of the page cache."""
    part = 100 if name == "tpch" else 1
    transactions = asked.transactions // part // asked.clients * asked.clients
    with prediction_workloads.script(server, name) as options:
        each = ["pgbench", "-n", "-M", "prepared", *options, "-c", str(asked.clients), "-j", "2"]
        drops = _warm(server, [*each, "-t", str(asked.warm // part // asked.clients), DATABASE])
        with server.connect(DATABASE) as connection:
            connection.execute("CHECKPOINT")
        before, table = _counts(server), _processes(server)
        server.run_client(*each, "-t", str(transactions // asked.clients), DATABASE)
        after, then = _counts(server), _processes(server)
    read = sum(process_table.growth(table, then, lambda one: one.read_bytes or 0).values())
    found: dict[str, float | None] = {key: (after[key] - before[key]) / transactions for key in before}
    emptied = _drops() > drops
    return {**found, "device_read_bytes": None if emptied else read / transactions, "transactions": transactions,
            "page_cache": None if emptied or group is None else _page_cache(group)}  # fmt: skip


def _drops() -> int:
    """How often the page cache was dropped since boot."""
    words = Path("/proc/vmstat").read_text().split()
    return int(words[words.index("drop_pagecache") + 1])


def _warm(server: Server, load: list[str]) -> int:
    """Runs the load until it reads hardly less than the time before: predictions are for full caches, and where all
    data fits, reading all of it may take long. Returns the `_drops` before the last round."""
    before, drops = None, 0
    for _ in range(_MOST_WARMING):
        start, drops = _counts(server)["reads"], _drops()
        server.run_client(*load)
        reads = _counts(server)["reads"] - start
        if before is not None and reads >= _SETTLED * before:
            return drops
        before = reads
    print(f"still reading less each time after {_MOST_WARMING} times", flush=True)
    return drops


def _processes(server: Server) -> dict[int, process_table.Process]:
    """The server's processes; the reads of ended backends are in the postmaster's account."""
    root = server.process.pid
    table = process_table.settled_table(root, storage=True)
    return {pid: table[pid] for pid in process_table.tree(root, table)}


def _page_cache(group: Path) -> float:
    """Bytes of file pages, without shared memory, that are charged to the group."""
    words = (group / "memory.stat").read_text().split()
    values = {name: float(value) for name, value in list(pairwise(words))[::2]}
    whole = values.get("cache", values.get("file", 0.0))
    return whole - values.get("shmem", 0.0)


def _counts(server: Server) -> dict[str, float]:
    """The server's counters so far; call it when the backends have ended, and so have reported theirs."""
    with server.connect(DATABASE) as connection:
        row = connection.execute(_COUNTS).fetchone() or {}
    return {key: float(value or 0) for key, value in row.items()}


def compared(asked: argparse.Namespace) -> None:
    """Predicts every measured row, and writes a point for each figure."""
    rows: list[dict[str, Any]] = [row for path in asked.measured for row in json.loads(path.read_text())]
    conditions: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        conditions.setdefault((row["workload"], row["shared_buffers"]), []).append(row)
    points: list[dict[str, Any]] = []
    for (name, buffers), here in conditions.items():
        trace = asked.directory / f"{name}.octrace"
        if trace.exists():
            points += _points(trace, name, parse_size(buffers), here, parse_size(asked.readahead))
            asked.out.write_text(json.dumps(points, indent=1))
    for line in summary(points):
        print(line)


def _points(trace: Path, name: str, buffers: int, rows: list[dict[str, Any]], readahead: int) -> list[dict[str, Any]]:
    """A point per figure and row. Sizes whose page cache was measured are predicted with that."""
    caches = [row["page_cache"] for row in rows if row["page_cache"]]
    request = Request(
        trace,
        data_blocks=tuple(sorted({parse_size(row["data_block"]) for row in rows})),
        shared_buffers=(buffers,),
        memory=None if not caches else buffers + round(statistics.median(caches)),
        checkpoint=recorded_seconds(summarize(trace)),
        until_checkpoint=True,
        transactions={parse_size(row["data_block"]): row["transactions"] for row in rows},
        dirty_background=1 << 40,
        readahead=readahead,
    )
    sizes = {row["data_block_bytes"]: row["figures"] for row in predict(request)["sizes"]}
    found: list[dict[str, Any]] = []
    for row in rows:
        for figure, key in FIGURES.items():
            interval = sizes[parse_size(row["data_block"])][figure]
            if interval is None or row[key] is None or row[key] < _LEAST[key]:
                continue
            error = interval["value"] / row[key] - 1
            covered = interval["low"] <= row[key] <= interval["high"]
            print(f"{name} {row['shared_buffers']} {row['data_block']} {key}: {row[key]:.4g} counted, "
                  f"{interval['value']:.4g} predicted ({interval['low']:.4g} to {interval['high']:.4g}, "
                  f"{interval['because']}), {error:+.1%}{'' if covered else ' MISS'}", flush=True)  # fmt: skip
            found.append({"workload": name, "metric": figure, "data_block": row["data_block"], "measured": row[key],
                          "data_block_bytes": parse_size(row["data_block"]), "device": "native",
                          "shared_buffers": row["shared_buffers"], "shared_buffers_bytes": buffers,
                          "predicted": interval["value"], "low": interval["low"], "high": interval["high"],
                          "because": interval["because"], "error": error, "is_covered": covered})  # fmt: skip
    return found


def summary(points: list[dict[str, Any]]) -> list[str]:
    """Rows of a Markdown table: figure, workload, points, median and largest error, share of intervals that contain the
    measured value."""
    found: list[str] = []
    names: list[Callable[[dict[str, Any]], str]] = [lambda one: str(one["workload"]), lambda _: "all"]
    for naming in names:
        groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for one in points:
            groups.setdefault((one["metric"], naming(one)), []).append(one)
        for (metric, name), here in sorted(groups.items()):
            errors = sorted(abs(one["error"]) for one in here)
            held = sum(one["is_covered"] for one in here) / len(here)
            found.append(f"| {metric.replace('_', ' ')} | {name} | {len(here)} | {statistics.median(errors):.1%} | "
                         f"{errors[-1]:.1%} | {held:.0%} |")  # fmt: skip
    return found


if __name__ == "__main__":
    main()

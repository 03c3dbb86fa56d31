"""The clients of pooled connections: the real sysbench and pgbench, and parsing sysbench's output."""

import os
import re
from collections.abc import Mapping

from octavo.errors import OctavoError
from octavo.host import children
from octavo.observation import Metric, observe
from octavo.postgres.cluster import DATABASE, SUPERUSER, Server
from octavo.units import parse_duration, parse_size
from octavo.workload_support import pgbench_client
from octavo.workloads.base import Levels, WorkloadResult
from octavo.workloads.pooled.pooler import program

# sysbench fills a table with one thread.
_TABLES = 4
# The size of a sysbench row with its primary key, and of pgbench's unit of scale, in bytes, as loaded at 8 kB.
_ROW = 252
_SCALE = 15 * 1024**2
_PERCENTILE = 99
# By `mix`: sysbench's own scripts, which use the same tables, and pgbench's.
_SYSBENCH = {"read": "oltp_point_select", "read-write": "oltp_read_write"}
_PGBENCH = {"read": "select-only", "read-write": "tpcb-like"}

_TPS = Metric("tps", "TPS", "1/s", "higher")
_LATENCY = Metric("latency_avg_ms", "average latency", "ms", "lower")
_TAIL = Metric(f"latency_p{_PERCENTILE}_ms", f"latency, {_PERCENTILE}th percentile", "ms", "lower")
_TRANSACTIONS = Metric("transactions", "transactions", "1")
METRICS = (_TPS, _LATENCY, _TAIL, _TRANSACTIONS)


def fill(server: Server, driver: str, database_bytes: int, load: int) -> None:
    """Makes the driver's own tables of about this size. Raises OctavoError when it fails, HostError without
    sysbench."""
    if driver == "pgbench":
        scale = max(1, round(database_bytes / _SCALE))
        finished = server.run_client("pgbench", "--initialize", "--quiet", "--init-steps=dtgp", f"--scale={scale}")
        children.check(finished, "pgbench --initialize")
        return
    options = [*_sysbench(server.client_environment(), database_bytes, load), f"--threads={_TABLES}", "prepare"]
    children.check(_run(server, options), "sysbench prepare")


def run(server: Server, environment: Mapping[str, str], levels: Levels, seed: int) -> WorkloadResult:
    """Runs the measurement with this environment. Raises OctavoError when it measured nothing."""
    asked = round(parse_duration(levels["duration"]))
    connections = levels["connections"]
    if levels["driver"] == "pgbench":
        finished = children.run(
            [
                server.build.program("pgbench"), "--no-vacuum", f"--builtin={_PGBENCH[levels['mix']]}",
                "--protocol=prepared",
                f"--client={connections}", f"--jobs={min(int(connections), os.cpu_count() or 1)}",
                f"--time={asked}", f"--random-seed={seed}",
            ],
            server.journal, role="pgbench", account=server.account, directory=server.socket_directory,
            environment=environment,
        )  # fmt: skip
        return pgbench_client.parse(finished.stdout, finished.stderr, finished.returncode, asked, finished.cpu_seconds)
    options = _sysbench(environment, parse_size(levels["database"]), seed, _SYSBENCH[levels["mix"]])
    options += [f"--threads={connections}", f"--time={asked}", "run"]
    finished = _run(server, options)
    return parse(finished.stdout, finished.stderr, finished.returncode, asked, finished.cpu_seconds)


def parse(stdout: str, stderr: str, returncode: int, seconds_asked: float, cpu_seconds: float) -> WorkloadResult:
    """Parses sysbench's output. Raises OctavoError when it has no result."""
    transactions = _number(r"^[ \t]*transactions:\s+(\d{1,18})\b", stdout)
    seconds = _number(r"^[ \t]*total time:\s+(\d+(?:\.\d+)?)s", stdout)
    latency = _number(r"^[ \t]*avg:\s+(\d+(?:\.\d+)?)", stdout)
    tail = _number(rf"^[ \t]*{_PERCENTILE}th percentile:\s+(\d+(?:\.\d+)?)", stdout)
    if returncode != 0 or not transactions or not seconds or latency is None:
        words = [line for line in (stdout + stderr).splitlines() if "FATAL" in line or "error" in line.lower()]
        raise OctavoError(f"sysbench measured nothing (exit {returncode}): {(words or ['no output'])[0].strip()}")
    ignored = _number(r"^[ \t]*ignored errors:\s+(\d+)", stdout)
    found = [
        observe(_TPS, transactions / seconds),
        observe(_LATENCY, latency),
        observe(_TRANSACTIONS, transactions),
        *([observe(_TAIL, tail)] if tail is not None else []),
    ]
    problems = (f"sysbench ignored {ignored:.0f} errors",) if ignored else ()
    return WorkloadResult(
        tuple(found), seconds, int(transactions), seconds_asked=seconds_asked, client_cpu_seconds=cpu_seconds,
        problems=problems, output=stdout + stderr,
    )  # fmt: skip


def _sysbench(
    environment: Mapping[str, str], database_bytes: int, seed: int, script: str = "oltp_point_select"
) -> list[str]:
    """The common options of prepare and run. Without the secondary index, which point selects never touch."""
    return [
        program("sysbench"), script, "--db-driver=pgsql", f"--pgsql-host={environment['PGHOST']}",
        f"--pgsql-port={environment['PGPORT']}", f"--pgsql-user={SUPERUSER}", f"--pgsql-db={DATABASE}",
        f"--tables={_TABLES}", f"--table-size={max(1, database_bytes // _ROW // _TABLES)}",
        "--create_secondary=off", "--rand-type=uniform", f"--rand-seed={seed % 2**31}", f"--percentile={_PERCENTILE}",
    ]  # fmt: skip


def _run(server: Server, arguments: list[str]) -> children.Finished:
    return children.run(
        arguments, server.journal, role="sysbench", account=server.account, directory=server.socket_directory
    )


def _number(pattern: str, text: str) -> float | None:
    match = re.search(pattern, text, re.MULTILINE)
    return float(match[1]) if match else None

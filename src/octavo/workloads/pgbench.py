"""pgbench, PostgreSQL's own OLTP workload: read-only (-S) and read-write without the hot rows (-N)."""

import os
import re

from octavo.errors import OctavoError
from octavo.factor import Factor, duration, one_of, whole_number
from octavo.host import children
from octavo.observation import Metric, observe
from octavo.postgres.cluster import Server
from octavo.units import parse_duration
from octavo.workloads.base import Levels, WorkloadResult

_MODES = {"read-only": "-S", "read-write": "-N"}
_WARM_SECONDS = 2

_TPS = Metric("tps", "TPS", "1/s", "higher")
_LATENCY = Metric("latency_avg_ms", "average latency", "ms", "lower")
_TRANSACTIONS = Metric("transactions", "transactions", "1")


class Pgbench:
    """Runs the build's own pgbench with `-M prepared`, every client on the server's private socket."""

    factors = (
        Factor("mode", "run", "pgbench -S (read-only) or -N (read-write)", "read-write", one_of(*_MODES)),
        Factor("scale", "cluster", "pgbench's scale: 100,000 accounts each", "25", whole_number(1, 1_000_000)),
        Factor("clients", "run", "concurrent clients", "4", whole_number(1, 10_000)),
        Factor("duration", "run", "length of the measured run", "8s", duration(1, 86_400)),
    )
    metrics = (_TPS, _LATENCY, _TRANSACTIONS)

    def contents(self, levels: Levels) -> tuple[tuple[str, str], ...]:
        """pgbench's tables depend on the scale alone."""
        return (("workload", "pgbench"), ("scale", levels["scale"]))

    def fill(self, server: Server, levels: Levels) -> None:
        """pgbench -i, its rows generated on the client, with primary keys and without foreign keys."""
        children.check(
            server.run_client("pgbench", "--initialize", "--quiet", "--init-steps=dtgp", f"--scale={levels['scale']}"),
            "pgbench --initialize",
        )

    def database_bytes(self, levels: Levels) -> int:
        """About 15 MB a scale, as pgbench's documentation and our loads have it."""
        return int(levels["scale"]) * 15 * 1024**2 + 16 * 1024**2

    def seconds_asked(self, levels: Levels) -> float:
        """The duration's seconds."""
        return parse_duration(levels["duration"])

    def warm(self, server: Server, levels: Levels, seed: int) -> None:
        """A short run of the same kind, with another random sequence than the measured one."""
        children.check(_run(server, levels, seed + 1, _WARM_SECONDS), "pgbench (warm-up)")

    def run(self, server: Server, levels: Levels, seed: int) -> WorkloadResult:
        """The measured run; the seed gives every cell of a round the same random sequence."""
        asked = round(self.seconds_asked(levels))
        finished = _run(server, levels, seed, asked)
        return parse(finished.stdout, finished.stderr, finished.returncode, asked, finished.cpu_seconds)


def _run(server: Server, levels: Levels, seed: int, seconds: int) -> children.Finished:
    clients = int(levels["clients"])
    return server.run_client(
        "pgbench", "--no-vacuum", _MODES[levels["mode"]], "--protocol=prepared",
        f"--client={clients}", f"--jobs={min(clients, os.cpu_count() or 1)}",
        f"--time={seconds}", f"--random-seed={seed}",
    )  # fmt: skip


def parse(stdout: str, stderr: str, returncode: int, seconds_asked: float, cpu_seconds: float) -> WorkloadResult:
    """The result in pgbench's own words. Raises OctavoError when there is none.

    The time that it ran is what it counted the rate over: transactions / tps.
    """
    tps = _number(r"^tps = ([\d.]+)", stdout)
    transactions = _number(r"^number of transactions actually processed: (\d+)", stdout)
    latency = _number(r"^latency average = ([\d.]+) ms", stdout)
    if tps is None or transactions is None or latency is None or tps <= 0:
        words = (stderr.strip() or stdout.strip() or "it said nothing").splitlines()[-1]
        raise OctavoError(f"pgbench measured nothing (exit {returncode}): {words}")
    problems = [line for line in stderr.splitlines() if "error:" in line or "fatal:" in line]
    failed = _number(r"^number of failed transactions: (\d+)", stdout)
    if failed:
        problems.append(f"{failed:.0f} transactions failed")
    if returncode != 0:
        problems.append(f"pgbench ended with exit code {returncode}")
    return WorkloadResult(
        observations=(observe(_TPS, tps), observe(_LATENCY, latency), observe(_TRANSACTIONS, transactions)),
        seconds_asked=seconds_asked,
        seconds=transactions / tps,
        transactions=int(transactions),
        client_cpu_seconds=cpu_seconds,
        problems=tuple(problems),
        output=stdout + stderr,
    )


def _number(pattern: str, text: str) -> float | None:
    match = re.search(pattern, text, re.MULTILINE)
    return float(match[1]) if match else None


WORKLOAD = Pgbench()

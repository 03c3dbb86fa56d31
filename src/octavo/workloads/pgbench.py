"""pgbench, PostgreSQL's own OLTP workload: read-only (-S), read-write without the hot rows (-N), and TPC-B-like."""

import math
import random
from contextlib import AbstractContextManager
from pathlib import Path

from octavo.factor import Factor, one_of
from octavo.postgres.cluster import Server
from octavo.workload_support import pgbench_client, pgbench_tables, pgbench_turns
from octavo.workload_support.age import PACKED, age_factor, churn_of
from octavo.workload_support.pgbench_turns import PausablePgbench
from octavo.workloads.base import Levels, WorkloadResult

_MODES = {"read-only": "select-only", "read-write": "simple-update", "tpcb": "tpcb-like"}
# Churn: rows updated in one transaction, and the share of the table after which it is vacuumed, as by autovacuum
# (autovacuum_vacuum_scale_factor).
_BATCH = 20_000
_VACUUM_SHARE = 0.2


class Pgbench:
    """Runs the build's own pgbench, every client on the server's private socket."""

    factors = (
        Factor(
            "mode", "run", "pgbench -S (read-only), -N (read-write) or its default script (tpcb)", "read-write",
            one_of(*_MODES),
        ),
        *pgbench_tables.FACTORS,
        age_factor("share of the accounts updated before the trials, at random", "%", 1000),
        *pgbench_client.FACTORS,
    )  # fmt: skip
    metrics = pgbench_client.METRICS

    def contents(self, levels: Levels) -> tuple[tuple[str, str], ...]:
        """The levels that pgbench's tables depend on: scale, rows, fill factor, and churn."""
        return (("workload", "pgbench"), *pgbench_tables.contents(levels), ("age", _age(levels)))

    def fill(self, server: Server, levels: Levels, load: int = 1) -> None:
        """Makes pgbench's tables, then runs the churn."""
        pgbench_tables.make(server, levels)
        _churn(server, pgbench_tables.scale_of(levels) * pgbench_tables.ACCOUNTS, churn_of(_age(levels)), load)

    def database_bytes(self, levels: Levels) -> int:
        """The size of the accounts and their index, of the dead space from churn, and of the catalogs."""
        bloat = min(churn_of(_age(levels)) / 100, 2 * _VACUUM_SHARE)
        return int(pgbench_tables.database_bytes(levels) * (1 + bloat)) + 16 * 1024**2

    def seconds_asked(self, levels: Levels) -> float:
        """The seconds of the duration."""
        return pgbench_client.seconds_asked(levels)

    def warm(self, server: Server, levels: Levels, seed: int) -> None:
        """Runs the same mode briefly, with another random sequence than the measured run."""
        pgbench_client.warm(server, levels, seed, script_options(levels))

    def run(self, server: Server, levels: Levels, seed: int) -> WorkloadResult:
        """Runs the measurement. The seed gives every cell of a round the same random sequence."""
        return pgbench_client.measure(server, levels, seed, script_options(levels))

    def client(
        self, server: Server, levels: Levels, seed: int, output: Path
    ) -> AbstractContextManager[PausablePgbench]:
        """The same run without a time limit, for slices."""
        return pgbench_turns.started(server, levels, seed, script_options(levels), output)

    def only_reads(self, levels: Levels) -> bool:
        """Whether the script is pgbench's select-only one."""
        return levels["mode"] == "read-only"


def _age(levels: Levels) -> str:
    """The level of the factor, which runs of older Octavo versions lack."""
    return levels.get("age", PACKED)


def script_options(levels: Levels) -> list[str]:
    """pgbench's options for the script of the level of `mode`."""
    return [f"--builtin={_MODES[levels['mode']]}"]


def _churn(server: Server, accounts: int, percent: int, load: int) -> None:
    """Updates randomly drawn accounts, in transactions of many rows, with VACUUM at autovacuum's intervals.

    The rows of a transaction are updated in the order in which they were drawn (no join that sorts or hashes them), so
    that new versions are placed as by single-row updates. Each load has its own random numbers; cells with the same
    load have the same ones.
    """
    left = math.ceil(accounts * percent / 100)
    if left == 0:
        return
    until_vacuum = every = math.ceil(accounts * _VACUUM_SHARE)
    server.execute("SET enable_hashjoin = off")
    server.execute("SET enable_mergejoin = off")
    server.execute(f"SELECT setseed({random.Random(f'churn/{load}').uniform(-1, 1)!r})")
    while left > 0:
        rows = min(_BATCH, until_vacuum, left)
        server.execute(
            "WITH drawn AS MATERIALIZED (SELECT 1 + floor(random() * "  # noqa: S608  # whole numbers of our own
            f"{accounts})::bigint AS aid FROM generate_series(1, {rows})) "
            "UPDATE pgbench_accounts SET abalance = abalance + 1 FROM drawn WHERE pgbench_accounts.aid = drawn.aid"
        )
        left -= rows
        until_vacuum -= rows
        if until_vacuum == 0:
            server.execute("VACUUM pgbench_accounts")
            until_vacuum = every
    server.execute("RESET enable_hashjoin")
    server.execute("RESET enable_mergejoin")


WORKLOAD = Pgbench()

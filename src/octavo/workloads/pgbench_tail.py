"""pgbench with every transaction's latency, to find even rare stalls. It shares its loads with the workload pgbench.

Logging all transactions costs the client about the time to write a line for each. If TPS matters and the tail does not,
use the workload pgbench, which logs a sample.
"""

from octavo.postgres.cluster import Server
from octavo.workload_support import pgbench_log
from octavo.workloads.base import Levels, WorkloadResult
from octavo.workloads.pgbench import Pgbench, script_options


class PgbenchTail(Pgbench):
    """Runs pgbench's own scripts, with a complete log."""

    metrics = pgbench_log.METRICS

    def run(self, server: Server, levels: Levels, seed: int) -> WorkloadResult:
        """Runs the measurement. The seed gives every cell of a round the same random sequence."""
        return pgbench_log.measure(server, levels, seed, script_options(levels))


WORKLOAD = PgbenchTail()

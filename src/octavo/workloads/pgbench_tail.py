"""pgbench with every transaction's latency, to find even rare stalls. It shares its loads with the workload pgbench.

A log of all transactions costs the client about as much as it costs to write a line each; where TPS is the question and
the tail is not, the workload pgbench logs a sample.
"""

from octavo.postgres.cluster import Server
from octavo.workload_support import pgbench_log
from octavo.workloads.base import Levels, WorkloadResult
from octavo.workloads.pgbench import Pgbench, script_options


class PgbenchTail(Pgbench):
    """Runs pgbench's own scripts, with a whole log."""

    metrics = pgbench_log.METRICS

    def run(self, server: Server, levels: Levels, seed: int) -> WorkloadResult:
        """The measured run; the seed gives every cell of a round the same random sequence."""
        return pgbench_log.measure(server, levels, seed, script_options(levels))


WORKLOAD = PgbenchTail()

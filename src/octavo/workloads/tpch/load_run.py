"""A trial that is a load: five timed steps into an empty database, the WAL of each, and the resulting sizes."""

import time
from dataclasses import dataclass, field

from octavo.observation import Observation, observe
from octavo.postgres import wal_contents
from octavo.postgres.cluster import Server
from octavo.workloads.base import Levels, WorkloadResult
from octavo.workloads.tpch import loading, metrics, schema, usage
from octavo.workloads.tpch.captured import Captured
from octavo.workloads.tpch.loading import LoadStep

# All of a step's WAL is read again, up to this many bytes.
_MOST_WAL = 16 * 1024**3
_SIZES = (
    "SELECT sum(pg_table_size(oid)) AS tables, sum(pg_indexes_size(oid)) AS indexes, "
    "pg_database_size(current_database()) AS whole FROM pg_class WHERE relname = ANY(%s) AND relkind = 'r'"
)


@dataclass(slots=True)
class LoadRecord:
    """The results of a load, step by step."""

    server: Server
    observations: list[Observation] = field(default_factory=list[Observation])
    seconds: float = 0.0
    plans: Captured = field(default_factory=Captured)
    _wal: int = 0
    _before: usage.UsageSnapshot | None = None
    _wal_began: int = 0

    def before(self) -> None:
        """Called before each step."""
        self._wal_began = wal_contents.position(self.server).end
        self._before = usage.snapshot(self.server)

    def after(self, step: LoadStep, used: usage.QueryUsage | None = None) -> None:
        """Called after each step; `used` is given if it differs from the use since `before`. Raises OctavoError."""
        item, used = f"load.{step.name}", used or self.used()
        self.seconds += step.seconds
        self.observations.append(observe(metrics.SECONDS, step.seconds, item=item))
        if step.name == "copy" and step.waited is not None:
            self.observations.append(observe(metrics.WAITED, step.waited, item=item))
        self.observations += usage.observations(used, item, 1, processes=step.processes)
        end = wal_contents.position(self.server)
        written = end.end - self._wal_began
        self._wal += written
        self.observations.append(observe(metrics.WAL_BYTES, float(written), item=item))
        found = wal_contents.contents(self.server, self._wal_began, end, _MOST_WAL)
        self.observations.append(observe(metrics.WAL_HEADERS, float(found.headers), item=item))
        if written > 0:
            self.observations.append(observe(metrics.WAL_READ, found.inspected / written, item=item))
        if found.inspected == written:  # the bytes of a part could not be compared between cells
            self.observations += [
                observe(metrics.WAL_RECORDS, float(found.records), item=item),
                observe(metrics.WAL_IMAGES, float(found.images), item=item),
            ]
        self.plans.add(item, item, step.plans)

    def used(self) -> usage.QueryUsage:
        """The use since `before`."""
        assert self._before is not None
        return usage.between(self._before, usage.snapshot(self.server))

    def result(self, seconds: float, cpu: float) -> WorkloadResult:
        """The result after all steps, with their total seconds and the client's CPU seconds."""
        row = self.server.connection.execute(_SIZES, (list(schema.TABLES),)).fetchone()
        assert row is not None
        sizes = [
            observe(metric, float(value))
            for metric, value in zip(metrics.SIZES, (row["tables"], row["indexes"], row["whole"]), strict=True)
        ]
        totals = [observe(metrics.SECONDS, self.seconds), observe(metrics.WAL_BYTES, float(self._wal))]
        return WorkloadResult(
            observations=(*totals, *self.observations, *sizes),
            seconds=seconds,
            transactions=1,  # the load: figures per transaction are those of a whole load
            client_cpu_seconds=cpu,
            output=self.plans.output(),
            facts=self.plans.facts(),
        )


def run(server: Server, levels: Levels) -> WorkloadResult:
    """Runs the load, in the order of the levels. Raises OctavoError or psycopg.Error when a step fails."""
    one = LoadRecord(server)
    began, cpu = time.monotonic(), time.thread_time()
    loading.load(
        server, levels, loading.ORDERS[levels["order"]], explain=levels["explain"], before=one.before, after=one.after
    )
    return one.result(time.monotonic() - began, time.thread_time() - cpu)

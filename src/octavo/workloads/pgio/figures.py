"""PGIO's figures: what pg_stat_database counted in the measured window, by second and by session.

RIOPS are blocks requested from the kernel (blks_read) per second, CACHE_HITS/s blocks found in shared buffers
(blks_hit), as in the original's runit.sh. LIOPS, blocks looked up, are the sum of both.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from octavo.observation import Metric, Observation, observe
from octavo.workload_support import pgbench_client
from octavo.workloads.base import WorkloadResult

PER_THREAD = Metric("liops_per_thread", "LIOPS per thread", "1/s", "higher")
LIOPS = Metric("liops", "LIOPS of all threads (blocks accessed in shared buffers)", "1/s", "higher")
BYTES = Metric("looked_for_bytes_per_second", "bytes of the blocks accessed", "bytes/s", "higher")
HITS = Metric("cache_hits_per_second", "CACHE_HITS/s (blocks found in shared buffers)", "1/s")
RIOPS = Metric("riops", "RIOPS (blocks read into shared buffers)", "1/s")
UPDATES = Metric("updates_per_second", "rows updated", "1/s")
LOWEST = Metric("session_liops_min", "LIOPS of the slowest session", "1/s")
MEDIAN = Metric("session_liops_median", "LIOPS of the median session", "1/s")
HIGHEST = Metric("session_liops_max", "LIOPS of the fastest session", "1/s")
OWN_COST = Metric("own_cost_share", "time of a call that reads and updates nothing, share of a call's time", "fraction")

_OF_PGBENCH = tuple(metric for metric in pgbench_client.METRICS if "lag" not in metric.name)
METRICS = (
    PER_THREAD, LIOPS, BYTES, HITS, RIOPS, UPDATES, LOWEST, MEDIAN, HIGHEST, OWN_COST, *_OF_PGBENCH,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CounterGrowth:
    """The growth of pg_stat_database's counters over so many seconds. `bytes` is the block size."""

    hits: float
    reads: float
    updated: float
    seconds: float
    block: int

    @classmethod
    def between(cls, before: Mapping[str, Any], after: Mapping[str, Any], seconds: float, block: int) -> Self:
        """The growth between two readings of the query `database`."""
        hits, reads, updated = (int(after[name]) - int(before[name]) for name in ("hits", "reads", "rows_updated"))
        return cls(hits, reads, updated, seconds, block)

    def as_dict(self) -> dict[str, Any]:
        """The growth for the trial's facts."""
        return asdict(self)

    def observations(self, threads: int, shares: Sequence[float] = ()) -> list[Observation]:
        """The figures; also those of sessions if their shares of the calls are known. Empty if no time has passed."""
        if self.seconds <= 0:
            return []
        looked = (self.hits + self.reads) / self.seconds
        found = [
            observe(PER_THREAD, looked / threads),
            observe(LIOPS, looked),
            observe(BYTES, looked * self.block),
            observe(HITS, self.hits / self.seconds),
            observe(RIOPS, self.reads / self.seconds),
            observe(UPDATES, self.updated / self.seconds),
        ]
        if shares:
            each = [looked * share for share in shares]
            middle = statistics.median(each)
            found += [observe(LOWEST, min(each)), observe(MEDIAN, middle), observe(HIGHEST, max(each))]
        return found


def of_slices(
    result: WorkloadResult, seen: Sequence[Observation], threads: int, block: int, shares: Sequence[float] = ()
) -> tuple[Observation, ...]:
    """The calls of the slices times the average work of a call, from the instrument `database`.

    Empty if the instrument was off or the slices have no calls. `block` is a block's size in bytes.
    """
    numbers = {one.metric: one.value for one in (*result.observations, *seen) if one.item is None}
    calls = numbers.get("tps", 0.0)
    hits, reads = (numbers.get(f"block_{what}_per_transaction") for what in ("hits", "reads"))
    if not calls or hits is None or reads is None:
        return ()
    updated = numbers.get("rows_updated_per_transaction", 0.0)
    return tuple(CounterGrowth(calls * hits, calls * reads, calls * updated, 1.0, block).observations(threads, shares))

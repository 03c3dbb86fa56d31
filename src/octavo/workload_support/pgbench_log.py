"""pgbench's log of every transaction: exact percentiles, the far tail, and the longest time without a finished
transaction.

A line is `client number latency script seconds microseconds` and more (PostgreSQL's documentation of pgbench,
"Per-Transaction Logging"): the latency in µs, the time when the transaction ended. Logging costs the client a line of
about 40 bytes per transaction, and 32 bytes of memory at most when the log is read after the run.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from octavo.errors import OctavoError
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import Server
from octavo.workload_support import pgbench_client
from octavo.workload_support.pgbench_client import percentile
from octavo.workloads.base import Levels, WorkloadResult

_PREFIX = "every_transaction"
# 32 bytes each, while they are sorted; an hour at 50,000 a second.
_MOST_TRANSACTIONS = 200_000_000
_MOST_BYTES = 16 * 1024**3
_PERCENTILES = {
    name: (float(name), Metric(f"latency_p{name.replace('.', '_')}_ms", f"latency, {name}th percentile", "ms", "lower"))
    for name in ("50", "95", "99", "99.9")
}
_LONGEST = Metric("latency_max_ms", "longest transaction", "ms", "lower")
_GAP = Metric("longest_gap_ms", "longest time in which no transaction ended", "ms", "lower")
_SAMPLES = Metric("latency_samples", "transactions in the latency percentiles", "1")
_OURS = (*(metric for _, metric in _PERCENTILES.values()), _LONGEST, _GAP, _SAMPLES)

METRICS = (
    *(metric for metric in pgbench_client.METRICS if metric.name not in {ours.name for ours in _OURS}), *_OURS,
)  # fmt: skip


@dataclass(slots=True)
class FinishedTransactions:
    """The transactions that did not fail, in no order: latency in ms, and when each ended in seconds (epoch)."""

    latencies: array[float] = field(default_factory=lambda: array("d"))
    ended: array[float] = field(default_factory=lambda: array("d"))


def measure(
    server: Server,
    levels: Levels,
    seed: int,
    what: Sequence[str],
    more: Callable[[dict[int, FinishedTransactions], float], Sequence[Observation]] | None = None,
) -> WorkloadResult:
    """As `pgbench_client.measure`, but with every transaction logged.

    `more` makes further observations from the transactions by number of script and the seconds that they took.
    Raises OctavoError when there is nothing to measure.
    """
    try:
        # The later one of two options counts.
        logging = [f"--log-prefix={_PREFIX}", "--sampling-rate=1"]
        result = pgbench_client.measure(server, levels, seed, [*what, *logging])
        by_script = read(_logs(server))
    finally:
        for path in _logs(server):
            path.unlink(missing_ok=True)
    seen = [*tail(by_script.values()), *(more(by_script, result.seconds) if more else ())]
    return replace(result, observations=(*result.observations, *seen))


def read(paths: Iterable[Path]) -> dict[int, FinishedTransactions]:
    """The transactions of these logs, by number of script. Raises OctavoError when there are too many to keep."""
    found: dict[int, FinishedTransactions] = {}
    count = 0
    for line in pgbench_client.log_lines(paths, _MOST_BYTES):
        if (columns := pgbench_client.LOGGED.match(line)) is None:
            continue
        if (count := count + 1) > _MOST_TRANSACTIONS:
            raise OctavoError(f"pgbench logged more than {_MOST_TRANSACTIONS:,} transactions; shorten the trial")
        script = found.setdefault(int(columns[2]), FinishedTransactions())
        script.latencies.append(int(columns[1]) / 1e3)
        script.ended.append(int(columns[3]) + int(columns[4]) / 1e6)
    return found


def tail(scripts: Iterable[FinishedTransactions]) -> list[Observation]:
    """Percentiles, longest transaction and longest gap of all scripts together; nothing of no transactions."""
    whole = list(scripts)
    latencies = _sorted(script.latencies for script in whole)
    if not latencies:
        return []
    found = [observe(metric, percentile(latencies, percent)) for percent, metric in _PERCENTILES.values()]
    longest, count = latencies[-1], len(latencies)
    del latencies  # before as many moments are sorted
    began = min(
        moment - latency / 1e3
        for script in whole
        for latency, moment in zip(script.latencies, script.ended, strict=True)
    )
    moments = _sorted(script.ended for script in whole)
    gap = max(moments[0] - began, longest_gap(moments))
    return [*found, observe(_LONGEST, longest), observe(_GAP, gap * 1e3), observe(_SAMPLES, count)]


def percentiles_of(latencies: array[float], item: str) -> list[Observation]:
    """The percentiles of one kind of transaction."""
    ordered = _sorted([latencies])
    if not ordered:
        return []
    return [observe(metric, percentile(ordered, percent), item=item) for percent, metric in _PERCENTILES.values()]


def longest_gap(moments: Sequence[float]) -> float:
    """The longest time between neighbours of sorted moments, 0 with fewer than two.

    >>> longest_gap([1.0, 1.5, 4.0, 4.5]), longest_gap([1.0])
    (2.5, 0.0)
    """
    import numpy

    return float(numpy.diff(numpy.asarray(moments)).max(initial=0.0))


def _sorted(columns: Iterable[array[float]]) -> array[float]:
    """All values of the columns in order. They take 8 bytes each, where a list would take 32."""
    import numpy

    whole = array("d")
    for column in columns:
        whole.extend(column)
    if whole:
        numpy.frombuffer(whole).sort()  # in place
    return whole


def _logs(server: Server) -> list[Path]:
    """One file for each of pgbench's threads, in the directory that it is started in."""
    return list(server.socket_directory.glob(f"{_PREFIX}.*"))

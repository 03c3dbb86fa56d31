"""The slices of a cell as the result of a trial, with the metrics of sequential pgbench trials."""

import math
from collections.abc import Sequence

from octavo.lab.slices.count import SliceCounts
from octavo.series import Series
from octavo.workload_support.pgbench_client import observed
from octavo.workloads.base import WorkloadResult


def result_of(
    tally: SliceCounts, kept: set[int], *, asked: float, cpu_seconds: float, problems: Sequence[str], output: str
) -> WorkloadResult:
    """The transactions over the seconds of the kept turns; the measured time is that of the whole slices.

    Latencies are those of transactions that began and ended in one slice.
    """
    transactions, seconds = tally.of(kept)
    latencies = tally.latencies(kept)
    observations = observed(
        tps=transactions / seconds if seconds > 0 else 0.0,
        latency_ms=1000 * math.fsum(latencies) / len(latencies) if latencies else None,
        transactions=transactions,
        latencies_ms=[1000 * one for one in latencies],
    )
    return WorkloadResult(
        observations=tuple(observations),
        seconds_asked=asked,
        seconds=math.fsum(one.ended - one.began for one in tally.slices if one.turn in kept),
        transactions=transactions,
        client_cpu_seconds=cpu_seconds,
        problems=tuple(problems),
        output=output,
    )


def series_of(tally: SliceCounts, kept: set[int]) -> Series:
    """The rate of each kept slice at its end, since the first slice began. The cell was paused in between."""
    if not tally.slices:
        return Series.of("tps", "1/s", (), ())
    began = tally.slices[0].began
    mine = [(one.ended - began, tally.rate(place)) for place, one in enumerate(tally.slices) if one.turn in kept]
    return Series.of("tps", "1/s", tuple(at for at, _ in mine), tuple(rate for _, rate in mine))

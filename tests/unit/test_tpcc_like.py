"""pgbench's complete log, the mix of the five transactions, and the kernel's threads that make huge pages."""

import tracemalloc
from array import array
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.planted import KERNEL_THREAD, plant, process

from octavo import workloads
from octavo.instruments.base import UnavailableError
from octavo.instruments.figures import TrialWork, totals
from octavo.instruments.target import Target
from octavo.instruments.thp_mapped import INSTRUMENT as THP_MAPPED
from octavo.instruments.thp_threads import INSTRUMENT as THP_THREADS
from octavo.observation import observe
from octavo.plan.model import known_factors
from octavo.workload_support import pgbench_log
from octavo.workloads import tpcc_like
from octavo.workloads.base import COUNTED, WorkloadResult

LINES = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 10**7), st.integers(0, 10**7)), min_size=1, max_size=60)


def written(path: Path, lines: list[tuple[int, int, int]]) -> Path:
    """A log as pgbench writes it with --max-tries: script, latency in µs, µs after a moment."""
    path.write_text("".join(
        f"{n % 3} {n} {latency} {script} {1_700_000_000 + after // 10**6} {after % 10**6} 0\n"
        for n, (script, latency, after) in enumerate(lines)
    ))  # fmt: skip
    return path


@settings(deadline=None)  # it writes files
@given(LINES)
def test_the_log_of_every_transaction_tells_the_tail(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[int, int, int]]
) -> None:
    half = len(lines) // 2
    directory = tmp_path_factory.mktemp("log")
    by_script = pgbench_log.read([written(directory / "1", lines[:half]), written(directory / "1.1", lines[half:])])
    assert {script: len(found.latencies) for script, found in by_script.items()} == {
        script: sum(line[0] == script for line in lines) for script, _, _ in lines
    }
    found = {observation.metric: observation.value for observation in pgbench_log.tail(by_script.values())}
    latencies = sorted(latency / 1000 for _, latency, _ in lines)
    assert found["latency_max_ms"] == latencies[-1] >= found["latency_p99_9_ms"] >= found["latency_p99_ms"]
    assert sum(latency <= found["latency_p50_ms"] for latency in latencies) * 2 >= len(latencies)
    # Nor did any end before the first one ended: the run began with the earliest of them.
    ends = sorted([min(after - latency for _, latency, after in lines) / 1000, *(after / 1000 for *_, after in lines)])
    gap = max((later - end for end, later in pairwise(ends)), default=0.0)
    assert found["longest_gap_ms"] == pytest.approx(gap, abs=0.02)
    assert found["latency_samples"] == len(lines)


def test_a_long_log_is_sorted_without_a_list_of_its_numbers() -> None:
    """Two hundred million transactions are allowed: lists of their latencies and moments would take 13 GB."""
    count = 100_000
    numbers = array("d", (float(number * 7919 % count) for number in range(count)))
    script = pgbench_log.FinishedTransactions(numbers, array("d", (number / 1e3 for number in numbers)))
    pgbench_log.tail([script])  # imports
    tracemalloc.start()
    try:
        found = {one.metric: one.value for one in pgbench_log.tail([script])}
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 24 * count
    assert (found["latency_max_ms"], found["latency_samples"]) == (count - 1, count)
    assert found["latency_p50_ms"] == count / 2 - 1
    assert found["longest_gap_ms"] == pytest.approx(1.0)


def test_failed_transactions_have_no_latency(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("0 1 failed 0 1700000000 5 0\n0 2 1500 0 1700000000 7 0\n0 3 15")
    (script,) = pgbench_log.read([path]).values()
    assert list(script.latencies) == [1.5]
    assert pgbench_log.tail([]) == []


def test_a_workload_s_metrics_are_named_once() -> None:
    for name in ("pgbench-tail", "tpcc-like"):
        names = [metric.name for metric in workloads.find(name).metrics]
        assert len(names) == len(set(names))
        assert names[0] == "tps"
        assert {"latency_p99_9_ms", "longest_gap_ms"} <= set(names)


def test_pgbench_with_a_whole_log_shares_its_loads_with_pgbench() -> None:
    levels = {factor.name: factor.default for factor in known_factors("pgbench").values()}
    assert workloads.find("pgbench-tail").contents(levels) == workloads.find("pgbench").contents(levels)
    assert set(known_factors("pgbench-tail")) == set(known_factors("pgbench"))


def test_the_mix_is_the_specification_s() -> None:
    mix = tpcc_like.MIX
    weights = {name: weight for name, (_, weight) in mix.items()}
    assert sum(weights.values()) == 10_000
    rolled_back = weights.pop("new order rolled back")
    assert rolled_back / (rolled_back + weights["new order"]) == 0.01
    weights["new order"] += rolled_back
    assert weights == {"new order": 4500, "payment": 4300, "order status": 400, "delivery": 400, "stock level": 400}
    difference = abs(tpcc_like.C_LAST - tpcc_like.C_LAST_OF_LOAD)  # clause 2.1.6.1
    assert 65 <= difference <= 119
    assert difference not in (96, 112)


def planted_threads(root: Path, khugepaged: int | None, kcompactd: int) -> Path:
    kernel = {2: "kthreadd", 40: "kcompactd0", 41: "kcompactd1"} | ({} if khugepaged is None else {50: "khugepaged"})
    files = {"40/schedstat": f"{kcompactd} 7 1\n", "41/schedstat": f"{kcompactd} 7 1\n"}
    if khugepaged is not None:
        files |= {"50/schedstat": f"{khugepaged} 7 1\n"}
    for pid, name in kernel.items():
        files |= process(pid, 0, name, flags=KERNEL_THREAD)
    # A program of that name is none of the kernel's threads.
    files |= process(98, 1, "khugepaged") | {"98/schedstat": f"{5 * kcompactd} 7 1\n"} | process(99, 1, "postgres")
    return plant(root, files)


def target(proc: Path, postmaster: int | None = None) -> Target:
    return Target(lambda _: [], 180000, None, postmaster, None, no_processes="not here", proc=proc)


def test_memory_in_huge_pages_is_the_server_s_own(tmp_path: Path) -> None:
    rollups = {1: (4096, 8192), 2: (2048, 6144), 3: (0, 0)}  # private, shared, in kB
    plant(tmp_path, {"1/task/1/children": "2 3 4\n"} | {
        f"{pid}/smaps_rollup": f"x\nRss: 9 kB\nAnonHugePages: {private} kB\nShmemPmdMapped: {shared} kB\n"
        for pid, (private, shared) in rollups.items()
    })  # fmt: skip
    assert THP_MAPPED.open(target(tmp_path, 1)).read() == {None: {"anon": 6144.0, "shmem": 8192.0}}
    with pytest.raises(UnavailableError, match="not here"):
        THP_MAPPED.open(target(tmp_path))


def test_reading_a_paused_server_takes_it_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, {"1/task/1/children": "", "1/smaps_rollup": "x\nAnonHugePages: 2 kB\nShmemPmdMapped: 3 kB\n"})
    monkeypatch.setattr("octavo.instruments.thp_mapped._BUDGET_SHARE", -1.0)
    with pytest.raises(UnavailableError, match="more than its budget"):
        THP_MAPPED.open(target(tmp_path, 1)).read()
    paused = replace(target(tmp_path, 1), paused=True)
    assert THP_MAPPED.open(paused).read() == {None: {"anon": 2.0, "shmem": 3.0}}


@pytest.mark.parametrize(("before", "after", "seconds"), [(10**9, 3 * 10**9, 2.0), (None, None, 0.0)])
def test_threads_that_make_huge_pages_are_timed(
    tmp_path: Path, before: int | None, after: int | None, seconds: float
) -> None:
    reader = THP_THREADS.open(target(planted_threads(tmp_path, before, 10**9)))
    first = reader.read()
    planted_threads(tmp_path, after, 2 * 10**9)
    last = reader.read()
    reader.close()
    found = {metric.name: value for metric, _, value in totals(THP_THREADS.figures, first, last, 10.0, TrialWork())}
    assert found["khugepaged_cpu_seconds"] == pytest.approx(seconds)
    assert found["khugepaged_cpus"] == pytest.approx(seconds / 10)
    assert found["kcompactd_cpu_seconds"] == pytest.approx(2.0)  # on both memory nodes


def test_where_the_kernels_threads_cannot_be_seen_the_reason_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="container"):
        THP_THREADS.open(target(plant(tmp_path, process(2, 1, "kthreadd"))))


def test_new_orders_of_slices_have_their_share_of_all_transactions() -> None:
    workload = tpcc_like.WORKLOAD
    assert workload.metrics[0].name == "tps"
    tps = observe(workload.metrics[0], 100.0)
    result = WorkloadResult((tps,), 10.0, 1000, facts={COUNTED: Counter({0: 45, 2: 55})})
    (found,) = workload.of_slices({}, result, ())
    assert (found.metric, found.value) == ("new_orders_per_minute", pytest.approx(60 * 45))
    assert workload.of_slices({}, replace(result, facts={COUNTED: Counter()}), ()) == ()

"""The fragmented table, the additional reads of larger page cache units, and where such units exist."""

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo import knobs
from octavo.errors import OctavoError
from octavo.host.block_limit import DeviceLimits
from octavo.host.journal import Journal
from octavo.knobs import device, filesystem, page_cache
from octavo.knobs.base import AS_FOUND, KnobTarget
from octavo.knobs.volume_types import parse_device
from octavo.plan.cells import make_cells
from octavo.plan.presets import find_plan
from octavo.plan.sizes import SIZES
from octavo.postgres.limits import DATA_BLOCKS
from octavo.units import parse_size
from octavo.workload_support.explained import Explained, nodes, shape
from octavo.workloads.kernel_page import WORKLOAD, QueryRun, amplification, observations, parallel, split, text_bytes
from octavo.workloads.kernel_page.effects import limits_of

powers = st.integers(10, 16).map(lambda power: 1 << power)


# ── The formula ───────────────────────────────────────────────────────────────────────────────


@given(powers, powers, st.integers(1, 5))
def test_the_formula_counts_the_units_that_hold_every_tenth_block(block: int, unit: int, times: int) -> None:
    # Whole units, whole strides.
    blocks = math.lcm(10, max(1, unit // block)) * times
    touched: set[int] = set()
    for wanted in range(9, blocks, 10):
        touched.update(range(wanted * block // unit, ((wanted + 1) * block - 1) // unit + 1))
    assert amplification(block, unit) == len(touched) * unit / (blocks // 10 * block)


@pytest.mark.parametrize("level", DATA_BLOCKS)
def test_a_block_has_room_for_one_row_and_no_second(level: str) -> None:
    block = parse_size(level)
    # A page header of 24 bytes, a line pointer of 4, a tuple header of 24, and alignment to 8 (the manual, 66.6).
    row = -(-(24 + 8 + 4 + 4 + text_bytes(block)) // 8) * 8
    free = block - 24 - 4 - row
    assert free >= 0
    kept = block - block * 10 // 100
    assert free - 4 < row + kept


def test_rows_are_whole_strides_and_blocks() -> None:
    levels = {"table": "24000000kB", "data_block": "8kB"}
    assert 3_000_000 * 8192 < WORKLOAD.database_bytes(levels) < 3_000_000 * 8192 * 1.01
    assert WORKLOAD.contents(levels) == WORKLOAD.contents({**levels, "data_block": "4kB"})


# ── The results of a trial ────────────────────────────────────────────────────────────────────


def made_run(seconds: float, read: int, device_bytes: int | None) -> QueryRun:
    plan = {"Node Type": "Aggregate", "Shared Read Blocks": read, "Shared Hit Blocks": 3}
    reads = None if device_bytes is None else device_bytes // 65536
    return QueryRun(Explained(plan, 0.1, seconds * 1000), reads, device_bytes)


def numbers(runs: list[QueryRun], block: int = 8192, unit: int = 65536) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for one in observations(runs, block, unit):
        found.setdefault(one.metric, []).append(one.value)
    return found


def test_medians_of_the_runs_and_each_of_them() -> None:
    wanted = 128 * 8192
    seen = numbers([made_run(9.0, 128, 80 * wanted), made_run(1.0, 128, 8 * wanted), made_run(2.0, 128, 8 * wanted)])
    assert seen["run_ms"] == [2000.0]
    assert seen["each_run_ms"] == [9000.0, 1000.0, 2000.0]
    assert (seen["wanted_mb"], seen["device_mb_per_run"], seen["device_reads_per_run"]) == ([1.0], [8.0], [128.0])
    assert seen["amplification"] == seen["amplification_formula"] == [8.0]
    assert {*seen} <= {metric.name for metric in WORKLOAD.metrics}


def test_what_cannot_be_told_is_left_out() -> None:
    seen = numbers([made_run(1.0, 128, None)])
    assert not {"amplification", "device_reads_per_run", "device_mb_per_run"} & {*seen}
    # All of it is in shared buffers: nothing was requested from the kernel.
    assert "amplification" not in numbers([made_run(1.0, 0, 4096)])


def test_two_effects_are_told_apart() -> None:
    run = made_run(2.44, 5000, 5000 * 65536)
    limits = DeviceLimits(3000.0, 125.0 * 1024**2)
    warm = {one.metric: one.value for one in split([run], 8192, needs_none=True, limits=limits)}
    assert warm["reads_needed"] == 0
    assert warm["device_kb_per_read"] == 64
    assert warm["requests_limit_ms"] == pytest.approx(5000 / 3000 * 1000)
    assert warm["bytes_limit_ms"] == pytest.approx(5000 * 64 / 125 / 1024 * 1000)
    # Requests alone would take 1.67 s, bytes 2.5 s: the excess over the first is the second effect.
    assert warm["more_reads_ms"] == pytest.approx(warm["requests_limit_ms"])
    assert warm["more_reads_ms"] + warm["larger_reads_ms"] == pytest.approx(warm["bytes_limit_ms"])
    cold = {one.metric: one.value for one in split([run], 8192, needs_none=False, limits=limits)}
    assert (cold["reads_needed"], cold["more_reads_ms"]) == (5000, 0)
    assert cold["larger_reads_ms"] == warm["larger_reads_ms"]
    unlimited = {one.metric for one in split([run], 8192, needs_none=True, limits=None)}
    assert unlimited == {"reads_needed", "device_kb_per_read"}
    assert split([made_run(1.0, 5, None)], 8192, needs_none=True, limits=limits) == []
    assert {*warm} <= {metric.name for metric in WORKLOAD.metrics}


@pytest.mark.parametrize(
    ("level", "seconds", "requests"),
    [("gp2:200", 6.0, 3000.0), ("gp2:200,credits=0", 6.0, 600.0), ("gp3:3000/125", 6.0, 3000.0)],
)
def test_limits_are_known_where_they_hold_all_the_time(level: str, seconds: float, requests: float) -> None:
    limits = limits_of(parse_device(level), seconds)
    assert limits is not None and limits.requests == requests


def test_limits_that_change_or_are_none_tell_nothing() -> None:
    assert limits_of(parse_device("gp2:200,credits=12000"), 6.0) is None  # 5 s at 2,400 above the baseline
    assert limits_of(parse_device("native"), 6.0) is limits_of(parse_device("loop"), 6.0) is None


def test_blocks_and_workers_of_all_processes_are_counted() -> None:
    workers = [{"Exact Heap Blocks": 10, "Lossy Heap Blocks": 20}, {"Lossy Heap Blocks": 5}]
    heap = {"Node Type": "Bitmap Heap Scan", "Exact Heap Blocks": 1, "Lossy Heap Blocks": 2, "Workers": workers}
    plan = {"Node Type": "Gather", "Workers Launched": 2, "Plans": [heap]}
    seen = {one.metric: one.value for one in parallel.observations([plan])}
    assert seen == {"workers_launched": 2, "exact_heap_blocks": 11, "lossy_heap_blocks": 27}
    assert parallel.problem_of([plan], "2") is None is parallel.problem_of([plan], "as-planned")
    assert "2 parallel workers took part instead of 3" in (parallel.problem_of([plan], "3") or "")
    assert "2 parallel workers took part instead of 0" in (parallel.problem_of([plan, heap], "0") or "")


def test_a_plan_s_shape_has_no_costs() -> None:
    index = {"Node Type": "Bitmap Index Scan", "Index Name": "demom", "Total Cost": 1.0}
    heap = {"Node Type": "Bitmap Heap Scan", "Relation Name": "demo", "Parallel Aware": True, "Plans": [index]}
    plan = {"Node Type": "Gather", "Workers Launched": 2, "Plans": [heap]}
    assert shape(plan) == "Gather(Parallel Bitmap Heap Scan on demo(Bitmap Index Scan on demom))"
    assert [node["Node Type"] for node in nodes(plan)] == ["Gather", "Bitmap Heap Scan", "Bitmap Index Scan"]


# ── The unit of the page cache ────────────────────────────────────────────────────────────────


def test_the_memory_page_is_used_where_it_is_that_large(monkeypatch: pytest.MonkeyPatch) -> None:
    def can(_kind: str) -> None:
        return None

    monkeypatch.setattr(filesystem, "cannot_make", can)
    monkeypatch.setattr(filesystem, "_kernel", lambda: (6, 12))
    monkeypatch.setattr(page_cache, "memory_page", lambda: 4096)
    assert [page_cache.filesystem_of(level) for level in ("4kB", "8kB", "64kB")] == ["xfs/4kB", "xfs/8kB", "xfs/64kB"]
    assert page_cache.filesystem_of(AS_FOUND) is None
    place = KnobTarget(Path("/"))
    assert page_cache.KNOB.cannot("64kB", place) is None
    monkeypatch.setattr(page_cache, "memory_page", lambda: 65536)
    assert page_cache.filesystem_of("64kB") == "xfs/4kB"
    said = page_cache.KNOB.cannot("16kB", place)
    assert said is not None and "memory page, which is 64kB here" in said


def test_an_old_kernel_has_no_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def can(_kind: str) -> None:
        return None

    monkeypatch.setattr(filesystem, "cannot_make", can)
    monkeypatch.setattr(filesystem, "_kernel", lambda: (6, 11))
    page = os.sysconf("SC_PAGE_SIZE")
    for level in page_cache.LEVELS:
        said = page_cache.KNOB.cannot(level, KnobTarget(Path("/")))
        assert (said is None) == (parse_size(level) == page)


def test_without_root_a_cell_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(page_cache, "memory_page", lambda: 4096)
    for levels in ({"page_cache": "4kB"}, {"page_cache": "64kB", "device": "gp2:200"}):
        assert knobs.cannot(levels, KnobTarget(Path("/"))) == "page_cache: a loop device needs root"


def test_a_unit_needs_a_volume_and_chooses_its_filesystem() -> None:
    assert device.needs_volume({"page_cache": "64kB"})
    assert not device.needs_volume({"page_cache": AS_FOUND})
    said = device.cannot({"page_cache": "64kB", "filesystem": "ext4/4kB"})
    assert said is not None and "leave the factor filesystem out" in said


def test_what_was_asked_for_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def seen(_directory: Path) -> int:
        return 65536

    monkeypatch.setattr(page_cache, "memory_page", lambda: 4096)
    monkeypatch.setattr(page_cache, "measured", seen)
    place = KnobTarget(tmp_path)
    with Journal() as journal:
        with page_cache.KNOB.applied("64kB", journal, place) as achieved:
            assert achieved.achieved.startswith("64kB by XFS blocks, a stand-in for reads: TLB, page tables")
        with (
            pytest.raises(OctavoError, match="16kB requested, but the page cache reads in 64kB"),
            page_cache.KNOB.applied("16kB", journal, place),
        ):
            pass
    assert list(tmp_path.iterdir()) == []


# ── The preset ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", SIZES)
def test_memory_lies_between_the_two_working_sets(size: str) -> None:
    cells = make_cells(find_plan("kernel-page", size=size)[0])
    assert {cell.levels["page_cache"] for cell in cells} >= {"4kB", "64kB"}
    for cell in cells:
        if cell.levels["cache"] == "warm" and cell.levels["settings.debug_io_direct"] == AS_FOUND:
            wanted = parse_size(cell.levels["table"]) / 10
            block, memory = parse_size(cell.levels["data_block"]), parse_size(cell.levels["memory"])
            assert parse_size(cell.levels["shared_buffers"]) < wanted < memory / 2
            assert memory < wanted * amplification(block, parse_size("64kB"))

"""When swapping begins, and which process is largest at each quarter, from moments whose result is known."""

import threading
from pathlib import Path

import pytest
from tests.unit.planted import plant

from octavo.workload_support.server_memory import ProcessMemory
from octavo.workloads.pooled import watch
from octavo.workloads.pooled.watch import Moment, WatchedMemory, watched

MB = 1024**2


def at(seconds: float, *, swap: int = 0, tables: int = 10, group_swap: int | None = None) -> Moment:
    """A client with these tables and this much in swap, and a checkpointer whose Pss is larger than its weight says;
    270 MB are charged to their group beside the kernel's memory."""
    return Moment(
        seconds,
        (
            ProcessMemory(1, "client backend", 200 * MB, swap * MB, tables * MB, 5 * MB, 20 * MB),
            ProcessMemory(2, "checkpointer", 90 * MB, 0, 1 * MB, 1 * MB, 60 * MB),
        ),
        270 * MB,
        None if group_swap is None else group_swap * MB,
    )


def values(watched: WatchedMemory, limit: int | None = 300 * MB) -> dict[str, float]:
    return {one.metric: one.value for one in watched.observations(limit) if one.item is None}


def test_the_onset_is_when_4_mb_are_in_swap_and_what_the_limit_leaves_for_tables() -> None:
    watched = WatchedMemory([at(1), at(2, swap=3, tables=20), at(3, swap=4, tables=37), at(4, swap=90, tables=50)])
    seen = values(watched)
    assert (seen["swap_onset_seconds"], seen["swap_onset_page_tables_bytes"]) == (3, 38 * MB)
    assert seen["swap_onset_predicted_bytes"] == (300 - 270) * MB
    assert seen["swapped_bytes"] == 90 * MB


def test_swap_that_the_group_is_charged_for_counts_and_not_the_sum_over_processes() -> None:
    """80 processes that share a page since the fork all have it in VmSwap."""
    watched = WatchedMemory([at(1, swap=90, group_swap=1), at(2, swap=90, group_swap=5), at(3, group_swap=3)])
    seen = values(watched)
    assert (seen["swap_onset_seconds"], seen["swapped_bytes"]) == (2, 5 * MB)


def test_a_group_is_read_with_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, {"memory.stat": "anon 5\nfile 6\npagetables 4096\n", "memory.swap.current": "7\n"})
    first, second = threading.Event(), threading.Event()

    def look(postmaster: int, *, pss: bool) -> list[ProcessMemory]:
        (second if first.is_set() else first).set()
        return [ProcessMemory(postmaster, "postmaster", 0, 90 * MB, 0)]

    monkeypatch.setattr(watch, "look", look)
    monkeypatch.setattr(watch, "_PERIOD_SECONDS", 0.001)
    with watched(1, 60, tmp_path) as with_limit:
        assert second.wait(60)
    assert (with_limit.moments[0].besides_kernel, with_limit.moments[0].swap) == (11, 7)


def test_without_swap_or_without_a_limit_there_is_no_onset() -> None:
    assert values(WatchedMemory([at(1), at(2)])) == {"swapped_bytes": 0}
    assert "swap_onset_seconds" not in values(WatchedMemory([at(1, swap=9)]), limit=None)
    assert values(WatchedMemory()) == {"swapped_bytes": 0}


def test_each_quarter_has_the_largest_process_of_each_role() -> None:
    found = WatchedMemory(with_pss=[at(5), at(10, swap=50)]).observations(None)
    by_quarter = {(one.metric, one.item, one.repetition): one.value for one in found if one.item}
    assert by_quarter["oom_weight_over_time_bytes", "client backend", 1] == 210 * MB
    assert by_quarter["oom_weight_over_time_bytes", "client backend", 2] == 260 * MB
    assert by_quarter["pss_over_time_bytes", "checkpointer", 2] == 60 * MB
    story = WatchedMemory(with_pss=[at(5)]).story()
    assert story == "after 5 s: heaviest a client backend, largest Pss a checkpointer\n"

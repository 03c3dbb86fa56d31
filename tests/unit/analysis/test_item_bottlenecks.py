"""The bottleneck of each item, from the trials that count."""

from dataclasses import replace

import pytest

from octavo.analysis.item_bottlenecks import item_bottlenecks
from octavo.observation import Observation
from octavo.plan.cells import Cell
from octavo.store.records import TrialRecord

_IDLE = {
    "seconds": 1.0, "server_cpu_share": 0.2, "server_cpu_wait_share": 0.0, "query_device_busy_share": 0.1,
    "query_device_reads": 10.0, "query_device_writes": 0.0, "query_device_read_bytes": 8e4,
    "query_device_written_bytes": 0.0, "query_device_queue": 1.0,
}  # fmt: skip


def trial(cell: str, number: int, **items: dict[str, float]) -> TrialRecord:
    seen = [
        Observation(metric, value, "1", item)
        for item, changes in items.items()
        for metric, value in (_IDLE | changes).items()
    ]
    seen.append(Observation("query_seconds", 3.0, "s"))
    return TrialRecord(cell, number, 1, 1, 1, "ok", None, number, number + 1, 1, tuple(seen))


def test_means_over_trials_name_the_bottleneck_of_each_item() -> None:
    cells = [Cell(name, name, {"device": "native"}, "", name == "b", False, "") for name in ("b", "a", "none")]
    trials = [
        trial("a", 1, q1={"server_cpu_share": 0.7}, q2={}),
        trial("b", 1, q1={"query_device_busy_share": 0.9}),
        trial("a", 2, q1={"server_cpu_share": 1.0}),
        trial("none", 1),
    ]
    rows = item_bottlenecks(cells, {(one.round, 1, one.cell): one for one in trials})
    assert [(row["cell"], row["item"], row["bottleneck"]) for row in rows] == [
        ("b", "q1", "latency"),
        ("a", "q1", "CPU"),
        ("a", "q2", "waiting for neither CPU nor device"),
    ]
    assert rows[1]["cpu_share"] == pytest.approx(0.85)


@pytest.mark.parametrize(("facts", "found"), [({}, "latency"), ({"credits_spent_after_seconds": 0.0}, "requests")])
def test_a_volume_with_credits_left_is_short_of_requests_at_its_burst_only(facts: dict[str, float], found: str) -> None:
    """It has 3000 requests per second with credits, and 300 without."""
    cell = Cell("a", "a", {"device": "gp2:100"}, "", True, False, "")
    its = trial("a", 1, q1={"query_device_busy_share": 0.9, "query_device_reads": 290.0})
    its = replace(its, facts={**facts, "surroundings": {"seconds": 10.0}})
    assert [row["bottleneck"] for row in item_bottlenecks([cell], {(1, 1, "a"): its})] == [found]


def test_an_item_that_was_not_watched_has_none() -> None:
    cell = Cell("a", "a", {}, "", True, False, "")
    seen = (Observation("seconds", 1.0, "s", "q1"),)
    found = TrialRecord("a", 1, 1, 1, 1, "ok", None, 1.0, 2.0, 1, seen)
    assert item_bottlenecks([cell], {(1, 1, "a"): found}) == []


def test_an_item_with_a_cancelled_run_has_none() -> None:
    """Its time is that of the run that ended, its requests those of both."""
    cell = Cell("a", "a", {"device": "native"}, "", True, False, "")
    its = trial("a", 1, q1={"query_device_busy_share": 0.9}, q2={"timed_out": 1.0, "query_device_reads": 9e5})
    assert [row["item"] for row in item_bottlenecks([cell], {(1, 1, "a"): its})] == ["q1"]

"""The bottleneck of a cell: the device's requests or bytes, the CPU, or nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.analysis.cell_bottlenecks import bottleneck_of_effect, cell_bottlenecks, describe
from octavo.observation import Observation
from octavo.plan.cells import Cell
from octavo.store.records import TrialRecord


def cell(name: str, device: str = "native", *, baseline: bool = False, **levels: str) -> Cell:
    its = {"data_block": name, "device": device, **levels}
    return Cell(name, name, its, "here", baseline, control=False, dataset=name)


def trial(
    of: Cell,
    *,
    reads: float = 0.0,
    read_kb: float = 0.0,
    writes: float = 0.0,
    util: float = 1.0,
    queue: float = 8.0,
    cpu: float = 0.2,
    **facts: Any,
) -> TrialRecord:
    numbers = {
        "device_util": util, "cpu_busy_share": cpu, "aqu_sz": queue,
        "device_reads_per_second": reads, "device_writes_per_second": writes,
        "device_read_kb_per_second": read_kb, "device_written_kb_per_second": writes * 8,
    }  # fmt: skip
    seen = tuple(Observation(name, value, "1") for name, value in numbers.items())
    return TrialRecord(of.id, 1, 1, 1, 1, "ok", None, 0.0, 1.0, 1, seen, facts=facts)


def rows(*trials: tuple[Cell, TrialRecord]) -> list[dict[str, Any]]:
    cells = list({one.id: one for one, _ in trials}.values())
    return cell_bottlenecks(cells, {(number, 1, one.id): made for number, (one, made) in enumerate(trials)})


@pytest.mark.parametrize(
    ("device", "reads", "read_kb", "cpu", "resource"),
    [
        ("iops=1000", 980, 7840, 0.3, "requests"),
        ("mbps=8", 980, 7840, 0.3, "bytes"),
        ("iops=1000,mbps=8", 980, 7840, 0.3, "requests and bytes"),
        ("iops=1000,mbps=80", 500, 4000, 0.97, "CPU"),
        ("iops=1000", 500, 4000, 0.3, "nothing"),
        ("loop", 500, 4000, 0.3, "nothing"),  # no limits, and no cell but itself
    ],
)
def test_a_resource_that_is_used_up_has_run_out(
    device: str, reads: float, read_kb: float, cpu: float, resource: str
) -> None:
    one = cell("8kB", device)
    (row,) = rows((one, trial(one, reads=reads, read_kb=read_kb, cpu=cpu)))
    assert row["resource"] == resource


def test_reads_and_writes_share_the_limit() -> None:
    one = cell("8kB", "iops=1000")
    (row,) = rows((one, trial(one, reads=500, read_kb=4000, writes=470)))
    assert (row["resource"], row["requests_share"], row["bytes_share"]) == ("requests", 0.97, None)


def test_a_device_of_unknown_limits_is_held_against_the_most_that_was_seen() -> None:
    sizes = {"1kB": (5000, 5000), "2kB": (5100, 10_200), "16kB": (3900, 62_400), "32kB": (2000, 64_000)}
    idle = cell("8kB")
    found = rows(
        *((one := cell(name), trial(one, reads=reads, read_kb=read)) for name, (reads, read) in sizes.items()),
        (idle, trial(idle, reads=100, read_kb=800, util=0.2)),
    )
    assert [row["resource"] for row in found] == ["requests", "requests", "bytes", "bytes", "nothing"]
    assert [row["limits"] for row in found] == ["most seen"] * 4 + [None]
    assert describe(found[3]) == "bytes (100 % of the highest rate of any cell)"


def test_one_that_is_far_ahead_of_all_others_has_met_no_limit() -> None:
    slow, fast = cell("4kB"), cell("8kB")
    found = rows((slow, trial(slow, reads=1000, read_kb=4000)), (fast, trial(fast, reads=3000, read_kb=24_000)))
    assert [row["resource"] for row in found] == ["nothing", "nothing"]


def test_with_one_request_after_the_other_it_is_the_latency_that_is_waited_for() -> None:
    """Commits of one client: the device is busy nearly all the time, and could serve more requests at once."""
    one, other = cell("8kB"), cell("4kB")
    found = rows(
        (one, trial(one, writes=1500, util=0.93, queue=1.0)), (other, trial(other, writes=1450, util=0.91, queue=0.95))
    )
    assert [row["resource"] for row in found] == ["latency", "latency"]
    assert describe(found[0]) == "latency (the device busy 93 %, 1 requests at a time)"


def test_the_machines_cpu_says_nothing_of_a_server_that_is_pinned() -> None:
    one = cell("8kB", "iops=1000", server_cpus="0-1")
    (row,) = rows((one, trial(one, reads=100, cpu=0.65)))
    assert (row["resource"], row["cpu_share"]) == ("not known", None)
    (row,) = rows((one, trial(one, reads=990, cpu=0.65)))
    assert row["resource"] == "requests"


def test_credits_that_were_spent_on_the_way_lower_the_limit() -> None:
    one = cell("8kB", "gp2:100")  # 3000 requests a second with credits, 300 without
    half = trial(one, reads=1600, credits_spent_after_seconds=5.0, surroundings={"seconds": 10.0})
    (row,) = rows((one, half))
    assert row["requests_share"] == pytest.approx(1600 / 1650)


def test_a_volume_whose_credits_were_spent_at_once_ran_out_at_its_baseline() -> None:
    one = cell("8kB", "gp2:200,credits=0")  # 600 requests a second without credits
    spent = trial(one, reads=600, credits_spent_after_seconds=0.2, surroundings={"seconds": 48.7})
    (row,) = rows((one, spent))
    assert row["resource"] == "requests"
    assert row["requests_share"] == pytest.approx(600 / (600 + 2400 * 0.2 / 48.7))


def test_a_limit_is_what_was_achieved_of_it() -> None:
    one = cell("8kB", "iops=1000")
    probed = {"reads_per_second": 900.0, "writes_per_second": 950.0, "read_bytes_per_second": 1e8}
    (row,) = rows((one, trial(one, reads=900, device_limit_achieved=probed)))
    assert (row["requests_share"], row["bytes_share"]) == (pytest.approx(900 / 950), None)


@given(st.lists(st.floats(1, 1e5), min_size=1, max_size=5))
def test_shares_are_means_over_the_trials(reads: list[float]) -> None:
    one = cell("8kB", "iops=1000")
    (row,) = rows(*((one, trial(one, reads=rate)) for rate in reads))
    assert row["requests_share"] == pytest.approx(sum(reads) / len(reads) / 1000)


def test_the_verdict_names_both_cells_and_nothing_where_nothing_was_seen() -> None:
    cells = [cell("8kB", "iops=1000", baseline=True), cell("4kB", "iops=1000")]
    found = rows(*((one, trial(one, reads=990, util=1.0)) for one in cells))
    effect = {"cell": "4kB", "condition": "here"}
    told = bottleneck_of_effect(found, effect, cells)
    used = "requests (99 % of the device’s limit)"
    assert told == f" Bottlenecks: {used} at 4 kB, {used} at 8 kB."
    idle = rows(*((one, trial(one, reads=10)) for one in cells))
    assert bottleneck_of_effect(idle, effect, cells) == " Neither the device nor the CPU was the bottleneck."
    assert bottleneck_of_effect([], effect, cells) == ""


def test_trials_that_saw_no_device_have_no_row() -> None:
    one = cell("8kB")
    bare = TrialRecord(one.id, 1, 1, 1, 1, "ok", None, 0.0, 1.0, 1, (Observation("tps", 1.0, "1/s"),))
    assert rows((one, bare)) == []

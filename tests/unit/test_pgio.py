"""The workload pgio: its tables, its figures, and who did how much."""

from collections import Counter
from typing import Any

import pytest

from octavo import workloads
from octavo.errors import UsageError
from octavo.lab.slices import sound
from octavo.observation import Observation
from octavo.plan.cells import make_cells
from octavo.plan.model import known_factors
from octavo.plan.presets import find_plan
from octavo.workloads.base import CountsBySlices, MeasuresAfterwards, RunsInTurns, WorkloadResult
from octavo.workloads.pgio import Pgio, figures, sessions, tables
from octavo.workloads.pgio.figures import Counted

LEVELS = {factor.name: factor.default for factor in known_factors("pgio").values()}
BEFORE = {"hits": 9_196_454_698, "reads": 6_919_962, "rows_updated": 988_150}
AFTER = {"hits": 10_070_502_579, "reads": 6_919_975, "rows_updated": 988_183}


def result_of(**numbers: float) -> WorkloadResult:
    return WorkloadResult(
        tuple(Observation(name, value, "1") for name, value in numbers.items()), 1.0, 1.0, 1, 0.0, (), ""
    )


def test_the_published_counters_give_the_published_figures() -> None:
    counted = Counted.between(BEFORE, AFTER, 600.0, 8192)
    values = {one.metric: one.value for one in counted.observations(4)}
    assert int(values["riops"]) == 0
    assert int(values["cache_hits_per_second"]) == 1_456_746
    assert int(values["liops_per_thread"]) == 364_186  # the author has 1,456,746 / 4 rounded up
    assert values["looked_for_bytes_per_second"] == pytest.approx(values["liops"] * 8192)
    assert "session_liops_min" not in values


def test_sessions_share_what_all_of_them_looked_for() -> None:
    counted = Counted(hits=900, reads=100, updated=0, seconds=10.0, block=1024)
    shares = sessions.shares(Counter({0: 1, 1: 2, 3: 5}), 4)
    values = {one.metric: one.value for one in counted.observations(4, shares)}
    assert (values["session_liops_min"], values["session_liops_median"], values["session_liops_max"]) == (
        0,
        18.75,
        62.5,
    )


def test_no_time_and_no_calls_give_no_figure() -> None:
    assert Counted(1, 1, 1, 0.0, 8192).observations(4) == []
    assert sessions.shares({}, 4) == []


def test_slices_count_their_calls_with_the_blocks_of_an_average_call() -> None:
    seen = [
        Observation("block_hits_per_transaction", 12_900.0, "1"),
        Observation("block_reads_per_transaction", 0.0, "1"),
    ]
    values = {one.metric: one.value for one in figures.of_slices(result_of(tps=50.0), seen, 2, 8192)}
    assert values["liops_per_thread"] == 322_500
    assert values["updates_per_second"] == 0
    assert figures.of_slices(result_of(tps=50.0), [], 2, 8192) == ()
    assert figures.of_slices(result_of(tps=0.0), seen, 2, 8192) == ()


@pytest.mark.parametrize(("block", "blocks"), [("1kB", 262_144), ("8kB", 32_768), ("32kB", 8_192)])
def test_a_scale_is_bytes_at_any_block_size(block: str, blocks: int) -> None:
    levels = {**LEVELS, "data_block": block}
    assert tables.blocks_of(levels) == blocks
    assert 1.0 < tables.database_bytes(levels) / (4 * 256 * 1024**2) < 1.1


def test_it_can_be_stopped_and_says_what_it_does() -> None:
    workload = workloads.find("pgio")
    assert isinstance(workload, RunsInTurns)
    assert isinstance(workload, CountsBySlices)
    assert isinstance(workload, MeasuresAfterwards)
    assert workload.only_reads(LEVELS)
    assert not workload.only_reads({**LEVELS, "update_pct": "1"})
    assert workload.metrics[0].name == "liops_per_thread"


def test_a_work_unit_fits_its_schema() -> None:
    def never(*_: Any) -> Any:
        raise AssertionError

    class NoServer:
        execute = query = never

    levels = {**LEVELS, "data_block": "32kB", "scale": "4MB"}
    with pytest.raises(UsageError, match=r"^scale: 4MB has 128 blocks, fewer than a work unit of 255$"):
        Pgio().fill(NoServer(), levels)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", ["quick", "here", "full"])
def test_logical_reads_are_measured_in_slices(size: str) -> None:
    plan, _ = find_plan("pgio-lio", size=size)
    cells = make_cells(plan)
    sound.refuse(plan, workloads.find(plan.workload), cells)
    assert all(tables.database_bytes(cell.levels) < 0.9 * _bytes(cell.levels["shared_buffers"]) for cell in cells)


def _bytes(text: str) -> int:
    from octavo.units import parse_size

    return parse_size(text)

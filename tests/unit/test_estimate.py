"""What a run will take is told before it begins: everything that takes time is in it."""

from pathlib import Path

import pytest

from octavo import workloads
from octavo.knobs import device
from octavo.lab.estimate import RunEstimate, estimate
from octavo.plan.cells import make_cells
from octavo.plan.presets import find_plan
from octavo.workloads import tpcc_like, tpch

from .plans import changed_plan, small_plan


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))


def with_wal(recycled: str) -> RunEstimate:
    plan = small_plan(recycled_wal=[recycled])
    return estimate(plan, make_cells(plan), workloads.find(plan.workload))


def a_trial(regime: str, *settings: str) -> float:
    lines = ("", "[settings]", *settings, "", "[factors]", f'wal_regime = "{regime}"')
    plan = changed_plan({"\n[factors]": "\n".join(lines)})
    needs = estimate(plan, make_cells(plan), workloads.find(plan.workload))
    return needs.trial_seconds / needs.trials


@pytest.mark.parametrize(
    ("settings", "cycle"),
    [
        ((), 300),
        (('checkpoint_timeout = "1min"',), 60),
        (("checkpoint_timeout = 90",), 90),
        (('checkpoint_timeout = "bogus"',), 300),  # PostgreSQL refuses it later, and says so
    ],
)
def test_the_way_to_a_steady_regime_takes_checkpoint_cycles(settings: tuple[str, ...], cycle: float) -> None:
    assert a_trial("steady", *settings) - a_trial("after-checkpoint", *settings) == pytest.approx(3.5 * cycle)


def test_a_trial_gives_up_before_a_cycle_of_a_day_is_over() -> None:
    assert a_trial("steady", 'checkpoint_timeout = "1d"') - a_trial("after-checkpoint") == pytest.approx(1800)


def test_the_wal_that_each_trial_copies() -> None:
    none, one, two = with_wal("64MB"), with_wal("1088MB"), with_wal("2112MB")
    assert one.trials == none.trials > 0
    assert two.trial_seconds - one.trial_seconds == pytest.approx(one.trial_seconds - none.trial_seconds)
    assert one.trial_seconds - none.trial_seconds > one.trials  # a GB is not copied in a second


def test_a_load_that_is_made_row_by_row() -> None:
    plan = find_plan("thp-tpcc-like", size="here")[0]
    cells = make_cells(plan)
    needs = estimate(plan, cells, tpcc_like.WORKLOAD)
    a_load = tpcc_like.WORKLOAD.load_seconds(cells[0].levels)
    assert needs.loads > 0 and needs.prepare_seconds > needs.loads * a_load


def test_loads_that_are_filled_alike_are_copies_of_the_first() -> None:
    plan = find_plan("olap-blocks-data", size="here")[0]
    cells = [cell for cell in make_cells(plan) if cell.levels["data_block"] == "8kB" and not cell.control]
    once = estimate(plan.model_copy(update={"loads": 1}), cells, tpch.WORKLOAD)
    thrice = estimate(plan.model_copy(update={"loads": 3}), cells, tpch.WORKLOAD)
    assert (once.loads, thrice.loads) == (1, 3)
    assert 0 < thrice.prepare_seconds - once.prepare_seconds < tpch.WORKLOAD.load_seconds(cells[0].levels) / 2


def test_repetitions_of_invalid_trials_are_told_apart() -> None:
    """A cell is repeated once, a baseline or control twice; as part of the time they would be an exaggeration."""
    plan = small_plan()
    cells = make_cells(plan)
    needs = estimate(plan, cells, workloads.find(plan.workload))
    compared = [cell for cell in cells if not cell.baseline and not cell.control]
    others = len(cells) - len(compared)
    each = needs.trial_seconds / needs.trials
    assert compared and others
    assert needs.repeat_seconds == pytest.approx(plan.rounds * each * (len(compared) + 2 * others), rel=0.01)


def test_the_probe_of_a_limited_device() -> None:
    assert device.probe_seconds({"device": "native"}) == device.probe_seconds({"device": "loop"}) == 0
    # Two sizes, a second and a quarter each.
    assert device.probe_seconds({"device": "iops=1000,mbps=100"}) == 2.5
    assert device.probe_seconds({"device": "mbps=100"}) == 1.25
    assert device.probe_seconds({"device": "iops=20"}) > device.probe_seconds({"device": "iops=1000"})

"""The estimate of a run's needs before it begins: everything that takes time is included."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from octavo import workloads
from octavo.knobs import device
from octavo.lab.estimate import RunEstimate, estimate
from octavo.lab.loads import bytes_of_copy, bytes_of_load
from octavo.lab.slices import eligibility
from octavo.plan.cells import make_cells
from octavo.plan.presets import find_plan
from octavo.postgres.datasets import disk_space
from octavo.units import parse_size
from octavo.workloads import find, tpcc_like, tpch

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
        (('checkpoint_timeout = "bogus"',), 300),  # PostgreSQL refuses it later, with a message
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
    """A cell is repeated once, a baseline or control twice; to include them in the estimate would exaggerate it."""
    plan = small_plan()
    cells = make_cells(plan)
    needs = estimate(plan, cells, workloads.find(plan.workload))
    compared = [cell for cell in cells if not cell.baseline and not cell.control]
    others = len(cells) - len(compared)
    each = needs.trial_seconds / needs.trials
    assert compared and others
    assert needs.repeat_seconds == pytest.approx(plan.rounds * each * (len(compared) + 2 * others), rel=0.01)


@pytest.fixture
def four_servers_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with memory for four of the small plan's servers at once, and disk space for all."""
    levels = make_cells(small_plan())[0].levels
    one = parse_size(levels["shared_buffers"]) + find("pgbench").database_bytes(levels) + 128 * 1024**2

    def memory(field: str, proc: Path) -> int:
        return int(4.5 * one / 0.9)

    def disk(path: Path) -> SimpleNamespace:
        return SimpleNamespace(free=2**50)

    monkeypatch.setattr(eligibility, "meminfo", memory)
    monkeypatch.setattr(eligibility.shutil, "disk_usage", disk)
    monkeypatch.setattr(disk_space, "available", lambda: 2**50)


def of_six_sizes(interleave: str, **levels: list[str]) -> RunEstimate:
    """The estimate of a condition with 6 data blocks and a control, in 4 rounds."""
    sizes = ["1kB", "2kB", "4kB", "8kB", "16kB", "32kB"]
    text = {"rounds = 4\n": f'rounds = 4\ninterleave = "{interleave}"\n'}
    plan = changed_plan(text, data_block=sizes, mode=["read-only"], **levels)
    return estimate(plan, make_cells(plan), find(plan.workload))


@pytest.mark.usefixtures("four_servers_fit")
def test_baselines_and_controls_of_each_group_of_cells_are_counted() -> None:
    """Five sizes in addition to a baseline and a control, two of them at a time: three groups, each with both."""
    grouped, singly = of_six_sizes("slices"), of_six_sizes("trials")
    assert (singly.trials, singly.again, singly.uncounted) == (4 * 7, 0, False)
    assert (grouped.trials, grouped.again, grouped.uncounted) == (4 * (5 + 3 * 2), 4 * 2 * 2, False)
    assert grouped.trial_seconds == pytest.approx(singly.trial_seconds * grouped.trials / singly.trials, rel=0.01)


@pytest.mark.usefixtures("four_servers_fit")
def test_in_slices_each_cell_of_a_group_has_its_copy_on_the_disk() -> None:
    grouped, singly = of_six_sizes("slices"), of_six_sizes("trials")
    plan = changed_plan({}, data_block=["1kB", "2kB", "4kB", "8kB", "16kB", "32kB"], mode=["read-only"])
    copies = [bytes_of_copy(find("pgbench"), cell.levels) for cell in make_cells(plan)]
    assert 3 * min(copies) <= grouped.disk_bytes - singly.disk_bytes <= 3 * max(copies)


@pytest.mark.usefixtures("four_servers_fit")
def test_groups_that_huge_pages_force_are_said_to_be_uncounted() -> None:
    needs = of_six_sizes("slices", huge_pages=["2MB"])
    assert (needs.again, needs.uncounted) == (0, True)


def test_baselines_of_parts_that_the_disk_forces_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = make_cells(small_plan())[0]
    workload = find("pgbench")
    # Space for the datasets of a baseline, its control and two more cells.
    room = int(4.5 * bytes_of_load(workload, cell.levels)) + bytes_of_copy(workload, cell.levels)
    monkeypatch.setattr(disk_space, "available", lambda: room)
    assert of_six_sizes("trials").again == 4 * 2 * 2
    monkeypatch.setattr(disk_space, "available", lambda: 0)  # the run reports this itself
    assert of_six_sizes("trials").again == 0


def test_the_probe_of_a_limited_device() -> None:
    assert device.probe_seconds({"device": "native"}) == device.probe_seconds({"device": "loop"}) == 0
    # Two sizes, a second and a quarter each.
    assert device.probe_seconds({"device": "iops=1000,mbps=100"}) == 2.5
    assert device.probe_seconds({"device": "mbps=100"}) == 1.25
    assert device.probe_seconds({"device": "iops=20"}) > device.probe_seconds({"device": "iops=1000"})

"""Runs whose cells use host features: huge pages, a limited volume; and the instruments' results meanwhile."""

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_lab import alone, observed, run

from octavo.home import store_path
from octavo.host import block_limit
from octavo.knobs import huge_pages
from octavo.knobs.device import cannot
from octavo.lab.reset import reach_regime
from octavo.plan.presets import find_plan
from octavo.postgres.cluster import Server
from octavo.series import Series
from octavo.store.store import Store
from octavo.units import parse_size
from octavo.workloads.base import Levels, Workload

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
_SMALL = "2MB"


def pool() -> int:
    path = Path(f"/sys/kernel/mm/hugepages/hugepages-{parse_size(_SMALL) // 1024}kB/nr_hugepages")
    return int(path.read_text())


@pytest.mark.alone
@pytest.mark.skipif(parse_size(_SMALL) not in huge_pages.sizes(), reason=f"no huge pages of {_SMALL}")
@pytest.mark.usefixtures("nothing_left")
def test_a_server_on_huge_pages_has_a_pool_of_its_own(home: Path, plan_file: Path) -> None:
    plan_file.write_text(plan_file.read_text().replace('data_block = "8kB"', 'huge_pages = "off"'))
    before = pool()
    changes = {"data_block": ["8kB"], "huge_pages": ["off", _SMALL], "shared_buffers": ["16MB"]}
    ended, document, _ = run(find_plan(str(plan_file), changes=changes, rounds=1)[0])
    assert pool() == before
    assert (ended.outcome.ok, ended.outcome.failed) == (3, 0)
    status = {trial["levels"]["huge_pages"]: trial["cell"] for trial in document["trials"]}
    settings = document["environment"]["settings"]
    assert settings[status["off"]]["huge_pages_status"] == "off"
    assert settings[status[_SMALL]]["huge_pages_status"] == "on"


@pytest.mark.measures
@pytest.mark.usefixtures("nothing_left")
def test_equal_memory_takes_what_else_is_in_shared_memory_off_the_buffers(home: Path, plan_file: Path) -> None:
    changes = {"data_block": ["8kB"], "equal": ["memory"], "shared_buffers": ["64MB"]}
    ended, document, _ = run(find_plan(str(plan_file), changes=changes, rounds=1)[0])
    assert (ended.outcome.ok, ended.outcome.failed) == (2, 0)
    for settings in document["environment"]["settings"].values():
        assert parse_size("16MB") < parse_size(settings["shared_buffers"]) < parse_size("64MB")
        assert parse_size("60MB") < parse_size(settings["shared_memory_size"]) <= parse_size("64MB")


@pytest.mark.measures
@pytest.mark.skipif(block_limit.cannot_limit() is not None, reason="no block limits")
@pytest.mark.skipif(cannot({"filesystem": "ext4/4kB", "device": "loop"}) is not None, reason="no private volumes")
@pytest.mark.usefixtures("nothing_left")
def test_a_cell_on_a_limited_volume_says_what_was_achieved(home: Path, plan_file: Path) -> None:
    plan_file.write_text(alone(plan_file))
    changes = {"data_block": ["8kB"], "device": ["mbps=60"], "mode": ["read-only"]}
    ended, document, _ = run(find_plan(str(plan_file), changes=changes, rounds=1)[0])
    assert ended.outcome.failed == 0
    (trial, *_) = document["trials"]
    facts = trial["facts"]
    asked, achieved = facts["device_limit_asked"], facts["device_limit_achieved"]
    assert asked["read_bytes_per_second"] == 60 * 1024**2
    assert set(achieved) == set(asked)
    phases = list(facts["seconds"])
    assert phases.index("probe") < phases.index("start"), "a checkpoint of the server would use a part of the limit"
    assert facts["volume"]["filesystem"] == "ext4"
    assert trial["status"] == "ok" or facts["rule"] == "device_limit"
    assert observed(trial)["tps"] > 0


@pytest.mark.measures
@pytest.mark.skipif(block_limit.cannot_limit() is not None, reason="no block limits")
@pytest.mark.skipif(block_limit.needs_group(), reason="reads the limits of cgroup version 1")
@pytest.mark.skipif(cannot({"filesystem": "ext4/4kB", "device": "loop"}) is not None, reason="no private volumes")
@pytest.mark.parametrize("regime", ["steady", "after-checkpoint"])
@pytest.mark.usefixtures("nothing_left")
def test_only_a_steady_state_is_one_of_the_limited_device(
    home: Path, plan_file: Path, monkeypatch: pytest.MonkeyPatch, regime: str
) -> None:
    limited: list[bool] = []

    def reach(server: Server, workload: Workload, levels: Levels, seed: int) -> dict[str, Any]:
        file = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")
        limited.append(str(60 * 1024**2) in file.read_text().split())
        return reach_regime(server, workload, levels, seed)

    monkeypatch.setattr("octavo.lab.trial.reach_regime", reach)
    plan_file.write_text(alone(plan_file))
    changes = {"data_block": ["8kB"], "device": ["mbps=60"], "wal_regime": [regime]}
    ended, document, _ = run(find_plan(str(plan_file), changes=changes, rounds=1)[0])
    assert ended.outcome.failed == 0
    assert limited == [regime == "steady"] * len(document["trials"])


@pytest.mark.measures
@pytest.mark.usefixtures("nothing_left")
def test_series_of_every_trial_are_kept(home: Path, plan_file: Path) -> None:
    changes = {"data_block": ["8kB"], "duration": ["3s"]}
    ended, document, _ = run(find_plan(str(plan_file), changes=changes, rounds=1)[0])
    trials = [trial["id"] for trial in document["trials"]]
    kept: dict[int, list[Series]] = {trial: [] for trial in trials}
    with closing(Store.open(store_path())) as store:
        for trial, series in store.series(trials, ["memory_available_bytes", "wal_bytes_per_second"]):
            kept[trial].append(series)
    assert ended.outcome.ok == len(trials) == 2
    for series in kept.values():
        assert {one.metric for one in series} == {"memory_available_bytes", "wal_bytes_per_second"}
        assert all(len(one.values) == len(one.seconds) >= 2 for one in series)
        assert all(value > 0 for one in series if one.metric == "memory_available_bytes" for value in one.values)

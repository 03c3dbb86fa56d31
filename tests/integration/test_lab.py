"""Complete runs on real servers, with small sizes."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import memory_groups_of_runs
from tests.integration import counting
from tests.integration.conftest import needs_root

from octavo.analysis.document import make_document
from octavo.errors import UsageError
from octavo.home import octavo_home, store_path
from octavo.host import cgroup
from octavo.instruments import INSTRUMENTS
from octavo.lab.events import Event, TrialEnded
from octavo.lab.session import SessionResult, start_run
from octavo.observation import Observation
from octavo.plan.model import Plan
from octavo.plan.parse import parse_plan
from octavo.plan.presets import find_plan
from octavo.postgres.cluster import Server
from octavo.store.store import Store
from octavo.workloads import WORKLOADS
from octavo.workloads.base import Levels, WorkloadResult

pytestmark = pytest.mark.measures


def run(plan: Plan) -> tuple[SessionResult, dict[str, Any], list[Event]]:
    events: list[Event] = []
    ended = start_run(plan, "", "octavo run", 7, events.append)
    with closing(Store.open(store_path())) as store:
        return ended, make_document(store, ended.run), events


def observed(trial: dict[str, Any]) -> dict[str, float]:
    return {observation["metric"]: observation["value"] for observation in trial["observations"]}


def counting_plan(*, rounds: int) -> Plan:
    return parse_plan(
        """
        name = "counting"
        question = "How fast are rows counted?"
        workload = "counting"
        loads = 1
        [baseline]
        data_block = "8kB"
        [factors]
        data_block = ["4kB", "8kB"]
        rows = 500
        recycled_wal = "32MB"
        [validity]
        most_steal = "100%"
        most_foreign_cpu = "100%"
        most_foreign_io = "1TB"
        most_clock_step = "1h"
        """,
        origin="test",
        rounds=rounds,
    )


def alone(plan_file: Path) -> str:
    """The plan without its control, which other tests measure."""
    return plan_file.read_text().replace("rounds = 2", "rounds = 1\n        control = false")


@pytest.mark.usefixtures("nothing_left")
def test_a_run_from_plan_to_document(home: Path, plan_file: Path) -> None:
    ended, document, events = run(find_plan(str(plan_file))[0])
    assert (ended.outcome.ok, ended.outcome.failed) == (6, 0)
    trials = document["trials"]
    assert [(trial["status"], trial["reason"]) for trial in trials] == [("ok", None)] * 6
    for trial in trials:
        values = observed(trial)
        assert values["tps"] > 0
        assert values["wal_bytes_per_transaction"] > 100  # an update, an insert and a commit
        assert values["wal_full_page_images"] > 0  # the regime is after-checkpoint
        assert values["checkpoints"] == 0
        assert 0 < values["client_cpu_share"] < 1
        # A duration of 1 s: `shortest_duration` accepts half of it, and a last transaction may wait for the disk.
        assert 0.5 <= values["transactions"] / values["tps"] < 10
        assert (octavo_home() / trial["facts"]["log"]).exists()
    assert {trial["load"] for trial in trials} == {1, 2}  # the control has a load of its own
    blocks = {cell: settings["block_size"] for cell, settings in document["environment"]["settings"].items()}
    assert sorted(blocks.values()) == ["4096", "8192", "8192"]
    assert {effect["cell"] for effect in document["effects"] if effect["metric"] == "tps"} == {
        "data_block=4kB",
        "data_block=8kB (again)",
    }
    assert document["verdicts"][0]["sentence"].count("conditional on this load") == 1
    assert sum(isinstance(event, TrialEnded) for event in events) == 6


@pytest.mark.usefixtures("nothing_left")
def test_a_steady_server_has_its_full_page_images_behind_it(home: Path, plan_file: Path) -> None:
    plan_file.write_text(alone(plan_file))
    ended, document, _ = run(find_plan(str(plan_file), changes={"data_block": ["8kB"], "wal_regime": ["steady"]})[0])
    assert ended.outcome.ok == 1
    for trial in document["trials"]:
        steady, values = trial["facts"]["steady"], observed(trial)
        assert steady["why"] == "images are few"
        assert 4 * 2 <= steady["seconds"] < 600
        assert steady["images_per_record_at_last"] <= steady["images_per_record_at_first"] / 10
        assert values["wal_full_page_images"] <= 0.01 * values["wal_records"]


@pytest.mark.usefixtures("nothing_left")
def test_another_data_block_is_not_taken_for_the_default(home: Path, plan_file: Path) -> None:
    plan_file.write_text(alone(plan_file))
    ended, document, _ = run(find_plan(str(plan_file), changes={"data_block": ["32kB", "8kB"]})[0])
    assert ended.outcome.ok == 2
    (large,) = [trial for trial in document["trials"] if trial["levels"]["data_block"] == "32kB"]
    assert document["environment"]["settings"][large["cell"]]["block_size"] == str(32 * 1024)
    assert observed(large)["tps"] > 0


@needs_root
@pytest.mark.skipif(cgroup.memory_controller() is None, reason="no memory controller")
@pytest.mark.usefixtures("nothing_left")
def test_a_memory_limit_is_held_and_recorded(home: Path, plan_file: Path) -> None:
    plan = find_plan(str(plan_file), changes={"data_block": ["8kB"], "memory": ["256MB"]}, rounds=1)[0]
    ended, document, _ = run(plan)
    assert ended.outcome.ok == 2
    assert {trial["facts"]["memory_limit_bytes"] for trial in document["trials"]} == {256 * 1024**2}
    # Some of the 16 MB of shared_buffers, and the rest of shared memory.
    assert all(1024**2 < trial["facts"]["memory_limit_shared_bytes"] < 64 * 1024**2 for trial in document["trials"])
    assert not memory_groups_of_runs(home)


@pytest.mark.usefixtures("nothing_left")
def test_a_cell_that_fails_does_not_end_the_run(home: Path, plan_file: Path) -> None:
    text = plan_file.read_text().replace("clients = 2", "clients = [2, 2000]")  # more than max_connections
    ended, document, _ = run(parse_plan(text, origin="test", rounds=1))
    assert (ended.outcome.ok, ended.outcome.failed) == (3, 3)
    failed = [trial for trial in document["trials"] if trial["status"] == "failed"]
    assert all(trial["levels"]["clients"] == "2000" for trial in failed)
    assert all("\n" not in trial["reason"] and "pgbench" in trial["reason"] for trial in failed)


@pytest.mark.usefixtures("nothing_left")
def test_settings_that_the_server_refuses_are_named_before_the_first_trial(home: Path, plan_file: Path) -> None:
    text = plan_file.read_text().replace('autovacuum = "off"', 'autovacum = "off"')
    with pytest.raises(UsageError, match='unrecognized configuration parameter "autovacum"'):
        run(parse_plan(text, origin="test", rounds=1))


@pytest.mark.usefixtures("nothing_left")
def test_a_workload_and_an_instrument_are_one_file_and_one_line_each(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WORKLOADS, "counting", "tests.integration.counting")
    monkeypatch.setitem(INSTRUMENTS, "scans", "tests.integration.scans")
    ended, document, _ = run(counting_plan(rounds=2))
    assert (ended.outcome.ok, ended.outcome.failed) == (6, 0)
    for trial in document["trials"]:
        assert observed(trial)["counts_per_second"] > 0
        assert observed(trial)["sequential_scans"] >= 200
    assert document["run"]["primary_metric"] == "counts_per_second"


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        ((), "returned no counts_per_second, its first metric"),
        ((Observation("counted", 1.0, "1"),), "returned counted, which is not declared"),
    ],
)
def test_a_trial_without_what_its_workload_declares_fails(
    returned: tuple[Observation, ...], reason: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WORKLOADS, "counting", "tests.integration.counting")
    measured = counting.WORKLOAD.run

    def run_without(_: object, server: Server, levels: Levels, seed: int) -> WorkloadResult:
        return replace(measured(server, levels, seed), observations=returned)

    monkeypatch.setattr(counting.Counting, "run", run_without)
    ended, document, _ = run(counting_plan(rounds=1))
    assert (ended.outcome.ok, ended.outcome.failed) == (0, 3)
    for trial in document["trials"]:
        assert reason in trial["reason"] and "tests/integration/counting.py" in trial["reason"]

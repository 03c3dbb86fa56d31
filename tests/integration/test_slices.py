"""Complete rounds in slices on real servers, with small sizes."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import tokens_of_runs
from tests.integration.conftest import needs_root
from tests.integration.servers import MB

from octavo.analysis.document import make_document
from octavo.home import octavo_home, store_path
from octavo.host import child_group
from octavo.lab.events import Event, Notice, TurnsGoOn
from octavo.lab.runnable import cannot_run
from octavo.lab.session import SessionResult, start_run
from octavo.lab.slices import eligibility
from octavo.plan.cells import make_cells
from octavo.plan.model import Plan
from octavo.plan.parse import parse_plan
from octavo.store.store import Store
from octavo.workloads import find

pytestmark = pytest.mark.measures

PLAN = """
name = "turns"
question = "Do cells take turns?"
workload = "pgbench"
rounds = 1
loads = 1
slice = "100ms"

[baseline]
data_block = "8kB"

[factors]
data_block = ["4kB", "8kB"]
mode = "read-write"
scale = 1
clients = 2
duration = "1s"
recycled_wal = "64MB"
shared_buffers = "32MB"

[settings]
autovacuum = "off"

[validity]  # these trials are about the way, not about their numbers
most_steal = "100%"
most_foreign_cpu = "100%"
most_foreign_io = "1TB"
most_clock_step = "1h"
fewest_transactions = 1
"""
# One second in slices of 100 ms: ten, and fewer if busy CPUs made slices longer than requested.
_FEWEST_TURNS = 5
_DIRTY_AGE = Path("/proc/sys/vm/dirty_expire_centisecs")


@pytest.fixture(autouse=True)
def no_group_left(nothing_left: None, home: Path) -> Iterator[None]:
    yield
    if (place := child_group.hierarchy()) is not None:
        # Other tests' runs have theirs at the same time.
        tokens = tokens_of_runs(home)
        assert not [group for token in tokens for group in place.glob(f"octavo-children-{token}/together-*")]


def run(plan: Plan) -> tuple[SessionResult, dict[str, Any], list[Event]]:
    events: list[Event] = []
    ended = start_run(plan, "", "octavo run", 7, events.append)
    with closing(Store.open(store_path())) as store:
        return ended, make_document(store, ended.run), events


def changed(replacements: Mapping[str, str]) -> Plan:
    text = PLAN
    for old, new in replacements.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return parse_plan(text, origin="test")


def test_a_round_in_slices_from_plan_to_document(home: Path) -> None:
    _, document, events = run(changed({}))
    assert [(trial["status"], trial["reason"]) for trial in document["trials"]] == [("ok", None)] * 3
    for trial in document["trials"]:
        values = {one["metric"]: one["value"] for one in trial["observations"] if one["item"] is None}
        facts = trial["facts"]
        assert (facts["interleave"], facts["slice_seconds"]) == ("slices", 0.1)
        assert facts["turns"] - facts["turns_dropped"] >= _FEWEST_TURNS
        if child_group.hierarchy() is not None and os.geteuid() == 0:
            assert "control group" in facts["stopped_between_slices"]
        assert values["tps"] > 0
        assert values["wal_bytes_per_transaction"] > 100  # an update, an insert and a commit
        assert values["latency_avg_ms"] < 100  # without the time in which the cell was stopped
        assert "cpu_busy_share" not in values
        assert (octavo_home() / facts["log"]).exists()
    assert {trial["load"] for trial in document["trials"]} == {1, 2}  # the control has a load of its own
    (last,) = [event for event in events if isinstance(event, TurnsGoOn) and event.ended]
    assert {cell.label for cell, *_ in last.ratios} == {"4kB", "8kB again"}
    with closing(Store.open(store_path())) as store:
        rates = [one for _, one in store.series([trial["id"] for trial in document["trials"]], ["tps"])]
    assert len(rates) == 3
    assert all(len(one.values) >= _FEWEST_TURNS for one in rates)


@needs_root
@pytest.mark.parametrize(
    ("device", "mode"), [("mbps=20", "read-only"), ("mbps=20", "read-write"), ("loop", "read-write")]
)
def test_cells_take_turns_on_volumes_in_memory_groups(home: Path, device: str, mode: str) -> None:
    """The table is larger than the memory, so that each cell reads, or reads and writes, at its own device's limit."""
    plan = changed(
        {
            'slice = "100ms"\n': "",
            'mode = "read-write"': f'mode = "{mode}"\ndevice = "{device}"\nmemory = "96MB"',
            "scale = 1\n": "scale = 8\n",
            'duration = "1s"': 'duration = "8s"',
            'shared_buffers = "32MB"': 'shared_buffers = "16MB"',
            "fewest_transactions = 1": 'fewest_transactions = 1\nmost_limit_error = "100%"',
        }
    )
    cells = make_cells(plan)
    if reason := eligibility.not_here(find(plan.workload), cells) or next(filter(None, map(cannot_run, cells)), None):
        pytest.skip(reason)
    dirty_age = int(_DIRTY_AGE.read_text())
    _, document, _ = run(plan)
    assert int(_DIRTY_AGE.read_text()) == dirty_age
    trials = document["trials"]
    assert [(trial["status"], trial["reason"], trial["facts"].get("interleave")) for trial in trials] == [
        ("ok", None, "slices")
    ] * 3
    for trial in trials:
        values = {one["metric"]: one["value"] for one in trial["observations"] if one["item"] is None}
        assert trial["facts"]["memory_limit_bytes"] == 96 * MB
        assert trial["facts"]["stopped_between_slices"].endswith("; its device")
        assert trial["facts"].get("dirty_expire_centisecs") == (3 * dirty_age if mode == "read-write" else None)
        if device != "loop":
            assert trial["facts"]["slice_seconds"] == 1.0
            # The device's own figures, over the time that the cell ran: nothing was served while it was paused.
            assert values["device_read_kb_per_second"] < 1.25 * 20 * 1024
            assert values["device_written_kb_per_second"] < 1.25 * 20 * 1024
        assert values["device_read_kb_per_second" if mode == "read-only" else "device_written_kb_per_second"] > 1_000
    assert len({trial["facts"]["volume"]["device"] for trial in trials}) == 3


def test_where_slices_are_not_sound_the_run_says_why_and_goes_on(home: Path) -> None:
    ended, document, events = run(changed({'duration = "1s"': 'duration = "1s"\ncache = "cold"'}))
    trials = document["trials"]
    # Other tests may fill caches meanwhile, so that a trial was not cold, and is repeated.
    assert sum(trial["status"] == "ok" for trial in trials) == 3
    assert {trial["facts"].get("interleave") for trial in trials} == {None}
    (said,) = [event.text for event in events if isinstance(event, Notice) and "sequential trials" in event.text]
    assert said == "sequential trials instead of slices: cache: a cold cache is filled only once"
    assert ended.outcome.failed == 0


def test_cells_that_do_not_fit_at_once_take_turns_in_groups(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def at_most_three(needs: Sequence[object]) -> str | None:
        return "there is room for three" if len(needs) > 3 else None

    monkeypatch.setattr(eligibility, "no_room", at_most_three)
    compared = {
        '[baseline]\ndata_block = "8kB"': '[baseline]\nsettings.work_mem = "4MB"',
        'data_block = ["4kB", "8kB"]': 'settings.work_mem = ["4MB", "1MB", "2MB"]',
    }
    _, document, events = run(changed(compared))
    parts: dict[int, list[str]] = {}
    for trial in document["trials"]:
        assert (trial["status"], trial["facts"].get("interleave")) == ("ok", "slices")
        again = " again" if "again" in trial["cell"] else ""
        parts.setdefault(trial["part"], []).append(trial["levels"]["settings.work_mem"] + again)
    assert [sorted(levels) for levels in parts.values()] == [["1MB", "4MB", "4MB again"], ["2MB", "4MB", "4MB again"]]
    (said,) = [event.text for event in events if isinstance(event, Notice) and "slices" in event.text]
    assert said == "slices in 2 groups of cells, each with the baseline: there is room for three"


def test_a_cell_that_fails_does_not_take_the_others_along(home: Path) -> None:
    """It has more clients than its server accepts."""
    compared = {
        '[baseline]\ndata_block = "8kB"': '[baseline]\nsettings.max_connections = "100"',
        'data_block = ["4kB", "8kB"]': 'settings.max_connections = ["100", "5"]',
        "clients = 2": "clients = 8",
    }
    _, document, _ = run(changed(compared))
    told = {(trial["levels"]["settings.max_connections"], trial["status"]) for trial in document["trials"]}
    assert told == {("100", "ok"), ("5", "failed")}
    (reason,) = {trial["reason"] for trial in document["trials"] if trial["status"] == "failed"}
    assert "too many clients" in reason


def test_without_control_groups_the_clients_are_stopped(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(group: Path) -> bool:
        return False

    monkeypatch.setattr(child_group, "can_freeze", cannot)
    _, document, _ = run(changed({}))
    assert [(trial["status"], trial["reason"]) for trial in document["trials"]] == [("ok", None)] * 3
    assert all("only the client" in trial["facts"]["stopped_between_slices"] for trial in document["trials"])


def test_a_profile_is_each_cells_own(home: Path) -> None:
    plan = changed({"rounds = 1": 'rounds = 1\ninstruments = ["profile"]'})
    if reason := eligibility.not_here(find(plan.workload), make_cells(plan), plan.instruments):
        pytest.skip(reason)
    _, document, events = run(plan)
    if off := [event.text for event in events if isinstance(event, Notice) and "profile is off" in event.text]:
        pytest.skip(off[0])
    for trial in document["trials"]:
        assert (trial["status"], trial["facts"]["interleave"]) == ("ok", "slices")
        shares = {one["item"]: one["value"] for one in trial["observations"] if one["metric"] == "profile_share"}
        assert any(item.startswith("postgres ") for item in shares), trial["facts"].get("instruments_off")
        assert 0 < sum(shares.values()) < 1.01

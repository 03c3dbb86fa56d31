"""Resuming: a run that cannot continue here is refused before anything of it is changed."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.plans import small_plan

from octavo import workloads
from octavo.errors import OctavoError, UsageError
from octavo.host import lock
from octavo.host.checks.base import CheckFinding
from octavo.lab import session
from octavo.lab.estimate import RunEstimate
from octavo.lab.events import Event
from octavo.lab.run_record import pinned_and_varying
from octavo.lab.session import resume_run
from octavo.plan.cells import Cell, make_cells
from octavo.store.records import RunRecord, RunStatus, TrialRecord, TrialStatus
from octavo.store.store import Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))
    monkeypatch.setattr(lock, "runtime_directory", lambda: tmp_path)
    opened = Store.open(tmp_path / "octavo.sqlite")
    yield opened
    opened.close()


def add_run(store: Store, environment: dict[str, object], status: RunStatus, **plan: object) -> None:
    content = {**small_plan().model_dump(mode="json"), **plan}
    record = RunRecord("one", "small", status, "token", 1, 0.0, 1.0, content, "", "", {"tps": {}}, environment)
    store.create_run(record, make_cells(small_plan()))


HERE: dict[str, object] = {"host": {"hostname": "here", "kernel": "6", "cpu": "a"}}
_OTHER: dict[str, object] = {"host": {"hostname": "elsewhere", "kernel": "6", "cpu": "a"}}


def here(_: Path) -> object:
    return HERE["host"]


@pytest.mark.parametrize(
    ("environment", "plan", "words"),
    [
        ({"host": {}, "imported": {"files": []}}, {}, "one was imported"),
        ({"host": {}, "imported": {"files": []}}, {"workload": "as published"}, "one was imported"),
        (_OTHER, {}, "another hostname"),
        ({**HERE, "fleet": {"db1": {}}}, {}, "measured on a fleet; continue it there: .* --fleet HOSTS.toml"),
        (HERE, {"workload": "no longer there"}, "unknown workload 'no longer there'"),
    ],
)
@pytest.mark.parametrize("retry", [False, True])
def test_what_cannot_go_on_keeps_its_plan_and_its_status(
    store: Store, monkeypatch: pytest.MonkeyPatch, environment: dict[str, object], plan: dict[str, object],
    words: str, retry: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr(session, "host_facts", here)
    add_run(store, environment, "finished", **plan)
    before = store.run("one")
    told: list[Event] = []
    with pytest.raises(UsageError, match=words) as caught:
        resume_run("one", told.append, budget="3h", retry=retry)
    assert "\n" not in str(caught.value)
    assert store.run("one") == before


def fake_preparation(monkeypatch: pytest.MonkeyPatch, builds: list[str], problem: OctavoError | None = None) -> None:
    """A host on which nothing has to be prepared; `problem` is that of its huge pages."""

    class FakeBench:
        def __init__(self, *_: object) -> None:
            self.builds = [SimpleNamespace(name=name) for name in builds]

        def cannot_run(self, _: object) -> None: ...

        def prepare_builds(self, _: object) -> None: ...

        def prepare_host(self, _: object) -> None:
            if problem is not None:
                raise problem

        def close(self) -> None: ...

    def needs(*_: object) -> RunEstimate:
        return RunEstimate((), 0, 0, 0.0, 0, 0, False, 0.0, 0.0)

    def quiet(*_: object, **__: object) -> list[CheckFinding]:
        return []

    fakes = {"host_facts": here, "PostgresBench": FakeBench, "estimate": needs, "check_host": quiet}
    for name, fake in fakes.items():
        monkeypatch.setattr(session, name, fake)


@pytest.mark.parametrize(
    ("before", "now", "refused"),
    [
        (["a"], ["b"], True),
        (["a", "b"], ["a", "c"], True),
        (["a"], ["a", "b"], False),  # b could not be made
        (["a", "b"], ["b"], False),  # the cells of a can no longer run
    ],
)
def test_a_run_with_other_builds_is_refused_and_has_ended_when_it_had(
    store: Store, monkeypatch: pytest.MonkeyPatch, before: list[str], now: list[str], refused: bool
) -> None:
    fake_preparation(monkeypatch, now, OctavoError("not refused"))
    add_run(store, {**HERE, "builds": [{"name": name} for name in before]}, "failed")
    told: list[Event] = []
    with pytest.raises(OctavoError, match="began with another set of builds" if refused else "not refused"):
        resume_run("one", told.append)
    assert store.run("one").status == "failed"
    assert (store.run("one").ended == 1.0) is refused


def test_nothing_is_prepared_for_cells_without_their_baseline(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_preparation(monkeypatch, [])
    lost, left = (cell for cell in make_cells(small_plan()) if cell.baseline)
    prepared: list[set[str]] = []

    def cannot_run(_: object, cell: Cell) -> str | None:
        return "it needs root" if cell.id == lost.id else None

    def prepare(_: object, cells: list[Cell]) -> None:
        prepared.append({cell.condition for cell in cells})
        if len(prepared) == 2:
            raise OctavoError("reached")

    for name, fake in {"cannot_run": cannot_run, "prepare_builds": prepare, "prepare_host": prepare}.items():
        monkeypatch.setattr(session.PostgresBench, name, fake)
    add_run(store, {**HERE, "builds": []}, "failed")
    with pytest.raises(OctavoError, match="reached"):
        resume_run("one", lambda _: None)
    assert prepared == [{left.condition}, {left.condition}]


@pytest.mark.parametrize(("status", "room"), [("skipped", 7), ("ok", 5)])
def test_a_run_without_trials_gets_the_disk_space_of_now(
    store: Store, monkeypatch: pytest.MonkeyPatch, status: TrialStatus, room: int
) -> None:
    """It was too small, and the message was to free some and to resume the run."""
    fake_preparation(monkeypatch, [])
    rooms: list[int] = []

    def no_environment(*_: object) -> dict[str, object]:
        return {"builds": []}

    def room_now(*_: object) -> int:
        return 7

    def reached(*arguments: Any, **_: object) -> None:
        rooms.append(arguments[4].room)
        raise OctavoError("reached")

    for name, fake in {"environment_of": no_environment, "room_for_loads": room_now, "execute": reached}.items():
        monkeypatch.setattr(session, name, fake)
    add_run(store, {**HERE, "builds": [], "room_bytes": 5}, "failed")
    store.add_trial("one", TrialRecord(make_cells(small_plan())[1].id, 1, 1, 1, 1, status, None, 0.0, 1.0, 1))
    with pytest.raises(OctavoError, match="reached"):
        resume_run("one", lambda _: None)
    assert rooms == [room]


def test_a_finished_run_goes_on_only_when_more_is_asked_of_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "host_facts", here)
    add_run(store, HERE, "finished")

    class Reached(Exception):
        """The bench was made: nothing was refused."""

    def reached(*_: object) -> None:
        raise Reached

    monkeypatch.setattr(session, "PostgresBench", reached)
    told: list[Event] = []
    with pytest.raises(UsageError, match=r"one is finished.*--budget.*--retry-failed"):
        resume_run("one", told.append)
    with pytest.raises(Reached):
        resume_run("one", told.append, retry=True)
    with pytest.raises(Reached):
        resume_run("one", told.append, budget="3h")
    assert store.run("one").plan["budget"] == "3h"


def test_a_budget_that_is_used_up_already_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It includes what the run has measured: with it the run would end at once."""
    monkeypatch.setattr(session, "host_facts", here)
    add_run(store, HERE, "finished")
    cell = make_cells(small_plan())[1]
    store.add_trial("one", TrialRecord(cell.id, 1, 1, 1, 1, "ok", None, 0.0, 7200.0, 1))
    before = store.run("one")
    told: list[Event] = []
    with pytest.raises(UsageError, match=r"--budget 1h: one has measured for 2 h 0 min, .*; give a longer one"):
        resume_run("one", told.append, budget="1h")
    assert store.run("one") == before


@pytest.mark.parametrize(("reached", "refused"), [(3, False), (4, True)])
def test_no_budget_extends_a_plan_that_is_analysed_once_after_its_rounds(
    store: Store, monkeypatch: pytest.MonkeyPatch, reached: int, refused: bool
) -> None:
    """A budget may have ended it before."""
    monkeypatch.setattr(session, "host_facts", here)
    fake_preparation(monkeypatch, [], OctavoError("not refused"))
    add_run(store, {**HERE, "builds": []}, "finished", stopping="fixed", budget="1h")
    store.add_trial("one", TrialRecord(make_cells(small_plan())[1].id, reached, 1, 1, 1, "ok", None, 0.0, 1.0, 1))
    with pytest.raises(OctavoError, match="no budget extends it; start a new run" if refused else "not refused"):
        resume_run("one", lambda _: None, budget="3h")
    assert store.run("one").plan["budget"] == ("1h" if refused else "3h")


def test_a_resumed_run_gets_the_results_of_its_trials(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "host_facts", here)
    add_run(store, HERE, "interrupted")
    cell = make_cells(small_plan())[1]
    store.add_trial("one", TrialRecord(cell.id, 1, 1, 1, 1, "ok", None, 0.0, 1.0, 1, facts={"results": {"q1": "a/b"}}))
    told: list[tuple[str, object]] = []

    def recall(levels: Mapping[str, str], facts: Mapping[str, object]) -> None:
        told.append((levels["data_block"], facts["results"]))

    class Reached(Exception):
        """The bench was made."""

    def reached(*_: object) -> None:
        raise Reached

    monkeypatch.setattr(session, "PostgresBench", reached)
    monkeypatch.setattr(workloads.find("pgbench"), "recall", recall, raising=False)
    with pytest.raises(Reached):
        resume_run("one", lambda _: None)
    assert told == [(cell.levels["data_block"], {"q1": "a/b"})]


def test_settings_that_differ_between_cells_are_not_said_to_be_the_same() -> None:
    plan = small_plan(**{"data_block": ["4kB", "8kB"], "settings.full_page_writes": ["on", "off"]})
    told = pinned_and_varying(plan, make_cells(plan))
    everything = {**told["pinned"], **told["varying"]}
    assert "full_page_writes" not in everything, "a factor that is compared is in neither list"
    assert not any(" / " in value for value in told["pinned"].values())
    assert all(" / " in value for value in told["varying"].values())
    one = small_plan(data_block=["8kB"], **{"settings.full_page_writes": ["off"]})
    assert pinned_and_varying(one, make_cells(one))["varying"] == {}

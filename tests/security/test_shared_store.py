"""Runs of a shared store: writers to it cannot make root read files of root's, or follow a plan."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy
from tests.unit.plans import changed_plan, small_plan

from octavo.errors import UsageError
from octavo.fleet import session as fleet
from octavo.fleet.dask_hosts import DaskHosts
from octavo.fleet.outbox import Outbox
from octavo.fleet.received import ReceivedTrials
from octavo.host import lock
from octavo.lab import session
from octavo.lab.events import Event
from octavo.lab.run_record import extended
from octavo.plan.cells import make_cells
from octavo.plan.model import Plan
from octavo.store.address import ServerAddress
from octavo.store.records import RunRecord, TrialRecord
from octavo.store.run_files import remember_plan, run_directory
from octavo.store.store import Store

TEAMS = ServerAddress("postgresql://anna@stores/octavo", {})
BAD = ["/etc/logrotate.d", "../../etc/cron.d", "..", ".", "", ".hidden", "a/b", "a\nb", "a" * 300, "-rf"]
_OPEN = Store.open
Resume = Callable[[str], object]


def test_an_identity_of_any_text_is_no_number_of_a_delivery() -> None:
    """Identities are in the store, too."""
    texts = ["box/7", "box/9", "box/x", f"box/{'9' * 5000}", "box/٣", "/", "box"]
    trials = [
        TrialRecord("a", 1, 1, 1, 1, "ok", None, 0.0, 1.0, 7, facts={"host": "db1"}, identity=text) for text in texts
    ]
    assert ReceivedTrials(trials, lambda _: (), lambda _: None).have("db1") == {"box": 9}


class Reached(Exception):
    """Nothing was refused: the run would continue."""


def reached(*_: object, **__: object) -> None:
    raise Reached


def teams_store(file: Path) -> Store:
    """A file that claims to be a team's store."""
    store = _OPEN(file)
    store.address = TEAMS
    return store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))
    for module in ("octavo.store.run_files", "octavo.fleet.outbox"):
        monkeypatch.setattr(f"{module}.octavo_home", lambda: tmp_path)
    monkeypatch.setattr(lock, "runtime_directory", lambda: tmp_path)
    opened = teams_store(tmp_path / "octavo.sqlite")

    def opened_again(_address: object) -> Store:
        return teams_store(tmp_path / "octavo.sqlite")

    def claim(_store: Store, _run: str) -> None:
        pass

    monkeypatch.setattr(Store, "open", opened_again)
    monkeypatch.setattr(Store, "claim", claim)
    monkeypatch.setattr(session, "PostgresBench", reached)
    monkeypatch.setattr(fleet, "_work", reached)
    yield opened
    opened.close()


def on_this_host(run: str) -> object:
    told: list[Event] = []
    return session.resume_run(run, told.append, retry=True)


def on_a_fleet(run: str) -> object:
    told: list[Event] = []
    return fleet.resume_fleet_run(run, fleet.FleetChoice(DaskHosts.__new__(DaskHosts)), told.append, retry=True)


both = pytest.mark.parametrize("resume", [on_this_host, on_a_fleet])


def add_run(store: Store, run: str, plan: Plan | None = None) -> RunRecord:
    plan = plan or small_plan()
    content = json.loads(plan.model_dump_json())
    record = RunRecord(run, "small", "interrupted", "", 1, 0.0, 1.0, content, "", "", {}, {"fleet": {}})
    store.create_run(record, make_cells(plan))
    return record


@both
@pytest.mark.parametrize("run", BAD)
def test_an_id_that_leads_elsewhere_is_refused(store: Store, resume: Resume, run: str, tmp_path: Path) -> None:
    add_run(store, run)
    before = sorted(tmp_path.parent.iterdir())
    with pytest.raises(UsageError, match="is not a valid run id") as caught:
        resume(run)
    assert str(caught.value).isprintable()
    assert sorted(tmp_path.parent.iterdir()) == before


@pytest.mark.parametrize("run", BAD)
def test_no_host_makes_a_file_of_that_name(store: Store, run: str) -> None:
    for make in (run_directory, Outbox):
        with pytest.raises(UsageError, match="is not a valid run id"):
            make(run)


@both
def test_a_run_that_this_machine_did_not_begin_does_not_go_on(store: Store, resume: Resume) -> None:
    add_run(store, "20260101-000000-small-abcd")
    with pytest.raises(UsageError, match="was not begun on this machine"):
        resume("20260101-000000-small-abcd")


@both
def test_its_own_run_goes_on_also_with_more_time(store: Store, resume: Resume) -> None:
    plan, cells = small_plan(), make_cells(small_plan())
    remember_plan(TEAMS, "one", add_run(store, "one").plan, cells)
    with pytest.raises(Reached):
        resume("one")
    extended(store, "one", plan, cells, "3h")
    assert store.run("one").plan["budget"] == "3h"
    with pytest.raises(Reached):
        resume("one")


@both
@pytest.mark.parametrize("changed", ["plan", "cells"])
def test_a_plan_that_was_changed_in_the_store_does_not_go_on(store: Store, resume: Resume, changed: str) -> None:
    """A script or an archive of 'custom' is read by root: /etc/shadow, for example."""
    remember_plan(TEAMS, "one", add_run(store, "one").plan, make_cells(small_plan()))
    if changed == "plan":
        other = changed_plan({'question = "Which?"': 'question = "Which of these?"'})
        store.set_plan("one", json.loads(other.model_dump_json()))
    else:
        with store._engine.begin() as connection:  # pyright: ignore[reportPrivateUsage]
            connection.execute(sqlalchemy.text("UPDATE cell SET levels = replace(levels, '4kB', '/etc/shadow')"))
    with pytest.raises(UsageError, match="another plan in the store than it was begun with"):
        resume("one")

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError
from tests.unit.plans import small_plan

from octavo.errors import HostError, OctavoError, UsageError
from octavo.host.journal import Journal
from octavo.observation import Observation
from octavo.plan.cells import make_cells
from octavo.series import Series
from octavo.store.listing import find_run, list_runs
from octavo.store.records import RunRecord, RunStatus, TrialRecord
from octavo.store.store import Store


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    opened = Store.open(home / "octavo.sqlite")
    yield opened
    opened.close()


def add_run(
    store: Store, identifier: str, *, started: float = 0.0, status: RunStatus = "finished", token: str = ""
) -> None:
    record = RunRecord(identifier, "small", status, token, 1, started, None, {}, "", "", {}, {})
    store.create_run(record, make_cells(small_plan()))


def a_trial(**changes: object) -> TrialRecord:
    values: dict[str, object] = {
        "cell": "a", "round": 1, "attempt": 1, "position": 1, "load": 1, "status": "ok", "reason": None,
        "started": 1.0, "ended": 2.0, "seed": 3,
    }  # fmt: skip
    return TrialRecord(**{**values, **changes})  # type: ignore[arg-type]


def test_what_is_written_is_read_back(store: Store) -> None:
    add_run(store, "one")
    observations = (Observation("tps", 12.5, "1/s"), Observation("seconds", 0.25, "s", "q1", 3))
    identifier = store.add_trial(
        "one", a_trial(observations=observations, settings={"work_mem": "4MB"}, facts={"x": 1})
    )
    (trial,) = store.trials("one")
    assert trial == a_trial(observations=observations, facts={"x": 1}, id=identifier)
    assert store.settings_by_cell("one") == {"a": {"work_mem": "4MB"}}
    assert store.cells("one") == make_cells(small_plan())


def test_settings_that_trials_share_are_stored_once(store: Store, home: Path) -> None:
    add_run(store, "one")
    for _ in range(5):
        store.add_trial("one", a_trial(settings={"work_mem": "4MB"}))
    with sqlite3.connect(home / "octavo.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM document").fetchone() == (1,)


def test_a_trial_is_committed_whole_or_not_at_all(store: Store) -> None:
    add_run(store, "one")
    broken = (Observation("tps", 1.0, "1/s"), Observation("tps", None, "1/s"))  # type: ignore[arg-type]
    with pytest.raises(IntegrityError):
        store.add_trial("one", a_trial(observations=broken))
    assert store.trials("one") == []


def test_the_store_can_be_read_while_it_is_written(store: Store, home: Path) -> None:
    add_run(store, "one")
    reader = Store.open(home / "octavo.sqlite")
    store.add_trial("one", a_trial())
    assert len(reader.trials("one")) == 1
    reader.close()


def test_it_survives_a_power_cut_by_its_settings(store: Store, home: Path) -> None:
    with store._engine.connect() as connection:  # pyright: ignore[reportPrivateUsage]
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL


def test_a_store_of_another_version_is_left_alone(store: Store, home: Path) -> None:
    store.close()
    with sqlite3.connect(home / "octavo.sqlite") as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    with pytest.raises(OctavoError, match="schema version 99"):
        Store.open(home / "octavo.sqlite")


def test_a_store_whose_tables_were_never_made_has_no_runs(home: Path) -> None:
    """Whoever was to make them was killed before."""
    (home / "octavo.sqlite").touch()
    assert list_runs(home / "octavo.sqlite") == []
    with pytest.raises(UsageError, match="there is no run yet"):
        find_run(home / "octavo.sqlite", "last")
    with closing(Store.open(home / "octavo.sqlite")) as store:
        add_run(store, "one")
    assert [row["id"] for row in list_runs(home / "octavo.sqlite")] == ["one"]


def test_what_is_no_store_is_named(home: Path) -> None:
    (home / "octavo.sqlite").write_text("this is a letter, not a database, and long enough to look at" * 100)
    with pytest.raises(OctavoError, match="is no store"):
        Store.open(home / "octavo.sqlite")
    with pytest.raises(OctavoError, match="is no store"):
        list_runs(home / "octavo.sqlite")


def test_a_store_that_cannot_be_written_names_the_way_out(store: Store, home: Path) -> None:
    add_run(store, "one")
    with sqlite3.connect(home / "octavo.sqlite") as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON trial BEGIN SELECT raise(FAIL, 'database or disk is full'); END"
        )
    with pytest.raises((HostError, IntegrityError)):
        store.add_trial("one", a_trial())
    assert store.trials("one") == []


def test_the_quick_list_agrees_with_the_store(store: Store, home: Path) -> None:
    add_run(store, "20260101-a", started=1.0)
    add_run(store, "20260102-b", started=2.0, status="running", token="nobody")  # noqa: S106
    store.add_trial("20260101-a", a_trial())
    store.add_trial("20260101-a", a_trial(status="invalid", reason="short"))
    rows = list_runs(home / "octavo.sqlite")
    assert [(row["id"], row["status"], row["trials"], row["ok"]) for row in rows] == [
        ("20260102-b", "interrupted", 0, 0),  # its process is gone
        ("20260101-a", "finished", 2, 1),
    ]
    for row in rows:
        assert store.run(row["id"]).status == row["status"]


def test_a_run_whose_process_lives_is_running(store: Store, home: Path) -> None:
    with Journal() as journal:
        add_run(store, "one", status="running", token=journal.token)
        assert list_runs(home / "octavo.sqlite")[0]["status"] == "running"
    assert list_runs(home / "octavo.sqlite")[0]["status"] == "interrupted"


def test_runs_are_found_by_how_they_begin(store: Store, home: Path) -> None:
    path = home / "octavo.sqlite"
    with pytest.raises(UsageError, match="no run yet"):
        find_run(path, "last")
    add_run(store, "20260101-a", started=1.0)
    add_run(store, "20260102-b", started=2.0)
    assert find_run(path, "last") == "20260102-b"
    assert find_run(path, "20260101") == "20260101-a"
    with pytest.raises(UsageError, match="more than one run begins with '2026'"):
        find_run(path, "2026")
    with pytest.raises(UsageError, match=r"no run 'x'.*20260102-b"):
        find_run(path, "x")


def test_series_come_back_as_they_were(store: Store) -> None:
    add_run(store, "one")
    tps = Series("tps", "1/s", (0.5, 1.5), (0.1, 1e300))
    role = Series("process_page_table_bytes", "bytes", (1.0,), (4096.0,), "checkpointer")
    identifier = store.add_trial("one", a_trial(series=(tps, role)))
    store.add_trial("one", a_trial())
    assert list(store.series([identifier])) == [(identifier, tps), (identifier, role)]
    assert list(store.series([identifier], ["process_page_table_bytes"])) == [(identifier, role)]
    assert list(store.series([identifier + 1])) == []


def test_a_store_of_the_first_version_is_brought_to_this_one(home: Path) -> None:
    path = home / "octavo.sqlite"
    store = Store.open(path)
    add_run(store, "one")
    store.add_trial("one", a_trial())
    store.close()
    with sqlite3.connect(path) as connection:
        for statement in (
            "ALTER TABLE cell DROP COLUMN dataset",
            "ALTER TABLE trial DROP COLUMN part",
            "DROP TABLE series",
            "UPDATE schema_version SET version = 1",
        ):
            connection.execute(statement)
    connection.close()
    store = Store.open(path)
    assert [cell.dataset for cell in store.cells("one")] == [cell.id for cell in make_cells(small_plan())]
    assert [trial.part for trial in store.trials("one")] == [1]
    assert list(store.series([1])) == []
    store.close()

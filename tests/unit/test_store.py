import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.store_contract import Sql, StoreContract, a_trial, add_run

from octavo.errors import HostError, OctavoError, UnstorableError
from octavo.host.journal import Journal
from octavo.observation import Observation
from octavo.store import engines, rows
from octavo.store.listing import list_runs
from octavo.store.store import Store


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def address(home: Path) -> Path:
    return home / "octavo.sqlite"


@pytest.fixture
def store(address: Path) -> Iterator[Store]:
    opened = Store.open(address)
    yield opened
    opened.close()


@pytest.fixture
def sql(address: Path) -> Sql:
    def run(statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(address)) as connection, connection:
            return connection.execute(statement).fetchall()

    return run


class TestOnSQLite(StoreContract):
    """Runs the same tests as on PostgreSQL."""


def test_it_survives_a_power_cut_by_its_settings(store: Store) -> None:
    with store._engine.connect() as connection:  # pyright: ignore[reportPrivateUsage]
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL


def test_trials_are_stored_once_without_returning_too(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on RHEL 9, whose SQLite has no RETURNING."""
    monkeypatch.setattr(rows, "_HAS_RETURNING", False)
    add_run(store, "one")
    first, second, third = (a_trial(identity=name, observations=(Observation("m", 1.0, "s"),)) for name in "abc")
    ids = store.add_trials("one", [first, second])
    assert store.add_trials("one", [second, third, first, third]) == [ids[1], ids[1] + 1, ids[0], ids[1] + 1]
    assert [(one.id, len(one.observations)) for one in store.trials("one")] == [(1, 1), (2, 1), (3, 1)]


def test_a_new_file_that_another_process_writes_to_is_waited_for(
    address: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite itself does not wait before it enables write-ahead logging."""
    address.touch()
    with closing(sqlite3.connect(address, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        def end_it(_seconds: float) -> None:
            other.execute("ROLLBACK")

        monkeypatch.setattr(engines.time, "sleep", end_it)
        Store.open(address).close()
        assert not other.in_transaction


def test_a_file_without_tables_has_no_runs(address: Path) -> None:
    """The process that was about to create them was killed."""
    address.touch()
    assert list_runs(address) == []


def test_what_is_no_store_is_named(address: Path) -> None:
    address.write_text("this is a letter, not a database, and long enough to look at" * 100)
    with pytest.raises(OctavoError, match="is not a store"):
        Store.open(address)
    with pytest.raises(OctavoError, match="is not a store"):
        list_runs(address)


def test_a_store_that_cannot_be_written_names_the_way_out(store: Store, sql: Sql) -> None:
    add_run(store, "one")
    sql("CREATE TRIGGER full BEFORE INSERT ON trial BEGIN SELECT raise(FAIL, 'database or disk is full'); END")
    with pytest.raises((HostError, UnstorableError)):
        store.add_trial("one", a_trial())
    assert store.trials("one") == []


def test_a_run_whose_process_lives_is_running(store: Store, address: Path) -> None:
    with Journal() as journal:
        add_run(store, "one", status="running", token=journal.token)
        assert list_runs(address)[0]["status"] == "running"
    assert list_runs(address)[0]["status"] == "interrupted"

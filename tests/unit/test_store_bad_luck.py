"""The store on a full disk, on a read-only one, damaged, and used by several processes."""

import json
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from tests.store_contract import a_trial, add_run
from tests.tools import found, reason

from octavo.errors import HostError, OctavoError
from octavo.observation import Observation
from octavo.store.address import ServerAddress
from octavo.store.failures import explain
from octavo.store.listing import list_runs
from octavo.store.records import TrialRecord
from octavo.store.store import Store

MANY = tuple(Observation(f"metric {number}", float(number), "1/s") for number in range(200))


def a_large_trial() -> TrialRecord:
    return a_trial(observations=MANY, settings={f"setting {number}": "x" * 20 for number in range(300)})


def mount(arguments: list[str], place: Path) -> None:
    finished = subprocess.run(["mount", *arguments, str(place)], capture_output=True, text=True)
    if finished.returncode != 0:
        pytest.skip(f"no filesystem of its own here: {finished.stderr.strip()}")


@pytest.fixture(params=["tmpfs", "ext4"])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 8 MB, removed at the end."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small filesystem needs root")
    place = tmp_path / "disk"
    place.mkdir()
    if request.param == "tmpfs":
        mount(["-t", "tmpfs", "-o", "size=8m", "tmpfs"], place)
    else:
        image = tmp_path / "image"
        with image.open("w") as file:
            file.truncate(8 * 1024**2)
        if found("mkfs.ext4") is None:
            pytest.skip(reason("mkfs.ext4"))
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
        mount(["-o", "loop", str(image)], place)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill_up(place: Path, leaving: int) -> Path:
    """Takes all the space except this many bytes."""
    ballast = place / "ballast"
    ballast.unlink(missing_ok=True)
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        file.truncate(max(0, file.tell() - leaving))
        os.fsync(file.fileno())
    return ballast


def test_on_a_full_disk_a_trial_is_whole_or_absent(small_disk: Path) -> None:
    path = small_disk / "octavo.sqlite"
    refused, stored = 0, 0
    with closing(Store.open(path)) as store:
        add_run(store, "one")
        # The disk is full at the first write, at the last one, and at several moments in between.
        for leaving in range(0, 160 * 1024, 8 * 1024):
            ballast = fill_up(small_disk, leaving)
            try:
                store.add_trial("one", a_large_trial())
                stored += 1
            except HostError as error:
                refused += 1
                assert "make room" in str(error)
            ballast.unlink()
            assert [trial.observations for trial in store.trials("one")] == [MANY] * stored
        store.add_trial("one", a_large_trial())
    assert refused > 2
    assert stored > 2
    with closing(Store.open(path)) as store, closing(sqlite3.connect(path)) as connection:
        assert len(store.trials("one")) == stored + 1
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_on_a_full_disk_every_write_names_the_way_out(small_disk: Path) -> None:
    path = small_disk / "octavo.sqlite"
    with closing(Store.open(path)) as store:
        add_run(store, "one")
        fill_up(small_disk, 0)
        # Data that fits into existing pages of the log may still be written; at some point nothing may.
        with pytest.raises(HostError, match="make room"):
            for number in range(1000):
                store.set_environment("one", {"builds": ["x" * 1000 * number]})
        with pytest.raises(HostError, match="make room"):
            for number in range(1000):
                add_run(store, f"another {number}")
        with pytest.raises(HostError, match="make room"):
            for _ in range(1000):
                store.add_trial("one", a_large_trial())
        assert store.run("one").id == "one"
        assert list_runs(path)


def test_a_new_store_on_a_full_disk_names_the_way_out(small_disk: Path) -> None:
    fill_up(small_disk, 0)
    with pytest.raises(HostError, match="make room"):
        Store.open(small_disk / "octavo.sqlite")


def test_a_store_on_a_read_only_disk_is_read(small_disk: Path) -> None:
    path = small_disk / "octavo.sqlite"
    with closing(Store.open(path)) as store:
        add_run(store, "one")
        store.add_trial("one", a_large_trial())
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert [row["trials"] for row in list_runs(path)] == [1]
    with closing(Store.open_to_read(path)) as store:
        assert [trial.observations for trial in store.trials("one")] == [MANY]
        with pytest.raises(HostError, match="is not writable"):
            store.add_trial("one", a_trial())
    with pytest.raises(HostError, match="is not writable"):
        Store.open(path).add_trial("one", a_trial())


@pytest.mark.parametrize(
    ("doing", "way_out"),
    [
        ("the store cannot be read", "grant the role SELECT on its tables"),
        ("the trial could not be stored", "use a role that may write"),
    ],
)
def test_a_role_without_a_right_hears_which_one(doing: str, way_out: str) -> None:
    denied = psycopg.errors.InsufficientPrivilege("permission denied for table run")
    found = explain(denied, ServerAddress("postgresql://here/octavo", {}), doing)
    assert isinstance(found, HostError)
    assert way_out in str(found)


def test_a_standby_is_not_a_matter_of_the_role() -> None:
    standby = psycopg.errors.ReadOnlySqlTransaction("cannot execute INSERT in a read-only transaction")
    found = explain(standby, ServerAddress("postgresql://here/octavo", {}), "the trial could not be stored")
    assert isinstance(found, HostError)
    assert "is not writable" in str(found)
    assert "target_session_attrs=read-write" in str(found)


def test_a_damaged_store_is_told_in_one_line(tmp_path: Path) -> None:
    whole = tmp_path / "whole.sqlite"
    with closing(Store.open(whole)) as store:
        add_run(store, "one")
        for _ in range(5):
            store.add_trial("one", a_large_trial())
    generator = random.Random(1)
    content = whole.read_bytes()
    told: list[str] = []
    for number in range(60):
        path = tmp_path / f"{number}.sqlite"
        at = generator.randrange(len(content) - 512)
        path.write_bytes(content[:at] + generator.randbytes(512) + content[at + 512 :])
        try:
            list_runs(path)
            with closing(Store.open_to_read(path)) as store:
                store.run("one")
                store.cells("one")
                store.trials("one")
                store.settings_by_cell("one")
        except OctavoError as error:
            told.append(str(error))
    assert len(told) > 10
    assert all("\n" not in line for line in told)


WRITER = """
import sys
from pathlib import Path
from octavo.store.store import Store
from tests.store_contract import a_trial
from tests.unit.test_store_bad_luck import MANY

store = Store.open(Path(sys.argv[1]))
for number in range(40):
    print(store.add_trial(sys.argv[2], a_trial(observations=MANY, settings={"number": str(number)})))
"""


def test_two_processes_write_while_a_third_reads(tmp_path: Path) -> None:
    path = tmp_path / "octavo.sqlite"
    with closing(Store.open(path)) as store:
        runs = ("one", "two")
        for run in runs:
            add_run(store, run)
        writers = [
            subprocess.Popen([sys.executable, "-c", WRITER, str(path), run], stdout=subprocess.PIPE, text=True)
            for run in runs
        ]
        while any(writer.poll() is None for writer in writers):
            for run in runs:
                assert all(trial.observations == MANY for trial in store.trials(run))
            assert len(list_runs(path)) == 2
        ids = [set(map(int, writer.communicate()[0].split())) for writer in writers]
        assert [{trial.id for trial in store.trials(run)} for run in runs] == ids
        assert all(len(each) == 40 for each in ids)


def test_a_store_that_another_process_holds_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "octavo.sqlite"
    with closing(Store.open(path)) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        add_run(store, "one")
        with store._engine.connect() as connection:  # pyright: ignore[reportPrivateUsage]
            connection.exec_driver_sql("PRAGMA busy_timeout = 50")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(HostError, match="another process has held"):
            store.add_trial("one", a_trial())
        other.execute("ROLLBACK")
        store.add_trial("one", a_trial())


def test_json_that_is_none_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "octavo.sqlite"
    with closing(Store.open(path)) as store:
        add_run(store, "one")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE run SET plan = '{'")
        with pytest.raises(OctavoError, match="is damaged"):
            store.run("one")
    assert json.dumps(list_runs(path))

"""Each fault of a fleet once: no finished trial is lost or duplicated, every host is restored, and the run continues
with the remaining hosts."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.integration.conftest import needs_root
from tests.namespaces import Network, Place, network, processes_in
from tests.sleeping_bench import AHEAD, HELD, NO_NUMBER, SECONDS

from octavo.plan.parts import host_of_part
from octavo.store.records import TrialRecord
from octavo.store.store import Store
from octavo.store.trial_json import decode

# Each host has its own run lock, and its numbers are irrelevant.
pytestmark = needs_root

# A host that does not answer is noticed as early as Dask's ten probes per second allow.
_QUICK = ("DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP=12s", "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT=5s")
CELLS = 6
ROUNDS = 3


@pytest.fixture(scope="module")
def fleet() -> Iterator[Network]:
    with network(["alpha", "beta"], environment=[*_QUICK, f"{SECONDS}=0.1"]) as made:
        made.coordinator.octavo("fleet", "init", str(made.file))
        yield made


class Coordinator:
    """A run in a separate process, read line by line."""

    def __init__(self, fleet: Network, run: str = "") -> None:
        words = [
            sys.executable,
            "-m",
            "tests.fleet_coordinator",
            str(fleet.file),
            str(ROUNDS),
            *([run] if run else []),
        ]
        self.process = subprocess.Popen(
            [*fleet.coordinator.through, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines: list[str] = []

    def until(self, pattern: str) -> str:
        """Reads until a line matches."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if re.search(pattern, line):
                return line
        raise AssertionError("\n".join(self.lines))


@contextmanager
def running(fleet: Network, run: str = "") -> Generator[Coordinator, None, None]:
    """A run that ends with the test; afterwards nothing of it remains on any host."""
    started = Coordinator(fleet, run)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()
        fleet.coordinator.octavo("fleet", "stop", str(fleet.file), check=False)


def trials(fleet: Network) -> list[TrialRecord]:
    """The trials of the newest run."""
    with closing(Store.open_to_read(fleet.coordinator.home / "octavo.sqlite")) as store:
        return store.trials(newest(fleet))


def newest(fleet: Network) -> str:
    return max(path.name for path in (fleet.coordinator.home / "runs").iterdir())


def measured(fleet: Network, host: int) -> list[tuple[int, str]]:
    return sorted((one.round, one.cell) for one in trials(fleet) if host_of_part(one.part) == host)


def assert_whole(fleet: Network, *hosts: int) -> None:
    """Asserts that these hosts have every cell in every round, once."""
    for host in hosts:
        found = measured(fleet, host)
        assert len(found) == len(set(found)) == ROUNDS * CELLS


def outbox(fleet: Network, place: Place) -> list[Path]:
    """A host's outbox of the newest run; that of an earlier run from which the host was cut off remains until
    resumed."""
    return list((place.home / "fleet" / "outbox").glob(f"{newest(fleet)}.sqlite*"))


def assert_as_found(fleet: Network, keeping: Sequence[str] = ()) -> None:
    for place in (fleet.coordinator, *fleet.hosts):
        assert not processes_in(place)
        assert not list((place.home / "journal").glob("*"))
        assert not (place.home / "fleet" / "dask-scheduler").exists()
        assert not outbox(fleet, place) or place.name in keeping


@contextmanager
def held(host: Place) -> Generator[Path, None, None]:
    """Holds a trial of the host's second round until the file is removed: faults injected meanwhile happen in the
    middle of the run, however late they are."""
    file = host.home / HELD
    file.write_text(str(CELLS + 1))
    try:
        yield file
    finally:
        file.unlink(missing_ok=True)


def kill(place: Place, what: str) -> None:
    os.kill(json.loads((place.home / "fleet" / f"{what}.json").read_text())["pid"], signal.SIGKILL)


def test_a_worker_that_is_killed_in_a_trial_goes_on_within_its_part(fleet: Network) -> None:
    with held(fleet.hosts[1]) as hold, running(fleet) as run:
        run.until("trial beta")
        kill(fleet.hosts[1], "worker")
        run.until("beta does not respond")
        hold.unlink()
        run.until(r"^ended \S+ rounds")
    assert_whole(fleet, 1, 2)
    assert_as_found(fleet)


def test_a_network_that_is_cut_for_a_while_delivers_afterwards(fleet: Network) -> None:
    with held(fleet.hosts[1]) as hold, running(fleet) as run:
        run.until("trial beta")
        fleet.cut(fleet.hosts[1])
        hold.unlink()
        try:
            run.until("beta does not respond")
        finally:
            fleet.mend(fleet.hosts[1])
        run.until(r"^ended \S+ rounds")
    assert_whole(fleet, 1, 2)
    assert_as_found(fleet)


def test_a_network_that_is_cut_for_good_is_done_without(fleet: Network) -> None:
    beta = fleet.hosts[1]
    with fleet.changed('patience = "10min"', 'patience = "8s"'), held(beta) as hold, running(fleet) as run:
        run.until("trial beta")
        fleet.cut(beta)
        hold.unlink()
        try:
            run.until("beta has not responded for too long")
            run.until(r"^ended \S+ rounds")
        finally:
            fleet.mend(beta)
    assert_whole(fleet, 1)
    found = measured(fleet, 2)
    assert 0 < len(found) == len(set(found)) < ROUNDS * CELLS
    assert_as_found(fleet, keeping=["beta"])
    assert outbox(fleet, beta)  # the trials it had measured


def test_a_scheduler_that_is_killed_is_started_again(fleet: Network) -> None:
    with held(fleet.hosts[0]) as hold, running(fleet) as run:
        run.until("trial alpha")
        kill(fleet.coordinator, "scheduler")
        hold.unlink()
        run.until(r"^ended \S+ rounds")
    assert_whole(fleet, 1, 2)
    assert_as_found(fleet)


def test_a_coordinator_that_is_killed_is_resumed(fleet: Network) -> None:
    with held(fleet.hosts[1]) as hold, running(fleet) as run:
        run.until("trial beta")
        run.process.kill()
        run.process.wait()
        hold.unlink()
        again = Coordinator(fleet, newest(fleet))
        again.until(r"^ended \S+ rounds")
        again.process.wait()
    assert_whole(fleet, 1, 2)
    assert_as_found(fleet)


def test_a_host_whose_disk_is_full_takes_no_further_part(fleet: Network) -> None:
    alpha = fleet.hosts[0]
    full = alpha.home / "fleet" / "outbox"
    alpha.run("mount", "-t", "tmpfs", "-o", "size=80k", "none", str(full))
    try:
        with running(fleet) as run:
            run.until("the run continues without alpha: .*free space")
            run.until(r"^ended \S+ rounds")
    finally:
        alpha.run("umount", str(full))
    assert_whole(fleet, 2)
    found = measured(fleet, 1)
    assert len(found) == len(set(found)) < ROUNDS * CELLS
    assert_as_found(fleet)


def test_a_clock_that_is_ten_minutes_off_is_corrected(fleet: Network) -> None:
    with fleet.changed(f"{SECONDS}=0.1", f"{SECONDS}=0.1 {AHEAD}=600", after='name = "beta"'), running(fleet) as run:
        run.until("the clock of beta is 600 s ahead")
        run.until(r"^ended \S+ rounds")
    assert_whole(fleet, 1, 2)
    found = trials(fleet)
    assert max(one.ended for one in found) - min(one.started for one in found) < 500
    assert {round((one.facts or {}).get("clock_ahead_seconds", 0)) for one in found} == {0, 600}
    assert_as_found(fleet)


def test_trials_that_no_store_takes_are_set_aside_and_those_behind_them_are_stored(fleet: Network) -> None:
    """On one host the fourth trial, whose value is not a number: the coordinator detects this. On the other the
    seventh, which is damaged before it is sent."""
    alpha, beta = fleet.hosts
    (alpha.home / NO_NUMBER).write_text("3")
    try:
        with held(beta) as hold, running(fleet) as run:
            run.until("trial beta")
            damaged = damage(beta, newest(fleet), CELLS + 1)
            hold.unlink()
            run.until(r"^ended \S+ rounds")
    finally:
        (alpha.home / NO_NUMBER).unlink()
    assert len([line for line in run.lines if "cannot be stored and is set aside" in line]) == 2
    assert_as_found(fleet)
    stored = measured(fleet, 1)
    assert len(stored) == len(set(stored)) == ROUNDS * CELLS - 1
    assert {number for number, _ in stored} == set(range(1, ROUNDS + 1))
    stored = measured(fleet, 2)
    assert len(stored) == len({*stored, damaged}) - 1 == ROUNDS * CELLS - 1
    # The fleet has ended, but they are still listed.
    told = fleet.coordinator.octavo("fleet", "status", str(fleet.file), "--format", "json", check=False)
    rows = {row["host"]: row for row in json.loads(told.stdout)["set_aside_trials"]}
    assert rows.keys() == {"", "beta"}
    assert "the store refuses it" in rows[""]["reason"]
    assert "not a trial" in rows["beta"]["reason"]
    assert decode(Path(rows[""]["file"]).read_bytes())[1].status == "ok"
    assert Path(rows["beta"]["file"]).read_bytes() == b"{"
    for place in (fleet.coordinator, beta):
        shutil.rmtree(place.home / "set-aside-trials")


def damage(host: Place, run: str, number: int) -> tuple[int, str]:
    """Damages a trial in a host's outbox when it appears; returns its round and cell."""
    deadline = time.monotonic() + 300
    with closing(sqlite3.connect(host.home / "fleet" / "outbox" / f"{run}.sqlite", isolation_level=None)) as file:
        while (found := file.execute("SELECT record FROM trial WHERE number = ?", (number,)).fetchone()) is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        file.execute("UPDATE trial SET record = x'7b' WHERE number = ?", (number,))
    _, trial = decode(found[0])
    return trial.round, trial.cell

"""Hosts that differ, failed trials that are repeated, and what a fleet reports about a plan before it runs."""

import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.integration.conftest import needs_root
from tests.namespaces import Network, network
from tests.sleeping_bench import FAILING, SECONDS

from octavo.analysis.document import make_document
from octavo.plan.parts import host_of_part
from octavo.store.records import TrialRecord
from octavo.store.store import Store

pytestmark = needs_root

_CELLS = 6


@pytest.fixture(scope="module")
def fleet() -> Iterator[Network]:
    with network(["alpha", "beta", "gamma"], environment=[f"{SECONDS}=0.05"]) as made:
        made.coordinator.octavo("fleet", "init", str(made.file))
        yield made


def measure(fleet: Network, *words: str) -> str:
    """Runs the plan; returns the run's id and the output."""
    done = fleet.coordinator.run(sys.executable, "-m", "tests.fleet_coordinator", str(fleet.file), "2", *words)
    return done.stdout


def run_of(said: str) -> str:
    return said.splitlines()[-1].split()[1]


def trials(fleet: Network, run: str) -> list[TrialRecord]:
    with closing(Store.open_to_read(fleet.coordinator.home / "octavo.sqlite")) as store:
        return store.trials(run)


def test_hosts_of_two_classes_are_one_run_and_each_class_is_answered_apart(fleet: Network) -> None:
    text = fleet.file.read_text()
    classed = text
    for name, of_class in (("alpha", "x86-nvme"), ("beta", "arm-nvme"), ("gamma", "arm-nvme")):
        classed = classed.replace(f'name = "{name}"', f'name = "{name}"\nclass = "{of_class}"')
    fleet.file.write_text(classed)
    try:
        said = measure(fleet)
    finally:
        fleet.file.write_text(text)
    assert "the hosts are of 2 classes, each analysed separately: arm-nvme, x86-nvme" in said
    run = run_of(said)
    with closing(Store.open_to_read(fleet.coordinator.home / "octavo.sqlite")) as store:
        cells = {cell.id: cell for cell in store.cells(run)}
        document = make_document(store, run)
    found = trials(fleet, run)
    assert not [trial for trial in found if trial.status != "ok"]
    where = {(cells[trial.cell].levels["host_class"], (trial.facts or {})["host"]) for trial in found}
    assert where == {("x86-nvme", "alpha"), ("arm-nvme", "beta"), ("arm-nvme", "gamma")}
    assert len(found) == 3 * 2 * _CELLS  # hosts, rounds
    hosts = {(cells[effect["cell"]].levels["host_class"], effect["hosts"]) for effect in document["effects"]}
    assert hosts == {("x86-nvme", 1), ("arm-nvme", 2)}


def test_what_failed_is_repeated_on_its_host(fleet: Network) -> None:
    marker = fleet.hosts[1].home / FAILING
    marker.write_text("")
    try:
        run = run_of(measure(fleet))
    finally:
        marker.unlink()
    before = trials(fleet, run)
    failed = [trial for trial in before if trial.status == "failed"]
    assert {host_of_part(trial.part) for trial in failed} == {2}
    assert len(failed) == 2 * _CELLS
    said = measure(fleet, run, "--retry")
    assert "beta, round 1: repeating 6 trials" in said
    new = trials(fleet, run)[len(before) :]
    assert {(trial.status, host_of_part(trial.part)) for trial in new} == {("ok", 2)}
    assert sorted((trial.round, trial.cell) for trial in new) == sorted((trial.round, trial.cell) for trial in failed)
    for host in fleet.hosts:
        assert not list((host.home / "fleet" / "outbox").glob("*"))


def test_a_dry_run_asks_every_host_and_starts_nothing(fleet: Network) -> None:
    words = ("run", "oltp-blocks-demo", "--size", "quick", "--dry-run", "--fleet", str(fleet.file), "--seed", "3")
    said = fleet.coordinator.octavo(*words).stdout
    for host in fleet.hosts:
        assert f"{host.name}:\n  builds needed: " in said
        assert not (host.home / "fleet" / "worker.json").exists()
    assert "all 3 hosts at the same time" in said
    assert "order with --seed 3" in said

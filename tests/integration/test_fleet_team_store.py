"""A fleet whose coordinator stores into a team's PostgreSQL, which is restarted in the middle of a run."""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from tests.integration.conftest import needs_root
from tests.integration.servers import data_directory
from tests.integration.servers import running as running_server
from tests.integration.test_fleet_faults import CELLS, ROUNDS, assert_as_found, held, newest, running
from tests.namespaces import Network, network
from tests.sleeping_bench import SECONDS

from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.plan.parts import host_of_part
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import Server
from octavo.store.address import server_address
from octavo.store.store import Store

# Each host has its own run lock, and its numbers are irrelevant.
pytestmark = needs_root


@pytest.fixture
def server(builds: dict[str, Build], account: Account) -> Iterator[Server]:
    build = builds["8kB"]
    with (
        Journal() as journal,
        data_directory(build, journal, account, "fleet-store") as directory,
        running_server(build, directory, journal, account) as started,
    ):
        yield started


@pytest.fixture
def url(server: Server) -> str:
    """The URL for the coordinator, which has its own /run/octavo."""
    return f"postgresql://octavo@/octavo?host=/proc/{os.getpid()}/root{server.socket_directory}"


@pytest.fixture
def fleet(url: str) -> Iterator[Network]:
    with network(["alpha", "beta"], environment=[f"{SECONDS}=0.1"]) as made:
        store = f"OCTAVO_STORE={url}"
        coordinator = replace(made.coordinator, environment=(*made.coordinator.environment, store))
        made.coordinator.octavo("fleet", "init", str(made.file))
        yield replace(made, coordinator=coordinator)


def test_a_store_whose_server_is_restarted_has_every_trial_once(fleet: Network, server: Server, url: str) -> None:
    """One host holds a trial back, so that the run is still going on; the other host measures meanwhile."""
    with held(fleet.hosts[1]) as hold, running(fleet) as run:
        run.until("trial beta")
        server.restart(hold.unlink)
        run.until(r"^ended \S+ rounds")
    with closing(Store.open_to_read(server_address(url))) as store:
        found = [(one.round, host_of_part(one.part), one.cell) for one in store.trials(newest(fleet))]
    assert len(found) == len(set(found)) == 2 * ROUNDS * CELLS
    assert newest(fleet) in fleet.coordinator.octavo("runs").stdout
    assert not (fleet.coordinator.home / "octavo.sqlite").exists()
    assert_as_found(fleet)

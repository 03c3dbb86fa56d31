"""Calibration on real servers: planted costs of a limited device are recovered, and a user's server is left clean."""

import os

import pytest
from tests.integration.servers import data_directory, running

from octavo.costs.calibrate import CalibrationRequest, calibrate_server
from octavo.costs.calibration_databases import own_database
from octavo.costs.fit import fit
from octavo.costs.measure import measure
from octavo.costs.probes import RANDOM, SEQUENTIAL
from octavo.errors import HostError, OctavoError
from octavo.home import octavo_home
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.knobs import device
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import Server

_MB = 1024**2
_TOLERANCE = 0.15


def databases(server: Server) -> set[str]:
    """The names of the server's databases."""
    return {row["datname"] for row in server.connection.execute("SELECT datname FROM pg_database").fetchall()}


def quiet(_: str) -> None:
    """Discards messages."""


@pytest.mark.alone
@pytest.mark.skipif(device.cannot({"device": "iops=50,mbps=4"}) is not None, reason="no device limits here")
@pytest.mark.parametrize(
    ("data_block", "requests", "megabytes", "size"),
    [
        pytest.param("8kB", 50, 4, 8 * _MB, id="8kB, 50 requests/s and 4 MB/s"),
        pytest.param("32kB", 100, 12, 24 * _MB, id="32kB, 100 requests/s and 12 MB/s"),
    ],
)
def test_planted_costs_of_a_device_are_recovered(
    builds: dict[str, Build],
    data_block: str,
    requests: int,
    megabytes: int,
    size: int,
    journal: Journal,
    account: Account,
) -> None:
    """A sequential page costs its bytes, a random one a request. Takes some 20 s, as the device is that slow.

    A measurement that a busy machine disturbed is repeated: it can only be slower, and not the same way each time.
    """
    block = int(data_block.removesuffix("kB")) * 1024
    planted = {SEQUENTIAL: block / (megabytes * _MB), RANDOM: 1 / requests}
    off: dict[str, float] = {}
    with own_database(builds[data_block], size, f"iops={requests},mbps={megabytes}", journal, account, cold=True) as (
        database,
        facts,
    ):
        assert facts["device_limit_asked"]["reads_per_second"] == requests
        for _ in range(3):
            found = fit(measure(database, cold=True, rounds=2, progress=quiet)).estimates
            off = {unit: found[unit].seconds / seconds - 1 for unit, seconds in planted.items()}
            if all(abs(by) <= _TOLERANCE for by in off.values()):
                break
    assert off == pytest.approx({SEQUENTIAL: 0, RANDOM: 0}, abs=_TOLERANCE)
    assert not list((octavo_home() / "volumes").glob("*"))


@pytest.mark.beside
def test_a_users_server_keeps_nothing(builds: dict[str, Build], journal: Journal, account: Account) -> None:
    """Also removes what a killed calibration has left there; objects with similar names remain."""
    build = builds["8kB"]
    with (
        data_directory(build, journal, account, "costs") as path,
        running(build, path, journal, account, shared_buffers="160MB", autovacuum="off") as server,
    ):
        before = databases(server)
        comments = {"octavo_costs_left": "made by octavo costs calibrate; can be dropped", "octavo_costs_mine": "mine"}
        for name, comment in comments.items():
            server.execute(f"CREATE DATABASE {name}")
            server.execute(f"COMMENT ON DATABASE {name} IS '{comment}'")
        dsn = f"host={server.socket_directory} user=octavo dbname=postgres"
        document = calibrate_server(dsn, CalibrationRequest(size=4 * _MB, rounds=2, cold=False), quiet)
        assert databases(server) == before | {"octavo_costs_mine"}
        with pytest.raises(OctavoError) as refused:
            server.execute("CREATE ROLE nobody LOGIN")
            calibrate_server(
                dsn.replace("user=octavo", "user=nobody"), CalibrationRequest(4 * _MB, 2, cold=False), quiet
            )
        assert isinstance(refused.value, HostError) and "CREATEDB" in str(refused.value)
        if os.geteuid() == 0:
            cold = calibrate_server(dsn, CalibrationRequest(size=4 * _MB, rounds=2, cold=True), quiet)
            assert cold["cache"] == "cold"
        assert databases(server) == before | {"octavo_costs_mine"}
        server.execute("CREATE ROLE anna LOGIN CREATEDB")
        server.execute("CREATE DATABASE octavo_costs_other")
        server.execute(f"COMMENT ON DATABASE octavo_costs_other IS '{comments['octavo_costs_left']}'")
        hers = dsn.replace("user=octavo", "user=anna")
        calibrate_server(hers, CalibrationRequest(4 * _MB, 2, cold=False), quiet)
        assert databases(server) == before | {"octavo_costs_mine", "octavo_costs_other"}  # not hers to drop
    (found,) = document["data_blocks"]
    assert found["data_block"] == "8kB" and len(found["settings"]) == 5
    assert {one["unit"] for one in found["seconds_each"]} >= {"tuple", "operator", "cached sequential page"}

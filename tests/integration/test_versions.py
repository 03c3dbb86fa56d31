"""Every version at a smaller, the default and a larger data block: initdb, a load, a checked shutdown.

18 is made if it is missing; other versions are tested if the machine has them, because making them takes minutes.
"""

import re
from pathlib import Path

import pytest
from tests.integration.servers import data_directory, running

from octavo.host import children
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build, find_build
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.limits import MAJOR_VERSIONS
from octavo.units import parse_size

pytestmark = pytest.mark.beside


@pytest.fixture(params=["4kB", "8kB", "32kB"])
def data_block(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=MAJOR_VERSIONS)
def versioned(
    request: pytest.FixtureRequest,
    data_block: str,
    builds: dict[str, Build],
    machine: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Build:
    """The build of each version at the data block."""
    with monkeypatch.context() as context:
        context.setenv("OCTAVO_HOME", str(machine))
        found = builds[data_block] if request.param == "18" else find_build(BuildSpec(request.param, data_block, "8kB"))
    if found is None:
        pytest.skip(f"octavo build --pg {request.param} --data-block {data_block} was not run here")
    return found


def test_it_works_at_its_block_size(versioned: Build, data_block: str, journal: Journal, account: Account) -> None:
    with data_directory(versioned, journal, account) as data:
        with running(versioned, data, journal, account) as server:
            assert int(server.settings()["block_size"]) == parse_size(data_block)
            assert int(server.settings()["wal_block_size"]) == parse_size(versioned.manifest["wal_block"])
            children.check(server.run_client("pgbench", "--initialize", "--quiet", "--scale=2"), "pgbench")
            ran = children.check(server.run_client("pgbench", "--client=2", "--jobs=2", "--time=2"), "pgbench").stdout
            processed = re.search(r"number of transactions actually processed: (\d+)", ran)
            assert processed is not None and int(processed[1]) > 0
            assert re.search(r"number of failed transactions: 0 ", ran)
            # TPC-B's consistency condition: every delta was applied to an account, a teller and a branch.
            sums = server.connection.execute(
                "SELECT (SELECT sum(abalance) FROM pgbench_accounts) AS accounts,"
                " (SELECT sum(tbalance) FROM pgbench_tellers) AS tellers,"
                " (SELECT sum(bbalance) FROM pgbench_branches) AS branches,"
                " (SELECT sum(delta) FROM pgbench_history) AS history"
            ).fetchone()
            assert sums is not None and len(set(sums.values())) == 1
            server.shut_down()
        checked = children.run(
            [versioned.program("pg_checksums"), "--check", "--pgdata", data], journal, role="test", account=account
        )
        told = children.check(checked, "pg_checksums").stdout
        assert re.search(r"Bad checksums:\s+0$", told, re.MULTILINE)
        assert re.search(r"Blocks scanned:\s+[1-9]", told)

"""Page tables on real servers, behind the real pgbouncer, and connections until the kernel kills one."""

import os
from pathlib import Path

import pytest
from tests.integration.conftest import needs_root
from tests.integration.servers import MB, data_directory, running
from tests.tools import found, needs, reason

from octavo.host import cgroup
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.hugepages.savings import predictable
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.process_roles import CLIENT
from octavo.workloads.base import WorkloadResult
from octavo.workloads.oom import Oom
from octavo.workloads.pooled import Pooled

pytestmark = pytest.mark.alone

_CONNECTIONS = 4


def values(result: WorkloadResult) -> dict[str, float]:
    return {one.metric: one.value for one in result.observations}


@needs("pgbouncer")
@pytest.mark.parametrize(("driver", "mix"), [("sysbench", "read"), ("pgbench", "read"), ("sysbench", "read-write")])
def test_connections_that_stay_have_the_page_tables_that_were_predicted(
    driver: str, mix: str, builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    if driver == "sysbench" and found("sysbench") is None:
        pytest.skip(reason("sysbench"))
    levels = {
        "driver": driver, "mix": mix, "database": "32MB", "connections": str(_CONNECTIONS), "duration": "3s",
        "huge_pages": "off",
    }  # fmt: skip
    workload = Pooled()
    build = builds["4kB"]
    with (
        data_directory(build, journal, account) as path,
        running(build, path, journal, account, shared_buffers="24MB", max_connections="20", huge_pages="off") as server,
    ):
        workload.fill(server, levels)
        result = workload.run(server, levels, 7)
        left = sorted(one.name for one in server.socket_directory.iterdir())
        assert not [name for name in left if "pgbouncer" in name or "6432" in name]
    seen = values(result)
    assert result.problems == ()
    assert result.transactions > 100
    assert seen["page_tables_bytes"] > seen["page_tables_growth_bytes"] > 0
    assert seen["page_tables_per_connection_bytes"] * _CONNECTIONS == seen["page_tables_bytes"]
    if mix == "read":
        assert {one.item for one in result.observations if one.metric == "first_victim_bytes"} == {CLIENT}
    quarters = {one.repetition for one in result.observations if one.metric == "pss_over_time_bytes"}
    assert quarters and quarters <= {1, 2, 3, 4}  # a busy machine may miss one
    roles = {one.item for one in result.observations if one.metric == "oom_weight_over_time_bytes"}
    assert {CLIENT, "checkpointer", "postmaster"} <= roles
    assert seen["swapped_bytes"] == 0 and "swap_onset_seconds" not in seen
    if predictable():
        assert 0.8 < seen["page_tables_of_predicted"] < 1.2  # they are a few tables each: a tenth of them is one
        assert seen["page_tables_predicted_bytes"] <= seen["page_tables_most_bytes"]
        assert 0 < seen["regions_touched"] <= 1


@needs_root
@pytest.mark.skipif(cgroup.memory_controller() is None, reason="no memory controller")
def test_the_oom_killer_takes_a_connection_and_recovery_loses_no_commit(
    builds: dict[str, Build], journal: Journal, account: Account, tmp_path: Path
) -> None:
    levels = {
        "database": "16MB", "most_connections": "150", "memory": "96MB", "shared_buffers": "24MB", "holds": "nothing",
        "neighbour": "none",
    }  # fmt: skip
    workload = Oom()
    build = builds["8kB"]
    settings = {"shared_buffers": "24MB", "max_connections": "160", "huge_pages": "off", "work_mem": "2MB"}
    with data_directory(build, journal, account) as path:
        with running(build, path, journal, account) as server:
            workload.fill(server, levels)
            server.shut_down()
        with (
            cgroup.group(f"test-{os.getpid()}", journal, memory=96 * MB) as group,
            cluster.start(
                build, path, settings, journal, account,
                log=tmp_path / "server.log", memory_group=group,
            ) as server,
        ):  # fmt: skip
            survived = workload.run(server, {**levels, "most_connections": "2"}, 7)
            server.execute("TRUNCATE ledger")
            # It is larger than any backend, so it is killed first, and the server stays up.
            beside = workload.run(server, {**levels, "neighbour": "48MB"}, 7)
            server.execute("TRUNCATE ledger")
            holding = workload.run(server, {**levels, "holds": "hash", "most_connections": "3"}, 7)
            server.execute("TRUNCATE ledger")
            result = workload.run(server, levels, 7)
    few = values(survived)
    assert (few["nothing_killed"], few["connections_until_kill"], survived.problems) == (1, 2, ())
    assert "seconds_until_kill" not in few and "recovery_seconds" not in few
    assert {one.item for one in beside.observations if one.metric == "killed_weight_bytes"} == {"neighbour"}
    assert "recovery_seconds" not in values(beside) and values(beside)["commits_lost"] == 0
    held = values(holding)
    assert held["hash_memory_bytes"] == 4 * MB  # 2 MB of work_mem, twice
    assert held["private_at_kill_bytes"] > few["private_at_kill_bytes"] + 0.7 * held["hash_memory_bytes"]
    seen = values(result)
    assert result.problems == ()
    assert "nothing_killed" not in seen
    assert seen["connections_until_kill"] > values(beside)["connections_until_kill"]
    assert 0 < seen["connections_until_kill"] < 150
    assert seen["commits_acknowledged"] >= 5 * (seen["connections_until_kill"] - 1) > 0
    assert seen["commits_lost"] == 0
    assert seen["recovery_seconds"] > 0
    assert "killed: a " in result.output

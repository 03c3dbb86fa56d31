"""The workload pgio on a real server: one row per block, its counts, and in slices."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.integration import servers

from octavo.home import store_path
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.lab.session import start_run
from octavo.plan.model import known_factors
from octavo.plan.parse import parse_plan
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import Server
from octavo.store.store import Store
from octavo.workloads.pgio import Pgio

PLAN = """
name = "turns"
question = "Does PGIO take turns?"
workload = "pgio"
rounds = 1
loads = 1
control = false
interleave = "slices"
slice = "100ms"

[baseline]
data_block = "8kB"

[factors]
data_block = ["4kB", "8kB"]
schemas = 2
scale = "2MB"
work_unit = 100
units = 2
duration = "1s"
recycled_wal = "64MB"
shared_buffers = "32MB"

[settings]
autovacuum = "off"

[validity]  # these trials are about the way, not about their numbers
most_steal = "100%"
most_foreign_cpu = "100%"
most_foreign_io = "1TB"
most_clock_step = "1h"
most_buffer_misses = "100%"
fewest_transactions = 1
"""
LEVELS = {factor.name: factor.default for factor in known_factors("pgio").values()} | {
    "data_block": "4kB", "schemas": "2", "threads": "2", "scale": "2MB", "duration": "1s", "work_unit": "100",
    "units": "5",
}  # fmt: skip
FAST = {"fsync": "off", "shared_buffers": "64MB", "autovacuum": "off"}


@pytest.fixture(scope="module")
def server(builds: dict[str, Build], home: Path, account: Account) -> Iterator[Server]:
    build = builds["4kB"]
    with (
        Journal() as journal,
        servers.data_directory(build, journal, account) as path,
        servers.running(build, path, journal, account, **FAST) as running,
    ):
        Pgio().fill(running, LEVELS)
        running.execute("VACUUM (FREEZE, ANALYZE)")
        yield running


def number(server: Server, what: str) -> int:
    (row,) = server.connection.execute(f"SELECT {what}".encode()).fetchall()
    (value,) = row.values()
    return int(value)


@pytest.mark.beside
def test_a_call_reads_its_work_units_and_little_else(server: Server) -> None:
    assert number(server, "count(DISTINCT ctid) FROM pgio1") == number(server, "count(*) FROM pgio1") == 512
    apart = """avg(abs(block - before)) FROM (
        SELECT (ctid::text::point)[0] AS block, lag((ctid::text::point)[0]) OVER (ORDER BY mykey) AS before FROM pgio2
    ) AS rows"""
    assert number(server, apart) > 512 / 10  # neighbours by key are not neighbours in the file
    workload = Pgio()
    result = workload.run(server, LEVELS, 7)
    assert result.problems == ()
    values = {one.metric: one.value for one in result.observations}
    each = values["liops"] * result.seconds / result.transactions
    assert 500 <= each <= 500 * 1.2  # plus the index, and the catalogs that four sessions read
    assert values["liops_per_thread"] == pytest.approx(values["liops"] / 4)
    assert values["looked_for_bytes_per_second"] == pytest.approx(values["liops"] * 4096)
    assert 0 < values["session_liops_min"] <= values["session_liops_median"] <= values["session_liops_max"]
    (own,) = workload.afterwards(server, LEVELS, result)
    assert 0 < own.value < 1


@pytest.mark.beside
def test_updates_are_counted_and_all_there(server: Server) -> None:
    before = number(server, "sum(scratch) FROM (TABLE pgio1 UNION ALL TABLE pgio2) AS rows")
    result = Pgio().run(server, {**LEVELS, "update_pct": "100", "blocks": "same"}, 7)
    assert result.problems == ()  # sessions of one schema on the same rows: no deadlock
    values = {one.metric: one.value for one in result.observations}
    updated = values["updates_per_second"] * result.seconds
    assert number(server, "sum(scratch) FROM (TABLE pgio1 UNION ALL TABLE pgio2) AS rows") - before == pytest.approx(
        updated
    )
    assert updated == pytest.approx(result.transactions * 8, rel=0.01)  # units at the same place are the same rows
    assert number(server, "count(*) FROM pgio1 WHERE scratch > 0") <= 8


@pytest.mark.beside
def test_what_updates_cost_themselves_is_measured_by_calls_that_update_nothing(server: Server) -> None:
    levels = {**LEVELS, "update_pct": "100"}
    result = Pgio().run(server, levels, 7)
    before = number(server, "sum(scratch) FROM (TABLE pgio1 UNION ALL TABLE pgio2) AS rows")
    (own,) = Pgio().afterwards(server, levels, result)
    assert 0 < own.value < 1
    assert number(server, "sum(scratch) FROM (TABLE pgio1 UNION ALL TABLE pgio2) AS rows") == before


@pytest.mark.measures
def test_block_sizes_take_turns_and_are_compared_by_liops(home: Path) -> None:
    ended = start_run(parse_plan(PLAN, origin="test"), "", "octavo run", 7, lambda event: None)
    with closing(Store.open(store_path())) as store:
        trials = store.trials(ended.run)
        metric = next(iter(store.run(ended.run).metrics))
    assert metric == "liops_per_thread"
    assert [(trial.status, trial.reason) for trial in trials] == [("ok", None)] * 2
    for trial in trials:
        assert (trial.facts or {})["interleave"] == "slices"
        values = {one.metric: one.value for one in trial.observations if one.item is None}
        assert 200 * 1.0 <= values["liops"] / values["tps"] <= 200 * 1.5  # plus the index
        assert values["liops_per_thread"] == pytest.approx(values["liops"] / 2)
        assert 0 < values["session_liops_min"] <= values["session_liops_max"] <= values["liops"]

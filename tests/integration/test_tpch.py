"""TPC-H on real servers: a complete trial at scale factor 0.01, and a result that one changed row makes wrong."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.integration.loads import row, serving

from octavo.analysis.document import make_document
from octavo.errors import OctavoError
from octavo.home import store_path
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.lab.loads import make_load
from octavo.lab.session import start_run
from octavo.plan.presets import find_plan
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import DATABASE, Server
from octavo.postgres.datasets import cache
from octavo.postgres.datasets.spec import Dataset
from octavo.postgres.plan_shape import from_dict
from octavo.store.store import Store
from octavo.workloads.tpch import WORKLOAD, generator, queries, schema
from octavo.workloads.tpch.duckdb_tpch import known
from octavo.workloads.tpch.loading import STEPS

pytestmark = pytest.mark.measures

_LEVELS = {
    "scale": "0.01", "order": "keys-first", "statistics_target": "100", "queries": "all", "repetitions": "1",
    "min_time": "none", "query_timeout": "none", "explain": "analyze", "phase": "queries", "cache": "warm",
    "data_block": "8kB", "costs": "default",
}  # fmt: skip

# Without the checks that only a quiet machine passes.
_PLAN = """
name = "tpch"
question = "Does the whole way work?"
workload = "tpch"
rounds = 1
loads = 1
control = false
interleave = "trials"
[baseline]
data_block = "8kB"
[factors]
data_block = ["8kB", "32kB"]
phase = "{phase}"
queries = "{queries}"
cache = "{cache}"
scale = 0.01
recycled_wal = "32MB"
[settings]
autovacuum = "off"
checkpoint_timeout = "1h"
[validity]
fewest_transactions = 1
most_steal = "100%"
most_foreign_cpu = "100%"
most_foreign_io = "1TB"
most_clock_step = "1h"
most_warm_reads = "1000%"
"""


def trials_of(path: Path, **words: str) -> list[dict[str, Any]]:
    if words:
        path.write_text(_PLAN.format(**words))
    ended = start_run(find_plan(str(path))[0], "", "octavo run", 7, lambda _: None)
    with closing(Store.open(store_path())) as store:
        trials: list[dict[str, Any]] = make_document(store, ended.run)["trials"]
    assert [(trial["status"], trial["reason"]) for trial in trials] == [("ok", None)] * 2
    return trials


def seconds_of(trial: dict[str, Any]) -> dict[str | None, float]:
    return {one["item"]: one["value"] for one in trial["observations"] if one["metric"] == "seconds"}


def test_cold_queries_on_a_restarted_server_are_right_at_two_block_sizes(
    home: Path, builds: dict[str, Build], tmp_path: Path
) -> None:
    trials = trials_of(tmp_path / "cold.toml", phase="queries", queries="6,13", cache="cold")
    for trial in trials:
        assert set(seconds_of(trial)) == {None, "q6", "q13"}
        assert trial["facts"]["restarts"] == 2
        assert trial["facts"]["cold_requested_bytes"] > 0
        assert set(trial["facts"]["plans"]) == {"q6", "q13"}
    assert trials[0]["facts"]["results"] == trials[1]["facts"]["results"]


def test_queries_take_turns_with_all_cells_up_at_once(home: Path, builds: dict[str, Build], tmp_path: Path) -> None:
    path = tmp_path / "slices.toml"
    path.write_text(_PLAN.format(phase="queries", queries="6,14", cache="warm").replace('"trials"', '"slices"'))
    for trial in trials_of(path):
        facts = trial["facts"]
        assert set(seconds_of(trial)) == {None, "q6", "q14"}
        assert (facts["interleave"], facts["turns"] - facts["turns_dropped"]) == ("slices", 2)
        assert (facts["slice_seconds"] == 0.1) == facts["stopped_between_slices"].startswith("server and client")
        assert set(facts["results"]) == set(facts["plans"]) == {"q6", "q14"}


def test_a_second_load_is_the_first_analysed_again(
    home: Path, builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    levels = {
        **_LEVELS, "wal_segment": "16MB", "recycled_wal": "32MB", "checksums": "on", "statistics_target": "50",
    }  # fmt: skip

    def made(load: int) -> Dataset:
        return make_load(builds["8kB"], WORKLOAD, levels, load, journal, account)

    before = set(cache.held())
    second = made(2)
    assert set(cache.held()) - before == {second.name}  # the first may be removed to make room
    first = made(1)
    assert second.manifest["copied_from"] == first.name
    assert second.manifest["database_bytes"] == pytest.approx(first.manifest["database_bytes"], rel=0.02)
    rows: list[list[Any]] = []
    histograms: list[str] = []
    for dataset in (first, second):
        with serving(dataset, journal, account) as server:
            rows.append(server.connection.execute("SELECT ctid, l_orderkey FROM lineitem LIMIT 5000").fetchall())
            asked = "SELECT histogram_bounds::text AS bounds FROM pg_stats WHERE attname = 'l_extendedprice'"
            histograms.append(row(server, asked)["bounds"])
    assert rows[0] == rows[1]
    assert histograms[0] != histograms[1]


@pytest.mark.parametrize("interleave", ["trials", "slices"])
def test_a_load_is_five_steps_with_their_wal_and_the_plans_of_foreign_keys(
    home: Path, builds: dict[str, Build], tmp_path: Path, interleave: str
) -> None:
    path = tmp_path / "load.toml"
    path.write_text(_PLAN.format(phase="load", queries="all", cache="warm").replace('"trials"', f'"{interleave}"'))
    for trial in trials_of(path):
        assert trial["facts"].get("interleave", "trials") == interleave
        assert ("dirty_expire_centisecs" in trial["facts"]) == (interleave == "slices")
        assert set(seconds_of(trial)) == {None, *(f"load.{step}" for step in STEPS)}
        numbers = {(one["item"], one["metric"]): one["value"] for one in trial["observations"]}
        assert (("load.copy", "generator_seconds") in numbers) == (interleave == "trials")
        assert interleave == "trials" or ("load.copy", "query_device_writes") not in numbers
        for step in ("copy", "pkey", "indexes"):
            item = f"load.{step}"
            assert numbers[item, "wal_read_share"] == 1
            parts = sum(numbers[item, f"wal_{part}_bytes"] for part in ("record", "image", "page_header"))
            # Records are aligned to 8 bytes, and the unused rest of a segment does not count.
            assert 0.9 * numbers[item, "wal_bytes"] < parts <= numbers[item, "wal_bytes"]
        assert numbers[None, "table_bytes"] + numbers[None, "index_bytes"] < numbers[None, "database_bytes"]
        shapes = [from_dict(trial["facts"]["plan_shapes"][one])
                  for one in trial["facts"]["plans"]["load.fkey"].split("/")]  # fmt: skip
        assert any(shape.relations() == ("lineitem", "partsupp") for shape in shapes)


@pytest.fixture(scope="module")
def server(builds: dict[str, Build], home: Path, account: Account) -> Iterator[Server]:
    directory = home / "tpch-server"
    build = builds["8kB"]
    with Journal() as journal:
        cluster.initialise(build, directory, journal, account, wal_segment=16 * 1024**2, checksums=False)
        settings = {"fsync": "off", "autovacuum": "off", "jit": "off"}
        with cluster.start(build, directory, settings, journal, account, log=home / "tpch.log") as started:
            with started.connect("postgres") as connection:
                connection.execute(f"CREATE DATABASE {DATABASE}".encode())
            WORKLOAD.fill(started, _LEVELS)
            started.execute("VACUUM ANALYZE")
            yield started


def test_all_queries_give_the_reference_answers(server: Server) -> None:
    result = WORKLOAD.run(server, {**_LEVELS, "query_timeout": "10min"}, 1)
    assert result.transactions == 22
    assert set(result.facts["plans"]) == {f"q{number}" for number in range(1, 23)}
    # Each query's own plan, not one forced by a setting.
    assert len(set(result.facts["plans"].values())) == 22
    captures = {one.item: one.value for one in result.observations if one.metric == "plan_capture_ratio"}
    assert set(captures) == {None, *(f"q{number}" for number in queries.CAPTURE_PROBES)}
    assert all(0.2 < ratio < 5 for ratio in captures.values())
    for item, identities in result.facts["plans"].items():
        relations = from_dict(result.facts["plan_shapes"][identities]).nodes()
        assert {node.relation for node in relations} & set(schema.TABLES), item


@pytest.mark.parametrize("costs", ["scaled", "calibrated"])
def test_sessions_have_the_costs_of_their_level(server: Server, costs: str) -> None:
    levels = {**_LEVELS, "costs": costs, "device": "native", "queries": "6"}
    session = queries.open_session(server, levels)
    (row,) = session.connection.execute("SHOW seq_page_cost").fetchall()
    session.connection.close()
    result = queries.run(server, levels)
    assert set(result.facts["costs"]) >= {"seq_page_cost", "random_page_cost"}
    # SHOW prints six digits.
    assert float(row["seq_page_cost"]) == pytest.approx(float(result.facts["costs"]["seq_page_cost"]), rel=1e-5)


def test_a_query_that_takes_too_long_is_cut_off_and_a_short_one_repeated(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = replace(known(), queries={**known().queries, 9: "SELECT pg_sleep(600)"})
    monkeypatch.setattr(queries, "known", lambda: endless)
    levels = {**_LEVELS, "queries": "9,22", "query_timeout": "3s", "min_time": "1s"}
    result = queries.run(server, levels)
    assert result.facts["timed_out"] == ["q9 (1)"]
    times = [one.value for one in result.observations if (one.item, one.metric) == ("q22", "seconds")]
    assert sum(times[:-1]) < 1
    assert sum(times) >= 1 or len(times) == queries.MOST_RUNS
    with pytest.raises(OctavoError, match="every query was cancelled after 3s"):
        queries.run(server, {**levels, "queries": "9"})


def test_a_query_is_waited_for_in_parts(server: Server) -> None:
    session = queries.open_session(server, _LEVELS)
    running = session.begin(server, "SELECT count(*) FROM lineitem a, lineitem b WHERE a.l_partkey = b.l_partkey")
    running.go()
    parts = 1
    while not running.wait(0.001):
        parts += 1
    ran = running.end(12.5)
    assert ran.rows is not None and ran.plan is not None
    assert parts > 1 and ran.seconds == ran.used.seconds == 12.5
    endless = session.begin(server, "SELECT pg_sleep(600)")
    endless.go()
    assert not endless.wait(0.001)
    endless.cancel()
    assert endless.wait(60)
    assert endless.end(1.0).rows is None
    broken = session.begin(server, "SELECT 1 / 0")
    broken.go()
    assert broken.wait(60)
    with pytest.raises(psycopg.errors.DivisionByZero):
        broken.end(1.0)
    assert session.run(server, "SELECT 1").rows == (("1",),)
    session.connection.close()


@pytest.mark.parametrize("statement", [
    "UPDATE lineitem SET l_quantity = l_quantity + 1 WHERE l_orderkey = 1 AND l_linenumber = 1",
    "UPDATE orders SET o_comment = 'special requests' WHERE o_orderkey = (SELECT min(o_orderkey) FROM orders)",
])  # fmt: skip
def test_one_changed_row_makes_a_result_wrong(server: Server, statement: str) -> None:
    number = "1" if "lineitem" in statement else "13"
    with server.connect(DATABASE) as connection:
        before = connection.execute("SELECT l_quantity, o_comment FROM lineitem, orders WHERE l_orderkey = 1 "
                                    "AND l_linenumber = 1 AND o_orderkey = 1").fetchone()  # fmt: skip
        assert before is not None
        connection.execute(statement.encode())
        with pytest.raises(OctavoError, match=f"q{number} at scale factor 0.01: wrong result"):
            queries.run(server, {**_LEVELS, "queries": number})
        connection.execute("UPDATE lineitem SET l_quantity = %s WHERE l_orderkey = 1 AND l_linenumber = 1",
                           (before["l_quantity"],))  # fmt: skip
        connection.execute("UPDATE orders SET o_comment = %s WHERE o_orderkey = 1", (before["o_comment"],))


def test_a_generator_that_fails_is_an_error_that_names_it(server: Server) -> None:
    with (
        generator.lent_program(server) as program,
        pytest.raises(OctavoError, match="tpchgen-cli failed"),
        generator.stream(server, program, ["no_table"], "0.01") as rows,
        open(rows.pipe, "rb", closefd=False) as file,
    ):
        assert file.read() == b""
        rows.end()

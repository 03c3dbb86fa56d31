"""The TPC-C-like workload: it satisfies the specification's conditions at a small block size, and a violation is
named."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.integration import servers
from tests.integration.counting import Counting

from octavo.home import store_path
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.lab.session import start_run
from octavo.plan.model import known_factors
from octavo.plan.parse import parse_plan
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import Server
from octavo.store.store import Store
from octavo.workloads import WORKLOADS, find
from octavo.workloads.base import Levels
from octavo.workloads.tpcc_like import MIX, TpccLike, lent_scripts

LEVELS = {factor.name: factor.default for factor in known_factors("tpcc-like").values()} | {
    "scale": "2", "duration": "2s", "clients": "4",
}  # fmt: skip
FAST = {"fsync": "off", "shared_buffers": "256MB", "autovacuum": "off"}


@pytest.fixture(scope="module")
def server(builds: dict[str, Build], home: Path, account: Account) -> Iterator[Server]:
    build = builds["4kB"]
    with (
        Journal() as journal,
        servers.data_directory(build, journal, account) as path,
        servers.running(build, path, journal, account, **FAST) as running,
    ):
        find("tpcc-like").fill(running, LEVELS)
        running.execute("ANALYZE")
        yield running


def test_a_run_has_every_transaction_and_breaks_no_condition(server: Server) -> None:
    workload = TpccLike()
    assert workload.violations(server, LEVELS) == ()
    workload.warm(server, LEVELS, 1)
    (before,) = server.connection.execute("SELECT sum(d_next_o_id) AS n FROM district").fetchall()
    result = workload.run(server, LEVELS, 7)
    assert result.problems == ()
    values = {observation.metric: observation.value for observation in result.observations if not observation.item}
    assert values["tps"] > 0
    assert values["latency_samples"] == values["transactions"] == result.transactions
    items = {observation.item for observation in result.observations if observation.item}
    assert items == {name for name in MIX if name != "new order rolled back"}
    (after,) = server.connection.execute("SELECT sum(d_next_o_id) AS n FROM district").fetchall()
    # Transactions that are rolled back leave no order and do not count.
    assert values["new_orders_per_minute"] * result.seconds / 60 == pytest.approx(after["n"] - before["n"], abs=1e-6)
    assert workload.violations(server, LEVELS) == ()
    remote = "SELECT count(*) AS n FROM order_line WHERE ol_supply_w_id <> ol_w_id"
    assert server.connection.execute(remote.encode()).fetchall()[0]["n"] > 0


def test_an_order_for_an_item_that_does_not_exist_leaves_nothing(server: Server) -> None:
    (before,) = server.connection.execute("SELECT sum(d_next_o_id) AS n FROM district").fetchall()
    with lent_scripts(server, LEVELS) as what:
        number = list(MIX).index("new order rolled back")
        options = [option for option in what if not option.startswith("--file=")]
        script = [option for option in what if option.startswith("--file=")][number].rpartition("@")[0]
        finished = server.run_client("pgbench", "--no-vacuum", "--transactions=20", *options, script)
    assert "number of transactions actually processed: 20/20" in finished.stdout, finished.stderr
    assert "failed transactions: 0" in finished.stdout
    (after,) = server.connection.execute("SELECT sum(d_next_o_id) AS n FROM district").fetchall()
    assert after == before


def test_an_order_that_finds_no_item_is_no_success(server: Server) -> None:
    """It is rolled back, but pgbench would count it: a server with wrong answers would look fast."""
    server.execute("CREATE TABLE kept AS SELECT * FROM item")
    server.execute("DELETE FROM item WHERE i_id % 2 = 0")
    try:
        result = TpccLike().run(server, LEVELS, 3)
        assert any("an order has lines without an item" in problem for problem in result.problems)
    finally:
        server.execute("TRUNCATE item")
        server.execute("INSERT INTO item SELECT * FROM kept")
        server.execute("DROP TABLE kept")
    assert TpccLike().violations(server, LEVELS) == ()


@pytest.mark.parametrize(("table", "column"), [("item", "i_data"), ("stock", "s_data")])
def test_data_are_as_long_as_the_specification_says(server: Server, table: str, column: str) -> None:
    (row,) = server.connection.execute(
        f"SELECT min(length({column})), max(length({column})), avg(length({column})) AS mean, "  # noqa: S608
        f"avg(({column} LIKE '%ORIGINAL%')::integer) AS original FROM {table}".encode()
    ).fetchall()
    assert (row["min"], row["max"]) == (26, 50)
    assert float(row["mean"]) == pytest.approx(38, abs=0.5)
    assert float(row["original"]) == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize(
    ("clause", "damage"),
    [
        ("3.3.2.1", "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1"),
        ("3.3.2.2", "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 3"),
        ("3.3.2.3", "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1 AND no_o_id = 2990"),
        ("3.3.2.4", "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 1 AND o_d_id = 2 AND o_id = 7"),
        ("3.3.2.5", "UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 2 AND o_id = 7"),
        ("3.3.2.6", "DELETE FROM order_line WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 7 AND ol_number = 1"),
        ("3.3.2.7", "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 7"),
        ("3.3.2.8", "UPDATE history SET h_w_id = 2 WHERE ctid = (SELECT min(ctid) FROM history WHERE h_w_id = 1)"),
        ("3.3.2.9", "UPDATE history SET h_d_id = h_d_id % 10 + 1 WHERE ctid = (SELECT min(ctid) FROM history)"),
        ("3.3.2.10", "UPDATE customer SET c_balance = c_balance + 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1"),
        ("3.3.2.10", "DELETE FROM customer WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1"),
        ("3.3.2.12", "UPDATE customer SET c_ytd_payment = 0 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1"),
        ("3.3.2.12", "UPDATE history SET h_c_id = 99999 WHERE ctid = (SELECT min(ctid) FROM history)"),
        ("4.3.3.1", "DELETE FROM stock WHERE s_w_id = 2 AND s_i_id = 17"),
        ("4.3.3.1", "DELETE FROM item WHERE i_id = 17"),
    ],
)
def test_a_broken_condition_is_named(server: Server, clause: str, damage: str) -> None:
    server.execute("BEGIN")
    try:
        server.execute(damage)
        assert any(f"condition {clause}," in line for line in TpccLike().violations(server, LEVELS))
    finally:
        server.execute("ROLLBACK")


class Miscounting(Counting):
    def violations(self, server: Server, levels: Levels) -> tuple[str, ...]:
        return ("condition 1, two and two are four: 3×",)


WORKLOAD = Miscounting()


@pytest.mark.measures
def test_a_trial_whose_data_are_wrong_is_invalid(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WORKLOADS, "miscounting", __name__)
    plan = parse_plan(
        """
        name = "wrong"
        question = "Is a wrong run found out?"
        workload = "miscounting"
        rounds = 1
        loads = 1
        control = false
        [baseline]
        data_block = "4kB"
        [factors]
        data_block = "4kB"
        rows = 500
        recycled_wal = "32MB"
        """,
        origin="test",
    )
    ended = start_run(plan, "", "octavo run", 7, lambda _: None)
    with closing(Store.open(store_path())) as store:
        trials = store.trials(ended.run)
    assert trials
    for trial in trials:
        assert (trial.status, trial.reason) == ("invalid", "condition 1, two and two are four: 3×")
        assert trial.facts is not None
        assert trial.facts["rule"] == "consistency"

"""Plans forced on real servers, and statistics that give two sizes the same estimates."""

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager

import pytest

from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build
from octavo.postgres.scratch import scratch_server
from octavo.query_plans.costs import compared
from octavo.query_plans.effects import DEFAULT, effects, medians
from octavo.query_plans.statistics import carry, read, restore
from octavo.query_plans.table import BlockSizeServer, PlanTableRequest, explain, tables

pytestmark = pytest.mark.beside

_SETUP = (
    "CREATE TABLE orders (id int PRIMARY KEY, price numeric, pad text)",
    "INSERT INTO orders SELECT i, i % 977, repeat('x', 120) FROM generate_series(1, 30000) i",
    "CREATE TABLE picked (number int, id int)",
    "INSERT INTO picked SELECT i, 1 + i * 7919 % 30000 FROM generate_series(1, 1000) i",
    "VACUUM (FREEZE, ANALYZE) orders, picked",
)
_QUERY = "SELECT sum(o.price) FROM picked p JOIN orders o ON o.id = p.id WHERE p.number <= {}"
# The number of rows that are looked up one by one where that costs more than a scan of all pages.
_QUERIES = {f"{rows} rows": _QUERY.format(rows) for rows in (50, 100, 150, 200, 300, 400)}
_SIZES = ("4kB", "32kB")


@contextmanager
def served(
    builds: dict[str, Build], journal: Journal, account: Account
) -> Generator[Sequence[BlockSizeServer], None, None]:
    with ExitStack() as stack:
        found: list[BlockSizeServer] = []
        for size in _SIZES:
            server = stack.enter_context(scratch_server(builds[size], journal, account, {"autovacuum": "off"}))
            connection = stack.enter_context(server.connect("postgres"))
            for statement in _SETUP:
                connection.execute(statement.encode())
            found.append(BlockSizeServer(int(size.removesuffix("kB")) * 1024, connection))
        yield found


def test_plans_are_forced_and_timed_at_every_size(builds: dict[str, Build], journal: Journal, account: Account) -> None:
    blocks = [int(size.removesuffix("kB")) * 1024 for size in _SIZES]
    request = PlanTableRequest(rounds=1, tries=300, timeout=60.0, seed=1, settings={}, costs=compared(blocks, None))
    told: list[str] = []
    with served(builds, journal, account) as servers:
        small, large = (server.connection for server in servers)
        assert carry(small, large) == 5
        estimates = [
            connection.execute("SELECT reltuples FROM pg_class WHERE relname = 'orders'").fetchone()
            for connection in (small, large)
        ]
        assert estimates[0] == estimates[1]
        bounds = [
            connection.execute(
                "SELECT histogram_bounds::text, n_distinct FROM pg_stats WHERE attname = 'price'"
            ).fetchone()
            for connection in (small, large)
        ]
        assert bounds[0] == bounds[1] is not None
        found = tables(servers, _QUERIES, request, told.append)
        by_block = {server.block: server.connection for server in servers}
        for table in found:
            # The plan that is reported as forced is the one that ran.
            for entry in table.entries:
                if entry.forced is not None:
                    shape = explain(by_block[entry.block], _QUERIES[table.query], entry.forced.settings)
                    assert shape.identity == entry.plan
                    assert len(entry.seconds) == 1 and (entry.block, entry.plan) in medians(table)
            assert set(table.chosen(DEFAULT)) == set(blocks)
    assert any(len(table.plans) > 1 for table in found)
    done, wanted = (sum(parts) for parts in zip(*(table.forced() for table in found), strict=True))
    assert wanted > 0 and done / wanted > 0.5
    assert any(effect.page is not None for table in found for effect in effects(table, blocks[0]))


def test_loads_that_draw_other_statistics_have_one_plan_with_those_of_one(
    builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    """ANALYZE of another state of the table leads to another plan; with the first one's statistics it is the same."""
    query = _QUERIES["50 rows"]
    with scratch_server(builds["8kB"], journal, account, {"autovacuum": "off"}) as server:
        connection = server.connect("postgres")
        for statement in _SETUP:
            connection.execute(statement.encode())
        first, statistics = explain(connection, query, {}), read(connection)
        # The statistics of a sample with few distinct numbers: the planner expects most rows.
        connection.execute(b"CREATE TABLE kept AS SELECT * FROM picked")
        connection.execute(b"UPDATE picked SET number = 1")
        connection.execute(b"ANALYZE picked")
        connection.execute(b"TRUNCATE picked")
        connection.execute(b"INSERT INTO picked SELECT * FROM kept")
        connection.execute(b"VACUUM picked")  # counts pages and rows, but keeps the statistics of columns
        other = explain(connection, query, {})
        assert other != first
        restore(connection, statistics)
        assert explain(connection, query, {}) == first
        connection.close()

"""pgbench's tables on a real server: row width and page fill as requested, and the predicted size."""

import pytest
from tests.integration.servers import data_directory, running

from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build
from octavo.units import parse_size
from octavo.workload_support import pgbench_tables

pytestmark = pytest.mark.beside


@pytest.mark.parametrize(("block", "width", "fillfactor"), [("4kB", 1000, 50), ("32kB", 121, 100)])
def test_tables_are_as_large_as_foretold(
    builds: dict[str, Build], block: str, width: int, fillfactor: int, journal: Journal, account: Account
) -> None:
    levels = {
        "scale": "1", "row_width": str(width), "fillfactor": str(fillfactor), "data_block": block,
        "shared_buffers": "128MB", "memory": "none",
    }  # fmt: skip
    with (
        data_directory(builds[block], journal, account) as path,
        running(builds[block], path, journal, account) as server,
    ):
        pgbench_tables.make(server, levels)
        (found,) = server.connection.execute(
            "SELECT pg_relation_size('pgbench_accounts') + pg_relation_size('pgbench_accounts_pkey') AS bytes, "
            "count(*) AS rows, 24 + 12 + avg(pg_column_size(filler)) AS width FROM pgbench_accounts"
        )
    assert found["rows"] == pgbench_tables.ACCOUNTS
    assert int(found["width"]) == width
    foretold = pgbench_tables.database_bytes(levels)
    # COPY extends a table by up to 64 pages at once (MAX_BUFFERS_TO_EXTEND_BY, hio.c).
    assert 0.99 * foretold <= found["bytes"] <= 1.01 * foretold + 64 * parse_size(block)

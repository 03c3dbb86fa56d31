"""The blocks of a bitmap heap scan, read from a server, compared with the server's own counts."""

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.integration.servers import data_directory, running

from octavo.errors import HostError, UsageError
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.io.from_query import blocks_of_query
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import Server


@pytest.fixture
def server(build: Build, journal: Journal, account: Account) -> Generator[Server]:
    with data_directory(build, journal, account) as path, running(build, path, journal, account) as server:
        server.execute("CREATE TABLE visited (id int, place int, filler text) WITH (fillfactor = 20)")
        server.execute(
            "INSERT INTO visited SELECT i, (i * 7919) % 20000, repeat('x', 40) FROM generate_series(1, 20000) AS i"
        )
        server.execute("CREATE INDEX ON visited (place)")
        server.execute("VACUUM (FREEZE, ANALYZE) visited")
        yield server


def dsn(server: Server) -> str:
    environment = server.client_environment()
    return " ".join(
        f"{key}={environment[name]}"
        for key, name in (("host", "PGHOST"), ("port", "PGPORT"), ("user", "PGUSER"), ("dbname", "PGDATABASE"))
    )


def bitmap_scan(server: Server, query: str) -> dict[str, Any]:
    server.execute("SET enable_seqscan = off")
    server.execute("SET enable_indexscan = off")
    rows = server.connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}".encode()).fetchall()
    plan = rows[0]["QUERY PLAN"][0]["Plan"]
    while plan["Node Type"] != "Bitmap Heap Scan":
        plan = plan["Plans"][0]
    return plan


def test_as_many_blocks_as_the_servers_own_scan(server: Server) -> None:
    for query in (
        "SELECT sum(id) FROM visited WHERE place BETWEEN 100 AND 400",
        "SELECT * FROM visited AS v WHERE v.place < 50 AND v.filler <> 'y' ORDER BY id",
        "SELECT id FROM visited WHERE place IN (3, 5) OR place > 19990",
        "SELECT count(*) FROM visited WHERE place < 19000",
    ):
        visited = blocks_of_query(query, dsn(server))
        scan = bitmap_scan(server, query)
        assert len(visited.blocks) == scan["Exact Heap Blocks"] + scan["Lossy Heap Blocks"], query
        assert list(visited.blocks) == sorted(set(visited.blocks))
        assert visited.blocks[-1] < visited.relation_blocks
        assert visited.relation == "public.visited"
        assert visited.block == int(server.settings()["block_size"])
        size = sum(path.stat().st_size for path in visited.segments())
        assert size == visited.relation_blocks * visited.block
    assert visited.forced, "a query that takes nearly all is no bitmap heap scan by itself"


def test_blocks_of_a_table_are_not_those_of_its_children(server: Server) -> None:
    query = "SELECT sum(id) FROM visited WHERE place BETWEEN 100 AND 400"
    before = blocks_of_query(query, dsn(server))
    server.execute("CREATE TABLE child (note text) INHERITS (visited)")
    server.execute("INSERT INTO child SELECT i, 200, 'x', repeat('y', 900) FROM generate_series(1, 9000) AS i")
    server.execute("ANALYZE visited")
    after = blocks_of_query(query, dsn(server))
    assert after.relation == "public.visited" and after.blocks == before.blocks


def test_the_server_is_not_changed(server: Server) -> None:
    for query, said in (
        ("DELETE FROM visited WHERE place < 50 RETURNING (SELECT 1 FROM nothing)", "nothing"),
        ("SELECT 1; DROP TABLE visited", "multiple commands"),
        ("SELECT 1", "no plan with a bitmap heap scan"),
        ("SELECT * FROM visited WHERE place = -1", "no row of the table"),
        ("SELECT * FROM visited WHERE place < (SELECT max(id) / 100 FROM visited)", "another part of the query"),
    ):
        with pytest.raises(UsageError, match=said):
            blocks_of_query(query, dsn(server))
    rows = server.connection.execute("SELECT count(*) AS rows FROM visited").fetchone()
    assert rows == {"rows": 20_000}


def test_the_list_is_measured(server: Server) -> None:
    from octavo.io.engine import measure
    from octavo.io.job import Job

    visited = blocks_of_query("SELECT sum(id) FROM visited WHERE place < 300", dsn(server))
    paths = tuple(map(str, visited.segments()))
    job = Job(paths, visited.block, "list", block_list=visited.block_list(), cache="found", once=True)
    assert measure(job, lambda phase, done, total: None).blocks == len(visited.blocks)


def test_a_user_who_may_not_see_the_data_directory_names_the_file(server: Server) -> None:
    server.execute("CREATE ROLE reader LOGIN")
    server.execute("GRANT SELECT ON visited TO reader")
    query = "SELECT sum(id) FROM visited WHERE place < 300"
    visited = blocks_of_query(query, f"{dsn(server)} user=reader")
    assert visited.blocks == blocks_of_query(query, dsn(server)).blocks
    with pytest.raises(HostError, match="may not see the data directory's path; name the table's FILE"):
        visited.segments()


def test_a_file_of_another_cluster_is_not_read(server: Server, tmp_path: Path) -> None:
    """A server of another host may have the same paths as one of this host."""
    visited = blocks_of_query("SELECT sum(id) FROM visited WHERE place < 300", dsn(server))
    assert visited.segments()
    (tmp_path / "global").mkdir()
    control = tmp_path / "global" / "pg_control"
    control.write_bytes((server.directory / "global" / "pg_control").read_bytes())
    assert replace(visited, directory=tmp_path).segments(), "a standby, or a copy"
    control.write_bytes(bytes(8192))
    with pytest.raises(HostError, match="another cluster's, not the server's"):
        replace(visited, directory=tmp_path).segments()

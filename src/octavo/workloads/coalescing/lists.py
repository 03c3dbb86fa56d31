"""The table whose blocks are read, and the blocks that bitmap heap scans of it visit: lists stored in the load, next to
the table.

The lists are made once per load, by `octavo.io.from_query`, and compared with the counts of the scans themselves. The
first scan after loading shows how many blocks are dirtied by hint bits; after VACUUM no scan may dirty a block.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg import sql

from octavo.errors import OctavoError
from octavo.io.from_query import visited_by
from octavo.io.target import own_segments
from octavo.postgres.cluster import DATABASE, Server

# Shares of the rows, in 1/_KEYS, by the name of the scan. With 8 kB blocks of about 21 rows they are in about 4 %,
# 19 % and 66 % of the blocks: far apart, with holes of a few blocks, and in short runs.
SCANS = {"bitmap 0.2%": 2_000, "bitmap 1%": 10_000, "bitmap 5%": 50_000}
_KEYS = 1_000_000
# The approximate size of a row with its header, line pointer and key (PostgreSQL's manual, "Database Page Layout"), and
# of its index entry.
_PAD_BYTES, _ROW_BYTES, _INDEX_BYTES = 340, 376, 20
# setseed() accepts -1 to 1: so many loads have their own random order.
_LOADS = 1_000_000


@dataclass(frozen=True, slots=True)
class BitmapScan:
    """The blocks that one bitmap heap scan visits. `first_dirtied`: the blocks dirtied by the very first scan, before
    VACUUM."""

    blocks: tuple[int, ...]
    first_dirtied: int
    dirtied: int


def rows_of(table_bytes: int) -> int:
    """The number of rows of a table of about this size."""
    return max(1, table_bytes // _ROW_BYTES)


def database_bytes(table_bytes: int) -> int:
    """The approximate size of the table with its index."""
    return table_bytes + rows_of(table_bytes) * _INDEX_BYTES


def fill(server: Server, table_bytes: int, load: int) -> None:
    """Makes the table, with matches at random places of this load, and records the blocks that each scan visits.

    Raises OctavoError when a scan visits other blocks than those in its list, or would still write hint bits.
    """
    server.execute(f"SELECT setseed({load % _LOADS / _LOADS})")
    server.execute("CREATE TABLE visited (key int NOT NULL, pad text NOT NULL)")
    server.execute("ALTER TABLE visited ALTER pad SET STORAGE PLAIN")
    server.execute("CREATE TABLE scans (name text, blocks int[], first_dirtied int, dirtied int)")
    server.execute(
        f"INSERT INTO visited SELECT floor(random() * {_KEYS}), repeat('x', {_PAD_BYTES}) "  # noqa: S608  # our numbers
        f"FROM generate_series(1, {rows_of(table_bytes)})"
    )
    server.execute("CHECKPOINT")  # only a clean block can be dirtied
    first = _explained(server, "SELECT count(*) FROM visited")["Shared Dirtied Blocks"]
    server.execute("CREATE INDEX visited_key ON visited (key)")
    server.execute("VACUUM (FREEZE, ANALYZE) visited")
    for name, most in SCANS.items():
        with server.connect(DATABASE) as connection:
            found = visited_by(connection, _query(most))
        scan = _scan(server, most)
        if scan["Exact Heap Blocks"] != len(found.blocks) or scan.get("Lossy Heap Blocks"):
            raise OctavoError(
                f"{name}: the scan visits {scan['Exact Heap Blocks']} blocks, its list has {len(found.blocks)}"
            )
        if scan["Shared Dirtied Blocks"]:
            raise OctavoError(f"{name}: {scan['Shared Dirtied Blocks']} blocks still get hint bits after VACUUM")
        server.connection.execute(
            "INSERT INTO scans VALUES (%s, %s, %s, %s)",
            (name, list(found.blocks), first, scan["Shared Dirtied Blocks"]),
        )


def scan_of(server: Server, name: str) -> BitmapScan | None:
    """The load's record of a scan; None if it is not one."""
    row = server.connection.execute(
        "SELECT blocks, first_dirtied, dirtied FROM scans WHERE name = %s", (name,)
    ).fetchone()
    return None if row is None else BitmapScan(tuple(row["blocks"]), row["first_dirtied"], row["dirtied"])


def table(server: Server) -> tuple[list[Path], int, int]:
    """The segments of the table in this copy of the load, its block size in bytes, and its number of blocks."""
    row = server.connection.execute(
        "SELECT pg_relation_filepath('visited') AS path, current_setting('block_size')::int AS block,"
        " pg_relation_size('visited') AS bytes"
    ).fetchone()
    assert row is not None
    return own_segments(server.directory, str(row["path"]), server.account), row["block"], row["bytes"] // row["block"]


def _query(most: int) -> str:
    return f"SELECT * FROM visited WHERE key < {most}"  # noqa: S608  # a number of ours


def _scan(server: Server, most: int) -> dict[str, Any]:
    """Runs the scan as a bitmap heap scan by one process, in exact blocks, and returns its node of the plan."""
    node = _explained(server, _query(most), enable_seqscan="off", enable_indexscan="off", work_mem="1GB")
    if node["Node Type"] != "Bitmap Heap Scan":
        raise OctavoError(f"the planner took a {node['Node Type']} for {_query(most)}")
    return node


def _explained(server: Server, query: str, **settings: str) -> dict[str, Any]:
    """Runs the query in one process, with these settings, and returns the topmost node of its plan."""
    settings["max_parallel_workers_per_gather"] = "0"
    with server.connection.transaction():
        for name, value in settings.items():
            server.connection.execute(sql.SQL("SET LOCAL {} = {}").format(sql.Identifier(name), sql.Literal(value)))
        explained = server.connection.execute(
            f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {query}".encode()
        ).fetchone()
    assert explained is not None
    node: dict[str, Any] = explained["QUERY PLAN"][0]["Plan"]
    return node

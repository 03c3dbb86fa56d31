"""The tables of a calibration: one row a page, and many rows a page, in a database of their own.

A row that takes more than half a page is alone on it, so that a scan of `wide` reads pages and hardly any rows. Tables
are logged and frozen, and their pages written out, so that reading them writes nothing.
"""

from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import DictRow

# More than half of a page at every block size, and less than the largest row that a page holds.
_SHARE_OF_PAGE = 0.6
NARROW_ROWS = 400_000
# Within a quarter of shared_buffers, which a sequential scan keeps in them (heapam.c, initscan).
CACHED_BYTES = 24 * 1024**2
_SMALLER = 8


@dataclass(frozen=True, slots=True)
class TableSizes:
    """Pages of the tables, at this block size in bytes."""

    block: int
    wide: int
    wide_small: int
    cached: int


def sizes(block: int, size: int) -> TableSizes:
    """The tables for cold reads have `size` bytes, and the small one an eighth of it."""
    return TableSizes(block, size // block, max(16, size // block // _SMALLER), CACHED_BYTES // block)


def make(connection: Connection[DictRow], tables: TableSizes) -> None:
    """Makes the tables in the connection's database. Raises psycopg.Error when the server refuses or runs out of time.

    `scattered` and `scattered_cached` have a key in random order, the same in every run.
    """
    _wide(connection, "wide", tables.wide, tables.block)
    _wide(connection, "wide_small", tables.wide_small, tables.block)
    _wide(connection, "wide_cached", tables.cached, tables.block)
    _scattered(connection, "scattered", tables.wide, tables.block)
    _scattered(connection, "scattered_cached", tables.cached, tables.block)
    _run(
        connection,
        "CREATE TABLE narrow (a int, b int) WITH (autovacuum_enabled = off)",
        f"INSERT INTO narrow SELECT i, i % 1000 FROM generate_series(1, {NARROW_ROWS}) i",  # noqa: S608
        "CREATE INDEX narrow_a ON narrow (a)",
        "CREATE TABLE nothing (a int)",
    )
    # Hint bits and all-visible are set now, so that no reader writes them.
    connection.execute("VACUUM (FREEZE, ANALYZE) wide, wide_small, wide_cached, scattered, scattered_cached, narrow")


def _wide(connection: Connection[DictRow], name: str, rows: int, block: int) -> None:
    _run(
        connection,
        f"CREATE TABLE {name} (place int, pad text) WITH (autovacuum_enabled = off)",
        f"ALTER TABLE {name} ALTER pad SET STORAGE PLAIN",
        f"INSERT INTO {name} SELECT i, repeat('x', {_pad(block)}) FROM generate_series(1, {rows}) i",  # noqa: S608
    )


def _scattered(connection: Connection[DictRow], name: str, rows: int, block: int) -> None:
    _run(
        connection,
        f"CREATE TABLE {name} (place int, pad text) WITH (autovacuum_enabled = off)",
        f"ALTER TABLE {name} ALTER pad SET STORAGE PLAIN",
        f"INSERT INTO {name} SELECT place, repeat('x', {_pad(block)}) FROM ("  # noqa: S608
        f"SELECT i, row_number() OVER (ORDER BY hashint4(i)) AS place FROM generate_series(1, {rows}) i) ranked "
        "ORDER BY i",
        f"CREATE INDEX {name}_place ON {name} (place)",
    )


def _pad(block: int) -> int:
    return int(block * _SHARE_OF_PAGE)


def _run(connection: Connection[DictRow], *statements: str) -> None:
    """In one transaction: with wal_level = minimal a table that is made in it is not logged."""
    with connection.transaction():
        for statement in statements:
            connection.execute(statement.encode())

"""The limits of a block size, measured on a running server: the largest row, key and chunk, and defaults in blocks.

`python -m octavo.check.limits` measures every build of a version with 8 kB WAL blocks in the cache and prints
the table of docs/experiments/regression.md.
"""

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg
from psycopg.rows import DictRow

from octavo.check import formulas
from octavo.host.children import Account, server_account
from octavo.host.journal import Journal
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build, list_builds
from octavo.postgres.scratch import scratch_directory
from octavo.postgres.versions import major_of
from octavo.units import format_size, parse_size

WAL_SEGMENT = 16 * 1024**2
_Connection = psycopg.Connection[DictRow]


@dataclass(frozen=True, slots=True)
class Default:
    """A setting that counts blocks: its default and its least value in bytes, and the default as a count."""

    default: int
    least: int
    blocks: int


@dataclass(frozen=True, slots=True)
class BlockLimits:
    """The limits measured at one data block. All sizes in bytes, rows and index rows with their headers.

    `inline_row` is the largest row that is stored as it is, without TOAST.
    """

    block: int
    wal_block: int
    row: int
    btree_row: int
    inline_row: int
    toast_chunk: int
    toast_tuple_target: int
    siglen: int
    bigint_columns: int
    shared_buffers: int
    wal_buffers: int
    defaults: dict[str, Default]


def measure(build: Build, journal: Journal, account: Account) -> BlockLimits:
    """Measures a build's limits on a new cluster with PostgreSQL's own defaults, which is gone afterwards."""
    with scratch_directory(journal) as directory:
        data = directory / "data"
        cluster.initialise(build, data, journal, account, wal_segment=WAL_SEGMENT, checksums=True)
        with (
            cluster.start(build, data, {}, journal, account, log=directory / "server.log") as server,
            server.connect("postgres") as connection,
        ):
            return _measure(connection)


def _measure(connection: _Connection) -> BlockLimits:
    connection.execute("CREATE EXTENSION pageinspect")
    settings = {
        row["name"]: row for row in connection.execute("SELECT name, setting, unit, boot_val, min_val FROM pg_settings")
    }
    block = int(settings["block_size"]["setting"])
    defaults = {
        name: Default(
            int(row["boot_val"]) * parse_size(row["unit"]),
            int(row["min_val"]) * parse_size(row["unit"]),
            int(row["boot_val"]),
        )
        for name, row in settings.items()
        if re.fullmatch(r"\d+kB", row["unit"] or "") and int(row["boot_val"]) >= 0
    }
    return BlockLimits(
        block=block,
        wal_block=int(settings["wal_block_size"]["setting"]),
        row=_row(connection, block),
        btree_row=_btree_row(connection, block),
        inline_row=_inline_row(connection, block),
        toast_chunk=_toast_chunk(connection),
        toast_tuple_target=_upper_bound(connection, "CREATE TABLE t () WITH (toast_tuple_target = 1000000)"),
        siglen=_upper_bound(
            connection, "CREATE TABLE t (x tsvector); CREATE INDEX ON t USING gist (x tsvector_ops (siglen = 1000000))"
        ),
        bigint_columns=_bigint_columns(connection),
        shared_buffers=_bytes(settings["shared_buffers"]),
        wal_buffers=_bytes(settings["wal_buffers"]),
        defaults=defaults,
    )


def _bytes(row: DictRow) -> int:
    return int(row["setting"]) * parse_size(row["unit"])


def largest(works: Callable[[int], bool], least: int, most: int) -> int:
    """The largest number of the range with which it works, where it works with all below; `least` must work."""
    while least < most:
        middle = (least + most + 1) // 2
        if works(middle):
            least = middle
        else:
            most = middle - 1
    return least


def _works(connection: _Connection, *statements: str) -> bool:
    """Whether these statements work, in a transaction that is undone."""
    try:
        with connection.transaction(force_rollback=True):
            for statement in statements:
                connection.execute(statement.encode())
    except (psycopg.errors.ProgramLimitExceeded, psycopg.errors.TooManyColumns):
        return False
    return True


def _row(connection: _Connection, block: int) -> int:
    """The length of the largest row that can be inserted, as its line pointer has it."""
    connection.execute("CREATE TABLE rows (x text STORAGE PLAIN)")
    insert = "INSERT INTO rows VALUES (repeat('x', {}))"
    length = largest(lambda size: _works(connection, insert.format(size)), 1, block)
    connection.execute(b"TRUNCATE rows")  # of what the attempts left
    connection.execute(insert.format(length).encode())
    return _number(connection, "SELECT max(lp_len) AS number FROM heap_page_items(get_raw_page('rows', 0))")


def _btree_row(connection: _Connection, block: int) -> int:
    connection.execute("CREATE TABLE keys (x text STORAGE PLAIN); CREATE INDEX keys_index ON keys (x)")
    insert = "INSERT INTO keys VALUES (repeat('x', {}))"
    length = largest(lambda size: _works(connection, insert.format(size)), 1, block)
    connection.execute(b"TRUNCATE keys")  # of what the attempts left
    connection.execute(insert.format(length).encode())
    return _number(connection, "SELECT max(itemlen) AS number FROM bt_page_items('keys_index', 1)")


def _inline_row(connection: _Connection, block: int) -> int:
    connection.execute("CREATE TABLE inline (x text STORAGE EXTERNAL)")
    toast = _toast_table(connection, "inline")

    def stays(size: int) -> bool:
        connection.execute("TRUNCATE inline")
        connection.execute("INSERT INTO inline VALUES (repeat('x', %s))", [size])
        return _number(connection, f"SELECT count(*) AS number FROM {toast}") == 0  # noqa: S608 (named by the server)

    stays(largest(stays, 1, block))
    return _number(connection, "SELECT max(lp_len) AS number FROM heap_page_items(get_raw_page('inline', 0))")


def _toast_chunk(connection: _Connection) -> int:
    connection.execute("CREATE TABLE chunks (x text STORAGE EXTERNAL)")
    connection.execute("INSERT INTO chunks VALUES (repeat('x', 100000))")
    toast = _toast_table(connection, "chunks")
    return _number(connection, f"SELECT max(length(chunk_data)) AS number FROM {toast}")  # noqa: S608 (named by the server)


def _toast_table(connection: _Connection, table: str) -> str:
    row = connection.execute(
        "SELECT reltoastrelid::regclass::text AS name FROM pg_class WHERE oid = %s::regclass", [table]
    ).fetchone()
    assert row is not None
    return row["name"]


def _bigint_columns(connection: _Connection) -> int:
    def works(columns: int) -> bool:
        names = ", ".join(f"c{number} bigint DEFAULT 0" for number in range(columns))
        return _works(connection, f"CREATE TABLE wide ({names})", "INSERT INTO wide DEFAULT VALUES")

    return largest(works, 1, 2000)


def _upper_bound(connection: _Connection, statements: str) -> int:
    """The largest value of a storage parameter, as the error for a larger one has it."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(statements.encode())
    except psycopg.errors.InvalidParameterValue as error:
        match = re.search(r'between "\d+" and "(\d+)"', error.diag.message_detail or "")
        assert match is not None
        return int(match[1])
    raise AssertionError("a value beyond every limit was accepted")


def _number(connection: _Connection, query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row["number"])


def expected(limits: BlockLimits) -> dict[str, int]:
    """The values of PostgreSQL's formulas for the fields of `BlockLimits` that they cover."""
    block = limits.block
    return {
        "row": formulas.heap_tuple(block),
        "btree_row": formulas.btree_row(block),
        "inline_row": formulas.toast_tuple_target(block),
        "toast_chunk": formulas.toast_chunk(block),
        "toast_tuple_target": formulas.toast_tuple_target_most(block),
        "siglen": formulas.gist_key(block),
        "bigint_columns": formulas.bigint_columns(block),
        "wal_buffers": formulas.wal_buffers(limits.shared_buffers, block, limits.wal_block, WAL_SEGMENT),
    }


_ROWS: tuple[tuple[str, Callable[[BlockLimits], str]], ...] = (
    ("largest row, with its header of 24 B", lambda limits: f"{limits.row:,} B"),
    ("largest B-tree index row, with its header of 8 B", lambda limits: f"{limits.btree_row:,} B"),
    ("largest row that is not toasted", lambda limits: f"{limits.inline_row:,} B"),
    ("TOAST chunk", lambda limits: f"{limits.toast_chunk:,} B"),
    ("most for `toast_tuple_target`", lambda limits: f"{limits.toast_tuple_target:,} B"),
    ("most for a GiST `siglen`", lambda limits: f"{limits.siglen:,} B"),
    ("bigint columns in a row", lambda limits: f"{limits.bigint_columns:,}"),
    ("least `shared_buffers`", lambda limits: format_size(limits.defaults["shared_buffers"].least)),
    ("`wal_buffers` with 128 MB of `shared_buffers`", lambda limits: format_size(limits.wal_buffers)),
)


def markdown(measured: Sequence[BlockLimits]) -> str:
    """The table: limits first, then the defaults that are another amount of memory at another block size."""
    measured = sorted(measured, key=lambda limits: limits.block)
    lines = [
        "| data block | " + " | ".join(format_size(limits.block) for limits in measured) + " |",
        "| --- |" + " ---: |" * len(measured),
    ]
    lines += [f"| {name} | " + " | ".join(tell(limits) for limits in measured) + " |" for name, tell in _ROWS]
    for name in sorted(measured[0].defaults):
        values = [limits.defaults[name].default for limits in measured]
        if len(set(values)) > 1 and name != "shared_buffers":  # which initdb chooses
            lines.append(f"| default `{name}` | " + " | ".join(format_size(value) for value in values) + " |")
    return "\n".join(lines) + "\n"


def measurable(version: str) -> list[Build]:
    """The builds of a version with 8 kB WAL blocks, one for each data block, by its size."""
    found = {
        build.manifest["data_block"]: build
        for build in list_builds()
        if build.manifest["wal_block"] == "8kB" and major_of(build.manifest["version"]) == int(version)
    }
    return [found[block] for block in sorted(found, key=parse_size)]


def main() -> None:
    """Prints the table for the builds in the cache."""
    parser = argparse.ArgumentParser(prog="python -m octavo.check.limits", description=main.__doc__)
    parser.add_argument("--pg", default="18", help="major version (18)")
    chosen = parser.parse_args()
    with Journal() as journal:
        print(markdown([measure(build, journal, server_account()) for build in measurable(chosen.pg)]), end="")


if __name__ == "__main__":
    main()

"""The blocks that a bitmap heap scan of a query visits, from a live server, without changing or slowing it.

The plan says which table is scanned and with what condition (Recheck Cond: what the index looked for). The rows that
meet it are looked up, and their ctid is (block, line pointer): PostgreSQL's manual, "System Columns". A bitmap heap
scan also visits blocks whose only matching rows are dead or invisible; those are not in the list.
"""

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from octavo.errors import HostError, UsageError
from octavo.io.target import with_segments

if TYPE_CHECKING:
    import psycopg

    from octavo.postgres.user_connection import SessionLimits

_BITMAP_ONLY = ("enable_seqscan", "enable_indexscan", "enable_indexonlyscan", "enable_tidscan")


@dataclass(frozen=True, slots=True)
class VisitedBlocks:
    """The blocks that a query's bitmap heap scan visits."""

    relation: str
    """Schema and name, as SQL writes them."""
    condition: str
    """What the index looked for."""
    forced: bool
    """Whether the planner had to be kept from other scans to make it a bitmap heap scan."""
    file: Path | None
    """The relation's first segment on the server's host; None where this user may not see the data directory."""
    block: int
    """The server's block size in bytes."""
    relation_blocks: int
    blocks: tuple[int, ...]
    """Ascending, each once."""
    directory: Path | None = None
    """The data directory that `file` is in."""
    cluster: int | None = None
    """The cluster's identifier, which its physical copies share; None where the server does not tell it."""

    def block_list(self) -> str:
        """As the engine takes it."""
        return "\n".join(map(str, self.blocks))

    def segments(self) -> list[Path]:
        """The relation's files. Raises HostError where they are not known, not here, or not for us to read."""
        if self.file is None:
            raise HostError(
                "--from-query: this user may not see the data directory's path; name the table's FILE as well, or "
                "GRANT pg_read_all_settings"
            )
        try:
            self.file.stat()
            segments = with_segments(self.file)
        except OSError as error:
            raise HostError(
                f"{self.file}: {error.strerror}; run on the server's host as a user who may read it, or name a copy"
            ) from error
        if self.directory is not None and self.cluster is not None and _cluster_of(self.directory) != self.cluster:
            raise HostError(
                f"{self.directory} of this host is another cluster's, not the server's; run on the server's host, or "
                "name a copy of the file"
            )
        return segments

    def as_dict(self) -> dict[str, Any]:
        """For JSON, without the blocks."""
        return {
            "relation": self.relation,
            "condition": self.condition,
            "forced_bitmap": self.forced,
            "block_bytes": self.block,
            "relation_blocks": self.relation_blocks,
            "visited_blocks": len(self.blocks),
        }


def blocks_of_query(sql: str, dsn: str) -> VisitedBlocks:
    """Asks a user's server. Raises what `visited_by` does, and UsageError and HostError as it connects."""
    from octavo.postgres.user_connection import connect

    with connect(dsn, "octavo io", _limits()) as connection:
        return visited_by(connection, sql)


def visited_by(connection: "psycopg.Connection[Any]", sql: str) -> VisitedBlocks:
    """Queries the server over an autocommit connection. The query itself is planned, never run; everything is
    read-only, and each statement ends after 30 s.

    Raises UsageError for a query without a bitmap heap scan that stands by itself, HostError when the server cannot be
    asked.
    """
    import psycopg
    from psycopg.rows import tuple_row

    from octavo.postgres.user_connection import limited

    try:
        with limited(connection, _limits()), connection.cursor(row_factory=tuple_row) as cursor:
            return _ask(cursor, sql)
    except psycopg.OperationalError as error:
        raise HostError(f"--from-query: {_first_line(error)}; check --dsn, or take a query that is quicker") from error
    except psycopg.Error as error:
        raise UsageError(
            f"--from-query: {_first_line(error)}; the query must be one SELECT that the server accepts"
        ) from error


def _limits() -> "SessionLimits":
    """How long one statement may take: Octavo must not hold up a live server. The query means what it means to its
    user, whose path it has."""
    from octavo.postgres.user_connection import SessionLimits

    return SessionLimits(statement_timeout="30s", lock_timeout="1s", search_path=None)


def _ask(cursor: "psycopg.Cursor[Any]", sql: str) -> VisitedBlocks:
    node, forced = _scan(cursor, sql), False
    if node is None:
        for setting in _BITMAP_ONLY:
            cursor.execute(f"SET LOCAL {setting} = off".encode())
        node, forced = _scan(cursor, sql), True
    if node is None:
        raise UsageError(
            "--from-query: the query has no plan with a bitmap heap scan; put a condition on an indexed column"
        )
    with _servers_names(cursor):
        relation, condition = _relation(cursor, node), node["Recheck Cond"]
        alias = _quoted(cursor, node["Alias"])
    # Text of the server's own making: names quoted by it, the condition deparsed by it. A scan is of one table ONLY,
    # and tables that inherit from it are in other files.
    block_of_row = f"({alias}.ctid::pg_catalog.text::pg_catalog.point)[0]::bigint"
    visited = f"SELECT DISTINCT {block_of_row} FROM ONLY {relation} {alias} WHERE {condition} ORDER BY 1"  # noqa: S608
    blocks = _blocks(cursor, visited, condition)
    if not blocks:
        raise UsageError("--from-query: no row of the table meets the condition; choose one that some rows meet")
    with _servers_names(cursor):
        directory, path, block, relation_blocks = _where(cursor, relation)
        cluster = _cluster(cursor)
    file = directory / path if directory else None
    return VisitedBlocks(relation, condition, forced, file, block, relation_blocks, blocks, directory, cluster)


def _blocks(cursor: "psycopg.Cursor[Any]", visited: str, condition: str) -> tuple[int, ...]:
    from psycopg import errors

    try:
        return tuple(row[0] for row in cursor.execute(visited.encode(), prepare=True))
    except (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedParameter, errors.SyntaxError) as error:
        # Of a join, a subquery or a parameter, which the plan's text only names.
        raise UsageError(
            f"--from-query: the scan's condition depends on another part of the query: {condition}; take a query of "
            "that table alone, with constants"
        ) from error


@contextmanager
def _servers_names(cursor: "psycopg.Cursor[Any]") -> Generator[None, None, None]:
    """Names in what is asked here are PostgreSQL's own, whatever the user's path has before them."""
    own = cursor.execute("SHOW search_path").fetchone()
    assert own is not None
    cursor.execute("SET LOCAL search_path = pg_catalog, pg_temp")
    yield
    cursor.execute("SELECT set_config('search_path', %s, true)", own)


def _scan(cursor: "psycopg.Cursor[Any]", sql: str) -> dict[str, Any] | None:
    """The bitmap heap scan of most rows in the query's plan. Prepared, so that it can be only one statement."""
    plan = cursor.execute(f"EXPLAIN (VERBOSE, FORMAT JSON) {sql}".encode(), prepare=True).fetchone()
    assert plan is not None
    scans = [node for node in _nodes(plan[0][0]["Plan"]) if node["Node Type"] == "Bitmap Heap Scan"]
    return max(scans, key=lambda node: node["Plan Rows"], default=None)


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in cast("list[dict[str, Any]]", node.get("Plans", [])):
        yield from _nodes(child)


def _relation(cursor: "psycopg.Cursor[Any]", node: dict[str, Any]) -> str:
    row = cursor.execute(
        "SELECT format('%%I.%%I', %s::text, %s::text)", (node["Schema"], node["Relation Name"])
    ).fetchone()
    assert row is not None
    return row[0]


def _quoted(cursor: "psycopg.Cursor[Any]", name: str) -> str:
    row = cursor.execute("SELECT quote_ident(%s)", (name,)).fetchone()
    assert row is not None
    return row[0]


def _where(cursor: "psycopg.Cursor[Any]", relation: str) -> tuple[Path | None, str, int, int]:
    """The data directory, its file in it, block size and blocks. pg_settings has no data_directory for a user who may
    not see it, where current_setting() would be an error."""
    row = cursor.execute(
        "SELECT (SELECT setting FROM pg_settings WHERE name = 'data_directory'), pg_relation_filepath(%s::regclass),"
        " current_setting('block_size')::int, pg_relation_size(%s::regclass) / current_setting('block_size')::int",
        (relation, relation),
    ).fetchone()
    assert row is not None
    directory, path, block, blocks = row
    return Path(directory) if directory else None, path, block, blocks


def _cluster(cursor: "psycopg.Cursor[Any]") -> int | None:
    """The identifier in the server's control file, which every role may see unless that was revoked."""
    allowed = cursor.execute("SELECT has_function_privilege('pg_control_system()', 'EXECUTE')").fetchone()
    if allowed != (True,):
        return None
    row = cursor.execute("SELECT system_identifier FROM pg_control_system()").fetchone()
    assert row is not None
    return row[0]


def _cluster_of(directory: Path) -> int:
    """The same in a data directory of this host: the first eight bytes of ControlFileData (pg_control.h), an integer
    that the function gives as a bigint. 0 where there are fewer. Raises HostError."""
    control = directory / "global" / "pg_control"
    try:
        with control.open("rb", buffering=0) as file:
            return int.from_bytes(file.read(8) or b"", sys.byteorder, signed=True)
    except OSError as error:
        raise HostError(f"{control}: {error.strerror}; name the table's file, or a copy") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]

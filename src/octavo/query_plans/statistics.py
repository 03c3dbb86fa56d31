"""The statistics of one server carried to another with the same rows, so that plans differ by page size alone.

ANALYZE draws a sample, so that two loads have two estimates, and plans flap between loads of one size. PostgreSQL 18
can write statistics: pg_restore_relation_stats and pg_restore_attribute_stats (manual, "Statistics Manipulation
Functions"). The numbers of pages stay those of the target: the planner multiplies rows a page by the pages there are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import DictRow

from octavo.errors import UsageError
from octavo.postgres.versions import major_of

_FIRST = 18
_RELATIONS = """
SELECT n.nspname AS schemaname, c.relname, c.reltuples
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'i', 'm') AND c.reltuples >= 0
"""
# The arguments of pg_restore_attribute_stats have the types of these columns, arrays of a column's type as text.
_ATTRIBUTES = """
SELECT schemaname, tablename AS relname, attname, inherited, null_frac, avg_width, n_distinct,
    most_common_vals::text AS most_common_vals, most_common_freqs, histogram_bounds::text AS histogram_bounds,
    correlation
FROM pg_stats WHERE schemaname = 'public'
"""
_TYPES = {
    "schemaname": "text", "relname": "text", "attname": "text", "inherited": "boolean", "null_frac": "real",
    "avg_width": "integer", "n_distinct": "real", "most_common_vals": "text", "most_common_freqs": "real[]",
    "histogram_bounds": "text", "correlation": "real", "reltuples": "real", "relpages": "integer",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlannerStatistics:
    """ANALYZE's results for a database's schema public: rows of its relations, and column statistics."""

    relations: tuple[Mapping[str, Any], ...]
    attributes: tuple[Mapping[str, Any], ...]


def check_version(version: str, way_out: str) -> None:
    """Raises UsageError, which ends with the way out, where statistics cannot be carried."""
    if major_of(version) < _FIRST:
        raise UsageError(f"--pg {version}: statistics can be carried from PostgreSQL {_FIRST} on; {way_out}")


def read(source: Connection[DictRow]) -> PlannerStatistics:
    """The statistics of a database. Raises psycopg.Error."""
    relations, attributes = (tuple(source.execute(query).fetchall()) for query in (_RELATIONS, _ATTRIBUTES))
    return PlannerStatistics(relations, attributes)


def restore(target: Connection[DictRow], statistics: PlannerStatistics) -> int:
    """Writes them over those of another database with the same tables. Returns how many columns have them.

    Raises psycopg.Error when the target refuses them, as every server before PostgreSQL 18 does.
    """
    pages = {
        row["relname"]: row["relpages"]
        for row in target.execute(
            "SELECT relname, relpages FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        ).fetchall()
    }
    for row in statistics.relations:
        if row["relname"] in pages:
            _restore(target, "pg_restore_relation_stats", {**row, "relpages": pages[row["relname"]]})
    for row in statistics.attributes:
        # What is not given would stay as the target's ANALYZE left it, such as a list of common values.
        target.execute(b"SELECT pg_clear_attribute_stats(%(schemaname)s, %(relname)s, %(attname)s, %(inherited)s)", row)
        _restore(target, "pg_restore_attribute_stats", row)
    return len(statistics.attributes)


def carry(source: Connection[DictRow], target: Connection[DictRow]) -> int:
    """`restore` of what `read` gives."""
    return restore(target, read(source))


def _restore(target: Connection[DictRow], function: str, values: Mapping[str, Any]) -> None:
    given = {name: value for name, value in values.items() if value is not None}
    arguments = ", ".join(f"'{name}', %({name})s::{_TYPES[name]}" for name in given)
    target.execute(f"SELECT {function}({arguments})".encode(), given)

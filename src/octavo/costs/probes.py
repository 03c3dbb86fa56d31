"""The queries of a calibration, and PostgreSQL's work for each of them, in the units of its cost model.

Units are those of costsize.c: a sequential scan pays a page each and cpu_tuple_cost a row, a condition or an
aggregate's transition cpu_operator_cost a row, an index scan a random page each, cpu_index_tuple_cost and its
conditions an entry. Every query's plan is checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from octavo.costs.tables import NARROW_ROWS

# In the order of a table of results; pages of each kind are read from the device, or found in shared buffers.
SEQUENTIAL, RANDOM = "sequential page", "random page"
CACHED, CACHED_RANDOM = "cached sequential page", "cached random page"
TUPLE, INDEX_TUPLE, OPERATOR = "tuple", "index tuple", "operator"

_SEQ_SCAN = {"enable_indexscan": "off", "enable_bitmapscan": "off", "enable_indexonlyscan": "off"}
_INDEX_SCAN = {"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_indexonlyscan": "off"}
_INDEX_ONLY_SCAN = {"enable_seqscan": "off", "enable_bitmapscan": "off"}
# For every query: one process, no compilation, and a scan that begins where the table does.
SESSION = {
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "synchronize_seqscans": "off",
    "default_transaction_read_only": "on",
}
_CONDITIONS = ("a <> -1", "b <> -2", "a <> -3", "b <> -4", "a <> -5", "b <> -6", "a <> -7", "b <> -8")


@dataclass(frozen=True, slots=True)
class ProbeQuery:
    """A query, the settings that force its plan, and the plan's shape in one line.

    `work` is what it does by unit, without pages; `reads` is the unit of the pages that come from the device, and
    `finds` that of those in shared buffers.
    """

    name: str
    query: str
    settings: Mapping[str, str]
    shape: str
    work: Mapping[str, float]
    reads: str
    finds: str


def scan_of_pages(table: str, rows: int) -> ProbeQuery:
    """A sequential scan of pages with one row each."""
    return ProbeQuery(
        f"scan of {table}",
        f"SELECT count(*) FROM {table}",  # noqa: S608
        _SEQ_SCAN,
        f"Aggregate(Seq Scan on {table})",
        {TUPLE: rows, OPERATOR: rows},
        SEQUENTIAL,
        CACHED,
    )


def lookups(table: str, first: int, count: int) -> ProbeQuery:
    """Rows by a key in random order, a page each, so that each is a page by itself.

    An index scan has two conditions an entry.
    """
    return ProbeQuery(
        f"lookups in {table}",
        # A column that is not in the index, so that the row has to be fetched.
        f"SELECT count(pad) FROM {table} WHERE place >= {first} AND place < {first + count}",  # noqa: S608
        _INDEX_SCAN,
        f"Aggregate(Index Scan on {table} using {table}_place)",
        {TUPLE: count, INDEX_TUPLE: count, OPERATOR: 3 * count},
        RANDOM,
        CACHED_RANDOM,
    )


def processor() -> list[ProbeQuery]:
    """Queries that separate tuples, index tuples and operators, on rows in shared buffers."""
    found = [
        ProbeQuery(
            f"scan of rows, {count} conditions",
            f"SELECT count(*) FROM narrow{' WHERE ' if count else ''}{' AND '.join(_CONDITIONS[:count])}",  # noqa: S608
            _SEQ_SCAN,
            "Aggregate(Seq Scan on narrow)",
            {TUPLE: NARROW_ROWS, OPERATOR: NARROW_ROWS * (1 + count)},
            SEQUENTIAL,
            CACHED,
        )
        for count in (0, 4, 8)
    ]
    for rows in (NARROW_ROWS // 2, NARROW_ROWS):
        found.append(
            ProbeQuery(
                f"index-only scan of {rows} entries",
                f"SELECT count(*) FROM narrow WHERE a <= {rows}",  # noqa: S608
                _INDEX_ONLY_SCAN,
                "Aggregate(Index Only Scan on narrow using narrow_a)",
                {TUPLE: rows, INDEX_TUPLE: rows, OPERATOR: 2 * rows},
                RANDOM,
                CACHED_RANDOM,
            )
        )
    return found

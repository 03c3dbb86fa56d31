"""Recognising EXPLAIN's text output, line by line (explain.c); other output is not recognised as a plan."""

import re
from collections.abc import Sequence

_NODES = (
    "Aggregate", "Append", "Bitmap Heap Scan", "Bitmap Index Scan", "BitmapAnd", "BitmapOr", "CTE Scan",
    "Custom Scan", "Delete", "Foreign Scan", "Function Scan", "Gather", "Gather Merge", "Group", "GroupAggregate",
    "Hash", "HashAggregate", "HashSetOp", "Incremental Sort", "Index Only Scan", "Index Scan", "Insert", "Limit",
    "LockRows", "Materialize", "Memoize", "Merge", "Merge Append", "MixedAggregate", "Named Tuplestore Scan",
    "Nested Loop", "ProjectSet", "Recursive Union", "Result", "Sample Scan", "Seq Scan", "SetOp", "Sort",
    "Subquery Scan", "Table Function Scan", "Tid Range Scan", "Tid Scan", "Unique", "Update", "Values Scan",
    "WindowAgg", "WorkTable Scan",
)  # fmt: skip
_JOIN = r"(?:Hash|Merge|Nested Loop)(?: (?:Left|Full|Right|Semi|Anti|Right Semi|Right Anti))? Join|Nested Loop"
_SET_OPERATION = r"(?:HashSetOp|SetOp)(?: (?:Intersect|Except)(?: All)?)?"
_NODE = re.compile(
    r"\s*(?:->  )?(?:Async |Parallel |Partial |Finalize |Single Copy )*"
    rf"(?:{_JOIN}|{_SET_OPERATION}|{'|'.join(sorted(_NODES, key=len, reverse=True))})"
    r"(?: Backward)?(?: using \S+)?(?: on .+?)?(?: {1,2}\(cost=[^)]*\))?(?: \((?:actual [^)]*|never executed)\))?"
)
_LABELS = re.compile(r"\s*(?:InitPlan|SubPlan|CTE) \S+(?: .*)?")
_PROPERTIES = (
    "Async Capable", "Batches", "Buckets", "Buffers", "Cache Key", "Cache Mode", "Conflict Arbiter Indexes",
    "Conflict Filter", "Conflict Resolution", "Disabled", "Disk Usage", "Estimates", "Execution Time", "Filter",
    "Full-sort Groups", "Function Call", "Group Key", "Hash Cond", "Hash Key", "Hash Keys", "Heap Blocks",
    "Heap Fetches", "Hits", "Index Cond", "Index Searches", "Inner Unique", "Join Filter", "Memory", "Memory Usage",
    "Merge Cond", "One-Time Filter", "Order By", "Output", "Peak Memory Usage", "Planned Partitions", "Planning",
    "Planning Time", "Pre-sorted Groups", "Presorted Key", "Recheck Cond", "Rows Removed by Conflict Filter",
    "Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter", "Run Condition",
    "Sampling", "Single Copy", "Sort Key", "Sort Method", "Storage", "Subplans Removed", "TID Cond",
    "Table Function Call", "Tuples", "Window", "Workers Launched", "Workers Planned",
)  # fmt: skip
_PROPERTY = re.compile(rf"\s*(?:Worker \d+: +)?(?:{'|'.join(_PROPERTIES)}):(?: .*)?")
_HEADER = re.compile(r" *(?:QUERY PLAN|explain_\w+) *")
_ROWS = re.compile(r"\(actual (?:time=\S+ )?rows=(\S+)")


def is_plan_header(header: str) -> bool:
    """Whether psql's column header is that of a plan: EXPLAIN's own, or a test's function around EXPLAIN."""
    return _HEADER.fullmatch(header) is not None


def is_plan(rows: Sequence[str]) -> bool:
    """Whether these rows of a result are plans: of each a node first, then nodes, labels and properties only.

    >>> is_plan([" Hash Join", "   Hash Cond: (a.x = b.x)", "   ->  Seq Scan on a", "   ->  Hash"])
    True
    >>> is_plan([" Seq Scan on a", " 42"])
    False
    """
    plans = _split(rows)
    return bool(plans) and all(
        _NODE.fullmatch(plan[0]) is not None
        and all(any(kind.fullmatch(row) for kind in (_NODE, _LABELS, _PROPERTY)) for row in plan)
        for plan in plans
    )


def rows_returned(rows: Sequence[str]) -> list[str | None]:
    """The rows that EXPLAIN ANALYZE counted at the root of each plan, which must not depend on the plan."""
    return [match[1] if (match := _ROWS.search(plan[0])) else None for plan in _split(rows)]


def _split(rows: Sequence[str]) -> list[list[str]]:
    """The plans of one result: rules and foreign keys make several, with an empty row between them."""
    plans: list[list[str]] = [[]]
    for row in rows:
        if row.strip():
            plans[-1].append(row.rstrip())
        else:
            plans.append([])
    return [plan for plan in plans if plan]

"""What EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) says of one run of a query."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import DictRow

Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Explained:
    """One run: its plan as PostgreSQL writes it, and milliseconds as PostgreSQL measured them."""

    plan: Node
    planning_ms: float
    execution_ms: float

    @property
    def read_blocks(self) -> int:
        """Blocks that the server asked the kernel for (Buffers: shared read)."""
        return int(self.plan.get("Shared Read Blocks", 0))

    @property
    def hit_blocks(self) -> int:
        """Blocks found in shared buffers (Buffers: shared hit)."""
        return int(self.plan.get("Shared Hit Blocks", 0))


def explain(connection: Connection[DictRow], query: str) -> Explained:
    """Runs the query once. Raises psycopg.Error when the server refuses it or is gone."""
    row = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}".encode()).fetchone()
    assert row is not None  # EXPLAIN gives one row in this format
    found = row["QUERY PLAN"][0]
    return Explained(found["Plan"], found["Planning Time"], found["Execution Time"])


def nodes(plan: Node) -> Iterator[Node]:
    """The plan's nodes, from the root down."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def shape(plan: Node) -> str:
    """What identifies a plan: its nodes and what they scan, without costs, rows or workers.

    >>> shape({"Node Type": "Aggregate", "Plans": [{"Node Type": "Seq Scan", "Relation Name": "demo"}]})
    'Aggregate(Seq Scan on demo)'
    """
    name = plan["Node Type"]
    scanned = plan.get("Relation Name") or plan.get("Index Name")
    if plan.get("Parallel Aware"):
        name = f"Parallel {name}"
    if scanned:
        name = f"{name} on {scanned}"
    below = ", ".join(shape(node) for node in plan.get("Plans", ()))
    return f"{name}({below})" if below else name

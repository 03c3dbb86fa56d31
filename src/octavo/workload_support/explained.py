"""The output of EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) for one run of a query, and of auto_explain in that format."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from psycopg import Connection
from psycopg.rows import DictRow

from octavo.errors import OctavoError
from octavo.postgres.plan_shape import known_nodes, shape_of

Node = Mapping[str, Any]

_MOST_PLAN = 4 * 1024**2
_COUNTS = ("Shared Read Blocks", "Shared Hit Blocks", "Workers Launched", "Lossy Heap Blocks")


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
    """Runs the query once. Raises psycopg.Error when the server refuses it or is gone, OctavoError as `checked`."""
    row = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}".encode()).fetchone()
    assert row is not None  # EXPLAIN gives one row in this format
    try:
        found = row["QUERY PLAN"][0]
        return Explained(checked(found["Plan"]), float(found["Planning Time"]), float(found["Execution Time"]))
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise OctavoError(f"unexpected output of EXPLAIN: {error!r}") from None


def plan_text(message: str) -> str | None:
    """The text of the plan in a message of auto_explain; None for another message."""
    _, found, text = message.partition("plan:\n")
    return text if found and message.startswith("duration:") else None


def document(text: str) -> Node:
    """Parses and checks what auto_explain wrote: `Plan` and more. Raises OctavoError when it is no plan.

    Not within a notice handler, whose errors psycopg only logs.
    """
    if len(text) > _MOST_PLAN:
        raise OctavoError(f"a plan of {len(text):,} characters is not one of Octavo's queries")
    try:
        found = json.loads(text)
        checked(found["Plan"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise OctavoError(f"unexpected plan from auto_explain: {error!r}") from None
    return cast(Node, found)


def checked(plan: object) -> Node:
    """The plan, whose nodes have a type and counts that are whole numbers. Raises OctavoError when they have not."""
    for node in known_nodes(plan):
        if not all(isinstance(count := node.get(name, 0), int) and count < 2**63 for name in _COUNTS):
            raise OctavoError("unexpected form of plan from EXPLAIN")
    return cast(Node, plan)


def nodes(plan: Node) -> Iterator[Node]:
    """The plan's nodes, from the root down."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def heap_blocks(scans: Iterable[Node], kind: str) -> int:
    """The `Exact` or `Lossy` blocks of bitmap heap scans: of the session, and of its workers if EXPLAIN has them, which
    it has since 18.

    >>> heap_blocks([{"Lossy Heap Blocks": 2, "Workers": [{"Lossy Heap Blocks": 5}]}, {}], "Lossy")
    7
    """
    name, found = f"{kind} Heap Blocks", 0
    for node in scans:
        found += int(node.get(name, 0)) + sum(int(worker.get(name, 0)) for worker in node.get("Workers", ()))
    return found


def shape(plan: Node) -> str:
    """The identity of a plan: its nodes and the relations that they scan, without costs, rows or workers
    (`postgres/plan_shape`).

    >>> shape({"Node Type": "Aggregate", "Plans": [{"Node Type": "Seq Scan", "Relation Name": "demo"}]})
    'Aggregate(Seq Scan on demo)'
    """
    return shape_of(plan).line()

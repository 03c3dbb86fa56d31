"""Parallel workers of the query, and the exact and lossy blocks of its bitmap, over all processes of a run."""

from collections.abc import Sequence
from statistics import median

from psycopg import Connection
from psycopg.rows import DictRow

from octavo.factor import Factor, matching
from octavo.observation import Metric, Observation, observe
from octavo.workload_support.explained import Node, heap_blocks, nodes

_WORKERS = Metric("workers_launched", "parallel workers that took part", "1")
_EXACT = Metric("exact_heap_blocks", "exact blocks of the bitmap", "blocks")
_LOSSY = Metric("lossy_heap_blocks", "lossy blocks of the bitmap", "blocks")
METRICS = (_WORKERS, _EXACT, _LOSSY)

_AS_PLANNED = "as-planned"
FACTOR = Factor(
    "workers", "run", "parallel workers: as planned, or a number", _AS_PLANNED,
    matching(r"as-planned|0|[1-9]\d?", "as-planned, or whole numbers from 0 to 99"),
)  # fmt: skip
# So that the reading, which workers do not share, does not make the planner avoid them (manual, "Parallel Plans").
_WORTH_WORKERS = {
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "min_parallel_table_scan_size": "0",
    "min_parallel_index_scan_size": "0",
}


def set_workers(connection: Connection[DictRow], workers: str) -> None:
    """Forces so many workers."""
    if workers == _AS_PLANNED:
        return
    asked = {"max_parallel_workers_per_gather": workers, **({} if workers == "0" else _WORTH_WORKERS)}
    for name, value in asked.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    if workers != "0":  # else the table's size determines the number (manual, "parallel_workers")
        connection.execute(f"ALTER TABLE demo SET (parallel_workers = {int(workers)})".encode())


def observations(plans: Sequence[Node]) -> list[Observation]:
    """The median number of workers of the runs, and the blocks of the last run's bitmap heap scans, if any."""
    found = [observe(_WORKERS, median(_launched(plan) for plan in plans))]
    scans = [node for node in nodes(plans[-1]) if "Exact Heap Blocks" in node]
    if scans:
        found += [observe(_EXACT, heap_blocks(scans, "Exact")), observe(_LOSSY, heap_blocks(scans, "Lossy"))]
    return found


def problem_of(plans: Sequence[Node], asked: str) -> str | None:
    """Why runs had other workers than requested; None if they had not."""
    fewest, most = min(map(_launched, plans)), max(map(_launched, plans))
    if asked == _AS_PLANNED or fewest == most == int(asked):
        return None
    others = fewest if fewest != int(asked) else most
    return f"{others} parallel workers took part instead of {asked}; see max_worker_processes, max_parallel_workers"


def _launched(plan: Node) -> int:
    return sum(int(node.get("Workers Launched", 0)) for node in nodes(plan))

"""One scan by one session: forces the requested kind of scan, and verifies it from the plan.

The scan is forced by PostgreSQL's own settings (manual, "Planner Method Configuration"); auto_explain gives the plan of
the timed run itself, which is checked.
"""

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import psycopg
from psycopg.rows import DictRow

from octavo.errors import OctavoError
from octavo.workload_support.explained import Node, document, nodes, plan_text
from octavo.workloads.base import Levels
from octavo.workloads.scan.requests import ReadRequests, read_requests_of
from octavo.workloads.scan.table import HASH, KEYS, keys_of

# By kind of scan: the node that reads the table, and other nodes that may read next to or below it.
NODES = {
    "seq-scan": ("Seq Scan", frozenset[str]()),
    "bitmap-scan": ("Bitmap Heap Scan", frozenset({"Bitmap Index Scan"})),
    "index-scan": ("Index Scan", frozenset[str]()),
    HASH: ("Index Scan", frozenset({"Function Scan"})),
}
_OTHER_WAYS = ("enable_seqscan", "enable_bitmapscan", "enable_indexscan", "enable_indexonlyscan", "enable_tidscan")
_OWN_WAY = {
    "seq-scan": "enable_seqscan",
    "bitmap-scan": "enable_bitmapscan",
    "index-scan": "enable_indexscan",
    HASH: "enable_indexscan",
}
# A hash index only finds equal keys, so the keys come from a list, one after the other.
_ONE_AFTER_THE_OTHER = dict.fromkeys(
    ("enable_hashjoin", "enable_mergejoin", "enable_memoize", "enable_material"), "off"
)
_PLAN_OF_THE_RUN = {
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_timing": "off",  # a clock reading for every row would be included in the measurement
    "auto_explain.log_buffers": "on",
    "auto_explain.log_format": "json",
    "auto_explain.log_level": "notice",
}
# Parallel workers share the work on rows, not the reading of blocks, so rows must be expensive for workers to be
# chosen.
_WORTH_WORKERS = {"parallel_setup_cost": "0", "parallel_tuple_cost": "0", "cpu_tuple_cost": "1000"}


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of one scan: its start (time.perf_counter), seconds, its plan with the counts of each node, and
    PostgreSQL's requests."""

    began: float
    seconds: float
    plan: Node
    asked: ReadRequests | None


def settings_for(levels: Levels) -> dict[str, str]:
    """The session's settings that restrict the planner to the kind of scan and the number of workers."""
    workers = levels["workers"]
    held = {name: "on" if name == _OWN_WAY[levels["query"]] else "off" for name in _OTHER_WAYS}
    if levels["query"] == HASH:
        held |= _ONE_AFTER_THE_OTHER
    settings = {**held, "jit": "off", "max_parallel_workers_per_gather": workers}
    return settings if workers == "0" else {**settings, **_WORTH_WORKERS}


def statement(levels: Levels) -> str:
    """The query. It reads a column, so that a bitmap scan cannot count rows from the visibility map alone."""
    if levels["query"] == HASH:
        return (
            "SELECT count(*) AS rows, sum(scanned.key)::bigint AS keys "  # noqa: S608  # a number of ours
            f"FROM generate_series(0, {keys_of(levels['share']) - 1}) AS wanted (key) JOIN scanned USING (key)"
        )
    condition = "" if levels["query"] == "seq-scan" else f" WHERE key < {keys_of(levels['share'])}"
    return f"SELECT count(*) AS rows, sum(key)::bigint AS keys FROM scanned{condition}"  # noqa: S608


def run_scan(
    connection: psycopg.Connection[DictRow], levels: Levels, beside: AbstractContextManager[object] | None = None
) -> Scan:
    """Runs the query once, within the context `beside`. It is planned beforehand, which reads the catalogs, because
    these reads are not to be measured.

    Raises OctavoError when the answer is wrong, or the plan is none, psycopg.Error when the server refuses.
    """
    query = statement(levels).encode()
    for name, value in settings_for(levels).items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    if levels["workers"] != "0":  # else the table's size determines the number (manual, "parallel_workers")
        connection.execute(f"ALTER TABLE scanned SET (parallel_workers = {int(levels['workers'])})".encode())
    connection.execute(b"EXPLAIN (FORMAT JSON) " + query)
    connection.execute("LOAD 'auto_explain'")
    for name, value in _PLAN_OF_THE_RUN.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    texts: list[str] = []

    def keep(notice: psycopg.errors.Diagnostic) -> None:
        if (text := plan_text(notice.message_primary or "")) is not None:
            texts.append(text)

    workers = levels["workers"] != "0"
    before = read_requests_of(connection, workers=workers)
    connection.add_notice_handler(keep)
    with beside or nullcontext():
        started = time.perf_counter()
        answer = connection.execute(query).fetchone()
        seconds = time.perf_counter() - started
    of_the_run = tuple(texts)
    connection.execute("SELECT set_config('auto_explain.log_min_duration', '-1', false)")
    after = read_requests_of(connection, workers=workers)
    if not of_the_run:
        raise OctavoError("auto_explain did not log the plan of the scan; was auto_explain.log_level changed?")
    _check_answer(connection, levels, answer)
    plan: Node = document(of_the_run[-1])["Plan"]
    return Scan(started, seconds, plan, None if before is None or after is None else after - before)


def problem_of(plan: Node, levels: Levels) -> str | None:
    """Why this plan is not the one to be measured; None if it is."""
    wanted, below = NODES[levels["query"]]
    scans = [node for node in nodes(plan) if str(node["Node Type"]).endswith("Scan")]
    others = sorted({str(node["Node Type"]) for node in scans} - {wanted, *below})
    if others or not any(node["Node Type"] == wanted for node in scans):
        return f"the plan has {', '.join(others) or 'no scan'} where a {wanted} was to be measured"
    launched = sum(int(node.get("Workers Launched", 0)) for node in nodes(plan))
    if launched != int(levels["workers"]):
        few = "; see max_worker_processes and max_parallel_workers" if launched < int(levels["workers"]) else ""
        return f"{launched} parallel workers were launched, {levels['workers']} requested{few}"
    return None


def _check_answer(connection: psycopg.Connection[DictRow], levels: Levels, answer: DictRow | None) -> None:
    """Checks the answer against the rows by key, counted when the table was made: a fast but wrong scan has failed."""
    limit = KEYS if levels["query"] == "seq-scan" else keys_of(levels["share"])
    known = connection.execute(
        "SELECT sum(rows)::bigint AS rows, sum(rows * key)::bigint AS keys FROM answers WHERE key < %s", (limit,)
    ).fetchone()
    known = known and {"rows": known["rows"] or 0, "keys": known["keys"]}
    if answer != known:
        raise OctavoError(f"the scan's answer is wrong: {answer}, where {known} is right")

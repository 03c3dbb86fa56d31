"""Output of PostgreSQL and its programs: files of a data directory, logs, summaries, plans."""

# pyright: reportPrivateUsage=false
# Some parsers are private to their module.

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast
from unittest.mock import MagicMock

from tests.fuzz.fuzzing import Parser, check, parametrized

from octavo.check import contrib, diffs, outputs, plans, results
from octavo.hugepages import postmaster_files, stopped
from octavo.lab.validity import server_log
from octavo.lab.validity.evidence import Evidence
from octavo.operations import program_output
from octavo.plan.thresholds import Thresholds
from octavo.postgres import cluster, plan_diff, plan_shape, program_pages
from octavo.postgres.datasets import control
from octavo.query_plans.costs import parse_calibration
from octavo.query_plans.parting import joins_of
from octavo.workload_support import explained, pgbench_client, pgbench_log
from octavo.workloads.base import WorkloadResult
from octavo.workloads.pooled import client
from octavo.workloads.scan.query import problem_of

_PID_FILE = (
    b"1234\n/var/lib/postgresql/18/main\n1700000000\n5432\n/var/run/postgresql\n\n  5432001   196609\nready   \n"
)
_OPTS = (
    b'/usr/lib/postgresql/18/bin/postgres "-D" "/data" "-c" "shared_buffers=1GB" "-N" "50" "--work-mem=4MB" "-B" "9"\n'
)
_PGBENCH = b"""\
pgbench (18.6)
transaction type: <builtin: select only>
scaling factor: 25
duration: 8 s
number of transactions actually processed: 160000
number of failed transactions: 3 (0.000%)
latency average = 0.200 ms
rate limit schedule lag: avg 0.100 (max 9.5) ms
tps = 20000.000000 (without initial connection time)
pgbench: error: client 3 aborted: ERROR:  no room
"""
_MAKEFILE = b"""\
MODULE_big = hstore_plpython$(python_majorversion)
REGRESS = hstore_plpython \\
\tother # of these
REGRESS_OPTS = --temp-config $(top_srcdir)/contrib/test_decoding/logical.conf
REGRESS_OPTS += --load-extension=hstore
"""
_PGBENCH_LOG = b"0 1 1213 0 1700000000 123456\n1 2 failed 1 1700000001 5\n2 7 888 1 1700000002 654321 3\n"
_SYSBENCH = b"""\
SQL statistics:
    transactions:                        8000   (533.2 per sec.)
    ignored errors:                      2      (0.00 per sec.)
General statistics:
    total time:                          15.0070s
Latency (ms):
         avg:                                    1.87
         99th percentile:                        4.10
"""
_SERVER_LOG = b"""\
2026-11-24 17:00:00.123 UTC [77] postmaster LOG:  database system is ready to accept connections
2026-11-24 17:00:01.123 UTC [78] client backend ERROR:  relation "a" does not exist at character 15
2026-11-24 17:00:01.123 UTC [78] client backend STATEMENT:  SELECT * FROM a
2026-11-24 17:00:02.123 UTC [79] client backend FATAL:  terminating connection due to administrator command
"""
_CONTROL = b"""\
pg_control version number:            1800
Database cluster state:               shut down
Latest checkpoint location:           0/15D3A38
Latest checkpoint's TimeLineID:       1
Latest checkpoint's NextXID:          0:745
Latest checkpoint's NextOID:          16384
Latest checkpoint's NextMultiXactId:  1
Latest checkpoint's NextMultiOffset:  0
Latest checkpoint's oldestXID:        730
Latest checkpoint's oldestMultiXid:   1
Latest checkpoint's oldestCommitTsXid:0
Latest checkpoint's newestCommitTsXid:0
"""
_PLAN: dict[str, Any] = {
    "Node Type": "Aggregate", "Parallel Aware": False, "Shared Hit Blocks": 3, "Shared Read Blocks": 8,
    "Plans": [{"Node Type": "Seq Scan", "Relation Name": "demo", "Workers Launched": 0, "Plan Rows": 9}],
}  # fmt: skip
_EXPLAIN = json.dumps([{"Plan": _PLAN, "Planning Time": 0.1, "Execution Time": 2.5}]).encode()
_UNION = json.dumps(
    {
        "Plan": {
            "Node Type": "SetOp", "Strategy": "Hashed", "Command": "Except", "Plans": [{
                "Node Type": "Append", "Parent Relationship": "Outer", "Plans": [
                    {"Node Type": "Subquery Scan", "Parent Relationship": "Member", "Plans": [_PLAN]},
                    {"Node Type": "Subquery Scan", "Parent Relationship": "Member", "Plans": [
                        {"Node Type": "CTE Scan", "Parent Relationship": "Subquery", "CTE Name": "a", "Plans": [
                            {"Node Type": "Result", "Parent Relationship": "InitPlan", "Subplan Name": "CTE a"},
                            {"Node Type": "Result", "Parent Relationship": "SubPlan", "Subplan Name": "SubPlan 1"},
                        ]},
                    ]},
                ],
            }],
        }
    }
).encode()  # fmt: skip
_JOINS = json.dumps(
    {"Node Type": "Hash Join", "Join Type": "Inner", "Plan Rows": 5, "Actual Rows": 7.0, "Actual Loops": 2, "Plans": [
        {"Node Type": "Seq Scan", "Relation Name": "a"}, {"Node Type": "Seq Scan", "Relation Name": "b"},
    ]}
).encode()  # fmt: skip
_CALIBRATION = json.dumps(
    {"data_blocks": [{"data_block": "8kB", "settings": [
        {"name": name, "value": value} for name, value in (
            ("seq_page_cost", 1.0), ("random_page_cost", 4), ("cpu_tuple_cost", 0.01),
            ("cpu_index_tuple_cost", 0.005), ("cpu_operator_cost", 0.0025),
        )
    ]}]}
).encode()  # fmt: skip
_AUTO_EXPLAIN = b"duration: 1.234 ms  plan:\n" + json.dumps({"Query Text": "SELECT 1", "Plan": _PLAN}).encode()
_TEXT_PLAN = b" Hash Join\n   Hash Cond: (a.x = b.x)\n   ->  Seq Scan on a (actual rows=5)\n   ->  Hash\n"
_DIFFS = b"""\
diff -U3 /a/expected/t.out /a/results/t.out
--- /a/expected/t.out\t2026-01-01
+++ /a/results/t.out\t2026-01-01
@@ -1,3 +1,3 @@
 SELECT 1;
-a
+b
 c
"""
_OUTPUT = b"""\
SELECT 1;
 x | y
---+---
 1 | 2
(1 row)

COPY t FROM STDIN;
\\echo -n a
step s1: SELECT 1;
ERROR:  row is too big: size 9000, maximum size 8160
"""
_LDD = b"\tlinux-vdso.so.1 (0x00007f)\n\tlibz.so.1 => /lib/libz.so.1 (0x0f)\n\t/lib64/ld.so.2 (0x02)\n"
_STDERR = b"2026-11-24 17:00:00 UTC [1] FATAL:  could not map\n [1] HINT:  compiled with x\nLOG:  y contains errors\n"


def _text(read: Callable[[str], object]) -> Callable[[bytes, Path], object]:
    """Decoded like children's output."""
    return lambda text, _: read(text.decode(errors="replace"))


def _postmaster_pid(text: bytes, place: Path) -> object:
    (place / "postmaster.pid").write_bytes(text)
    (place / "proc").mkdir(exist_ok=True)
    return postmaster_files.refuse_running(place, place / "proc")


def _postmaster_opts(text: bytes, place: Path) -> object:
    (place / "postmaster.opts").write_bytes(text)
    return postmaster_files.last_options(place)


def _data_directory(text: bytes, place: Path) -> object:
    place.chmod(0o700)
    for name in ("PG_VERSION", "postgresql.conf"):
        (place / name).write_bytes(text if name == "PG_VERSION" or len(text) % 2 else b"port = 5432\n")
    if os.geteuid() == 0:  # as another user than root, because otherwise the program would be run
        os.chown(place, 65534, 65534)
    with stopped.asking(place, place) as (_, how):
        return how


def _log(read: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    def parse(text: bytes, place: Path) -> object:
        (place / "log").write_bytes(text)
        return read(place / "log")

    return parse


def _judged(text: str) -> object:
    result = WorkloadResult((), 1.0, 1, seconds_asked=1.0)
    return server_log.judge(Evidence(result, {}, True, 0.0, 0.0, text, Thresholds())), program_output.server_errors(
        text
    )


def _transactions(log: Path) -> object:
    return pgbench_log.tail(pgbench_log.read([log]).values()), pgbench_client.parse_log(
        log.read_text(errors="replace").splitlines()
    )


def _explained(text: bytes, _: Path) -> object:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):  # psycopg parses it
        return None
    connection = MagicMock()
    connection.execute.return_value.fetchone.return_value = {"QUERY PLAN": document}
    found = explained.explain(cast(Any, connection), "SELECT 1")
    return found.read_blocks, found.hit_blocks, explained.shape(found.plan), float(found.planning_ms)


def _shaped(text: bytes) -> object:
    shape = plan_shape.parse(text)
    assert plan_shape.from_dict(json.loads(json.dumps(shape.as_dict()))) == shape
    other = plan_shape.shape_of(_PLAN)
    assert "\n" not in shape.line() and not any("\n" in line for line in shape.lines())
    return shape.identity, plan_diff.differences(shape, other)


def _joined(text: bytes) -> object:
    plan_shape.parse(text)  # input that is no plan is refused earlier
    found: Any = json.loads(text)
    found = cast(list[Any], found)[0] if isinstance(found, list) else found
    return [join.factor for join in joins_of(cast(dict[str, Any], found.get("Plan", found)))]


def _auto_explained(text: str) -> object:
    if (found := explained.plan_text(text)) is None:
        return None
    plan = explained.document(found)["Plan"]
    return problem_of(plan, {"query": "seq-scan", "workers": "0"}), explained.shape(plan)


def _compared(text: str) -> object:
    lines, expected = text.split("\n"), _OUTPUT.decode().split("\n")
    return (
        outputs.compare_regression("t", lines, expected, lines),
        outputs.compare_regression("t", expected, expected, lines),
        outputs.compare_isolation("t", expected, lines),
        results.parse(lines),
        plans.is_plan(lines) and plans.rows_returned(lines),
    )


PARSERS: Sequence[Parser] = (
    Parser("postmaster.pid", _postmaster_pid, (_PID_FILE,)),
    Parser("postmaster.opts", _postmaster_opts, (_OPTS,), ()),
    Parser("PG_VERSION", _data_directory, (b"18\n", b"9.6\n", b"19devel\n")),
    Parser("words of postgres -C", _text(lambda text: stopped._words(text)), (_STDERR,), ()),
    Parser("pgbench summary", _text(lambda text: pgbench_client.parse(text, text, 1, 8.0, 1.0, [1.0])), (_PGBENCH,)),
    Parser("pgbench log", _log(_transactions), (_PGBENCH_LOG,), ()),
    Parser(
        "sysbench summary",
        _text(lambda text: client.parse(text, text, 0, 15.0, 1.0)),
        (_SYSBENCH,),
    ),
    Parser("server log", _text(_judged), (_SERVER_LOG,), ()),
    Parser("last words", _log(lambda log: cluster.last_log_line(log)), (_SERVER_LOG,), ()),
    Parser(
        "pg_controldata", _text(lambda text: control.reset_arguments(control.parse(text), 16 * 1024**2)), (_CONTROL,)
    ),
    Parser("EXPLAIN JSON", _explained, (_EXPLAIN,)),
    Parser("auto_explain", _text(_auto_explained), (_AUTO_EXPLAIN,)),
    Parser("shape of a plan", lambda text, _: _shaped(text), (_EXPLAIN, _UNION)),
    Parser("joins of a plan", lambda text, _: _joined(text), (_EXPLAIN, _JOINS)),
    Parser("calibration", _text(parse_calibration), (_CALIBRATION,)),
    Parser("EXPLAIN text", _text(lambda text: plans.is_plan(text.split("\n"))), (_TEXT_PLAN,), ()),
    Parser("regression.diffs", _text(diffs.parse_diffs), (_DIFFS,), (ValueError,)),
    Parser("Makefile of contrib", _text(lambda text: contrib.parse_makefile(text, Path("/src"))), (_MAKEFILE,), ()),
    Parser("test output", _text(_compared), (_OUTPUT,), ()),
    Parser("ldd", _text(program_pages.libraries), (_LDD,), ()),
)


@parametrized(PARSERS)
def test_any_text_is_read_or_refused(parser: Parser) -> None:
    check(parser)

"""One timed run of a query in a session with its own settings, with the plan of that run from auto_explain."""

import math
import re
import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus

from octavo.errors import OctavoError
from octavo.postgres.cluster import Server
from octavo.workload_support.explained import document, plan_text
from octavo.workloads.base import RunningPiece
from octavo.workloads.tpch import usage
from octavo.workloads.tpch.answers import Row, as_text

# By level of the factor `explain`, the settings of auto_explain. None reads a clock for every row, which would be
# included in the measurement.
EXPLAIN = {"analyze": "on", "plan": "off", "off": None}
_CANCEL_SECONDS = 10.0
# PostgreSQL's message at the beginning of an index's build in parallel (index_build in src/backend/catalog/index.c).
_WORKERS = re.compile(r"building index .* with request for (\d{1,4}) parallel workers?")


@dataclass(frozen=True, slots=True)
class Ran:
    """One run: seconds until the last row had arrived, the rows, the plan (None if not requested), and its resource
    use.

    A run that was cancelled at the timeout has no rows. `is_parallel`: whether the session's queries may have parallel
    workers, whose number only the plan tells.
    """

    seconds: float
    rows: tuple[Row, ...] | None
    plan: Mapping[str, Any] | None
    used: usage.QueryUsage
    is_parallel: bool = False


@dataclass(slots=True)
class RunningQuery:
    """A query that the caller can wait for in parts, so that its server may be paused in between.

    `cpu` counts this process's CPU seconds. The device's counters are those of the parts: between them the device
    serves others.
    """

    session: "Session"
    server: Server
    query: str
    captures: bool
    before: usage.UsageSnapshot
    device: tuple[int, ...] | None = None
    cpu: float = 0.0

    def go(self) -> None:
        """Sends the query. Raises psycopg.Error."""
        connection = self.session.connection.pgconn
        connection.send_query(self.query.encode())
        while connection.flush():
            select.select((), (connection.socket,), ())

    def wait(self, seconds: float) -> bool:
        """Waits at most so many seconds. Returns whether it has ended. Raises psycopg.Error when the connection is
        lost."""
        cpu, device = time.thread_time(), usage.device_counters(self.server)
        ended = self._wait(seconds)
        self.cpu += time.thread_time() - cpu
        self.device = usage.added(self.device, usage.grown(device, usage.device_counters(self.server)))
        return ended

    def _wait(self, seconds: float) -> bool:
        connection, deadline = self.session.connection.pgconn, time.monotonic() + seconds
        while True:
            connection.consume_input()
            if not connection.is_busy():
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            select.select((connection.socket,), (), (), None if math.isinf(left) else left)

    def cancel(self) -> None:
        """Asks the server to end it. Raises psycopg.Error."""
        self.session.connection.cancel_safe(timeout=_CANCEL_SECONDS)

    def end(self, seconds: float) -> Ran:
        """The result, after it has ended and taken so many seconds. Raises the errors of `Session.run`."""
        cpu = time.thread_time()
        rows = self._rows()
        self.cpu += time.thread_time() - cpu
        texts = tuple(self.session.texts)  # later SET commands have plans, too
        used = usage.between(self.before, usage.snapshot(self.server))
        used = replace(used, seconds=seconds, device=self.device)
        if self.captures:
            self.session.set("auto_explain.log_min_duration", "-1")
        plan = _last(texts) if self.captures and rows is not None else None
        return Ran(seconds, rows, plan, used, self.session.is_parallel)

    def _rows(self) -> tuple[Row, ...] | None:
        connection, rows, error = self.session.connection, tuple[Row, ...](), None
        while (result := connection.pgconn.get_result()) is not None:
            if result.status == ExecStatus.TUPLES_OK:
                values = Transformer(connection)
                values.set_pgresult(result)
                rows = tuple(as_text(row) for row in values.load_rows(0, result.ntuples, tuple))
            elif result.status == ExecStatus.FATAL_ERROR:
                error = psycopg.errors.error_from_result(result)
        if error is not None and not isinstance(error, psycopg.errors.QueryCanceled):
            raise error
        return rows if error is None else None


class Session:
    """A connection that runs queries and keeps the plans that auto_explain sends it.

    `workers`: the parallel workers of an index's build, which the caller sets to 0 before it (`report_workers`);
    `is_parallel`: whether queries may have workers, which the caller determines.
    """

    def __init__(self, connection: psycopg.Connection[Any], explain: str, timeout: float = math.inf) -> None:
        """`explain` is a level of the factor; `timeout` in seconds. Raises psycopg.Error."""
        self.connection = connection
        self.texts: list[str] = []
        self.workers = 0
        self.is_parallel = False
        self.timeout = timeout
        self._captures = EXPLAIN[explain] is not None
        connection.add_notice_handler(self._keep)
        if self._captures:
            connection.execute("LOAD 'auto_explain'")
            for name, value in {
                "log_analyze": EXPLAIN[explain], "log_buffers": EXPLAIN[explain], "log_timing": "off",
                "log_settings": "on", "log_format": "json", "log_level": "notice", "log_min_duration": "-1",
            }.items():  # fmt: skip
                self.set(f"auto_explain.{name}", str(value))

    def begin(self, server: Server, query: str, *, capture: bool = True) -> RunningQuery:
        """A query that has not been sent yet. Its plan is captured if the session captures plans and `capture` is true.
        Raises psycopg.Error."""
        captures = self._captures and capture
        if captures:
            self.set("auto_explain.log_min_duration", "0")
        self.texts.clear()
        return RunningQuery(self, server, query, captures, usage.snapshot(server))

    def run(self, server: Server, query: str, *, capture: bool = True) -> Ran:
        """Runs the query once. Raises psycopg.Error except for the timeout, OctavoError when no plan came with it."""
        running = self.begin(server, query, capture=capture)
        return running.end(run_whole(running, self.timeout))

    def capture_ratio(self, server: Server, query: str) -> float | None:
        """The time with plan capture over the time without it, from three runs: without, with, without, so that a slow
        drift of the machine cancels. None if the session captures no plans, or a run was cancelled. Raises the errors
        of `run`."""
        if not self._captures:
            return None
        first, captured, last = (self.run(server, query, capture=one) for one in (False, True, False))
        if any(one.rows is None for one in (first, captured, last)):
            return None
        return 2 * captured.seconds / (first.seconds + last.seconds)

    def plan_beforehand(self, query: str) -> None:
        """Plans the query without running it, which reads the catalogs outside of a warm run."""
        self.connection.execute(b"EXPLAIN " + query.encode())

    def capture_nested(self) -> None:
        """From now on keeps every plan, including those of queries within statements."""
        if self._captures:
            self.set("auto_explain.log_nested_statements", "on")
            self.set("auto_explain.log_min_duration", "0")

    def report_workers(self) -> None:
        """From now on PostgreSQL tells how many parallel workers the build of an index has."""
        self.set("client_min_messages", "debug1")

    def captured(self) -> list[Mapping[str, Any]]:
        """The kept plans. Raises OctavoError for an invalid plan."""
        return [document(text) for text in self.texts]

    def set(self, name: str, value: str) -> None:
        """Sets a parameter of the session. Raises psycopg.Error."""
        self.connection.execute("SELECT set_config(%s, %s, false)", (name, value))

    def _keep(self, notice: psycopg.errors.Diagnostic) -> None:
        message = notice.message_primary or ""
        if (text := plan_text(message)) is not None:
            self.texts.append(text)
        elif asked := _WORKERS.match(message):
            self.workers = max(self.workers, int(asked[1]))


def run_whole(running: RunningPiece, timeout: float) -> float:
    """Starts the piece, waits until it has ended, and cancels it after `timeout` seconds. Returns its duration in
    seconds.

    Raises psycopg.Error.
    """
    started = time.perf_counter()
    running.go()
    if not running.wait(timeout):
        running.cancel()
        running.wait(math.inf)
    return time.perf_counter() - started


def _last(texts: Sequence[str]) -> Mapping[str, Any]:
    if not texts:
        raise OctavoError("auto_explain returned no plan; was auto_explain.log_level or client_min_messages changed?")
    return document(texts[-1])

"""One timed run of a query in a session of its own settings, with its plan as auto_explain gives it from that run."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import psycopg
from psycopg.rows import tuple_row

from octavo.errors import OctavoError
from octavo.postgres.cluster import Server
from octavo.workload_support.explained import checked
from octavo.workloads.tpch import usage
from octavo.workloads.tpch.answers import Row, as_text

# By level of the factor `explain`: how auto_explain looks at the run. A clock for every row would be part of what is
# measured, so that none reads it.
EXPLAIN = {"analyze": "on", "plan": "off", "off": None}
_MOST_PLAN = 4 * 1024**2


@dataclass(frozen=True, slots=True)
class Ran:
    """One run: seconds until the last row was here, the rows, the plan (None if not asked for), what was used.

    A run that was cut off at the timeout has no rows.
    """

    seconds: float
    rows: tuple[Row, ...] | None
    plan: Mapping[str, Any] | None
    before: usage.UsageSnapshot
    after: usage.UsageSnapshot


class Session:
    """A connection that runs queries and keeps the plans that auto_explain sends it."""

    def __init__(self, connection: psycopg.Connection[Any], explain: str, timeout: float) -> None:
        """`explain` is a level of the factor; `timeout` in seconds, 0 for none. Raises psycopg.Error."""
        self.connection = connection
        self.texts: list[str] = []
        self._captures = EXPLAIN[explain] is not None
        self._timeout = str(round(timeout * 1000))
        connection.add_notice_handler(self._keep)
        if self._captures:
            connection.execute("LOAD 'auto_explain'")
            for name, value in {
                "log_analyze": EXPLAIN[explain], "log_buffers": EXPLAIN[explain], "log_timing": "off",
                "log_settings": "on", "log_format": "json", "log_level": "notice", "log_min_duration": "-1",
            }.items():  # fmt: skip
                self._set(f"auto_explain.{name}", str(value))

    def run(self, server: Server, query: str, *, capture: bool = True) -> Ran:
        """Runs the query once, with its plan where the session captures plans and unless `capture` is false.

        Raises psycopg.Error but for the timeout, OctavoError when no plan came with it.
        """
        captures = self._captures and capture
        if captures:
            self._set("auto_explain.log_min_duration", "0")
        before = usage.snapshot(server)
        if self._timeout != "0":
            self._set("statement_timeout", self._timeout)
        cursor = self.connection.cursor(row_factory=tuple_row)
        self.texts.clear()
        started = time.perf_counter()
        try:
            cursor.execute(query.encode())
            cut_off = False
        except psycopg.errors.QueryCanceled:
            cut_off = True
        seconds = time.perf_counter() - started
        texts = tuple(self.texts)  # what is set from here on has plans, too
        after = usage.snapshot(server)
        if self._timeout != "0":
            self._set("statement_timeout", "0")
        if captures:
            self._set("auto_explain.log_min_duration", "-1")
        if cut_off:
            return Ran(seconds, None, None, before, after)
        rows = tuple(as_text(row) for row in cursor.fetchall())
        return Ran(seconds, rows, _last(texts) if captures else None, before, after)

    def capture_ratio(self, server: Server, query: str) -> float | None:
        """Time with plan capture over time without it, by three runs: without, with, without, so that a slow drift of
        the machine cancels. None where the session captures no plans, or a run was cut off. Raises as `run` does."""
        if not self._captures:
            return None
        first, captured, last = (self.run(server, query, capture=one) for one in (False, True, False))
        if any(one.rows is None for one in (first, captured, last)):
            return None
        return 2 * captured.seconds / (first.seconds + last.seconds)

    def plan_beforehand(self, query: str) -> None:
        """Plans it without running it: reads the catalogs, which is no part of a warm run."""
        self.connection.execute(b"EXPLAIN " + query.encode())

    def capture_nested(self) -> None:
        """From now on every plan is kept, also those of queries within statements."""
        if self._captures:
            self._set("auto_explain.log_nested_statements", "on")
            self._set("auto_explain.log_min_duration", "0")

    def captured(self) -> list[Mapping[str, Any]]:
        """The plans that are kept. Raises OctavoError for what is none."""
        return [document(text) for text in self.texts]

    def _set(self, name: str, value: str) -> None:
        self.connection.execute("SELECT set_config(%s, %s, false)", (name, value))

    def _keep(self, notice: psycopg.errors.Diagnostic) -> None:
        message = notice.message_primary or ""
        if message.startswith("duration:") and "plan:\n" in message:
            self.texts.append(message.partition("plan:\n")[2])


def _last(texts: Sequence[str]) -> Mapping[str, Any]:
    if not texts:
        raise OctavoError("auto_explain returned no plan; was auto_explain.log_level or client_min_messages changed?")
    return document(texts[-1])


def document(text: str) -> Mapping[str, Any]:
    """The plan that auto_explain wrote, checked. Raises OctavoError when it is none."""
    if len(text) > _MOST_PLAN:
        raise OctavoError(f"a plan of {len(text):,} characters is not one of TPC-H's")
    try:
        found = json.loads(text)
        checked(found["Plan"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise OctavoError(f"unexpected plan from auto_explain: {error!r}") from None
    return cast(Mapping[str, Any], found)

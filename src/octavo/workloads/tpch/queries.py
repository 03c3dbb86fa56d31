"""Runs the 22 queries one after the other, each a few times, cold or warm, checks results and keeps plans."""

import itertools
import math
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import geometric_mean, median
from typing import Any

from octavo.errors import OctavoError
from octavo.knobs.drop_caches import drop_caches
from octavo.observation import Observation, observe
from octavo.postgres.cluster import DATABASE, Server
from octavo.postgres.leaving import wait_for_clients_to_leave
from octavo.units import parse_duration
from octavo.workload_support.explained import nodes
from octavo.workloads.base import BegunPiece, Levels, Piece, PieceRun, WorkloadResult
from octavo.workloads.tpch import metrics, usage
from octavo.workloads.tpch.captured import Captured
from octavo.workloads.tpch.costs import cost_settings
from octavo.workloads.tpch.duckdb_tpch import QUERIES, known
from octavo.workloads.tpch.query import Ran, Session, run_whole
from octavo.workloads.tpch.references import References, references

# The queries for measuring the cost of capturing plans: short ones with many kinds of nodes.
CAPTURE_PROBES = (2, 6, 11, 14)
# The most runs of a query for `min_time`.
MOST_RUNS = 100


@dataclass(slots=True)
class Power:
    """The results of a trial's queries so far."""

    levels: Levels
    references: References
    observations: list[Observation] = field(default_factory=list[Observation])
    times: dict[int, list[float]] = field(default_factory=dict[int, list[float]])
    timed_out: list[str] = field(default_factory=list[str])
    plans: Captured = field(default_factory=Captured)
    results: dict[str, str] = field(default_factory=dict[str, str])
    cpu_seconds: float = 0.0
    costs: Mapping[str, str] = field(default_factory=dict[str, str])
    capture_ratios: list[float] = field(default_factory=list[float])

    def add(self, number: int, repetition: int, ran: Ran, identity: str | None) -> None:
        """Adds one run of a query, with the identity of its result; None if it was cancelled at the timeout."""
        item = f"q{number}"
        self.observations += usage.observations(ran.used, item, repetition, processes=_processes(ran))
        if ran.rows is None:
            self.timed_out.append(f"{item} ({repetition})")
            self.observations.append(observe(metrics.TIMED_OUT, 1.0, item=item, repetition=repetition))
            return
        self.times.setdefault(number, []).append(ran.seconds)
        self.observations.append(observe(metrics.SECONDS, ran.seconds, item=item, repetition=repetition))
        if repetition == 1:
            self.observations.append(observe(metrics.ROWS, len(ran.rows), item=item))
        if identity is not None:
            self.results[item] = identity
        if ran.plan is not None:
            self.plans.add(item, f"{item}.{repetition}", [ran.plan])

    def add_capture(self, number: int, ratio: float) -> None:
        """Adds the cost of capturing a query's plan."""
        self.capture_ratios.append(ratio)
        self.observations.append(observe(metrics.CAPTURE, ratio, item=f"q{number}"))

    def result(self, seconds: float, restarts: int) -> WorkloadResult:
        """The trial's result; it has totals if no query was cancelled."""
        totals = list(_totals(self.times, _repetitions(self.levels), () if self.timed_out else chosen(self.levels)))
        facts: dict[str, Any] = {"results": self.results, **self.plans.facts()}
        if self.costs:
            facts["costs"] = dict(self.costs)
        if self.timed_out:
            facts["timed_out"] = self.timed_out
        if restarts:
            facts["restarts"] = restarts
        if self.capture_ratios:
            self.observations.append(observe(metrics.CAPTURE, geometric_mean(self.capture_ratios)))
        return WorkloadResult(
            observations=(*totals, *_of_repetitions(self.times, _repetitions(self.levels)), *self.observations),
            seconds=seconds,
            transactions=sum(map(len, self.times.values())),
            client_cpu_seconds=self.cpu_seconds,
            output=self.plans.output(),
            facts=facts,
        )


@dataclass(slots=True)
class QueryPieces:
    """The queries of a trial, one run at a time. `emptied`: what the emptying of the caches that left most has said.

    Of the cold runs: `requested_before`, the server's counter before the first one, and `device_read_bytes`, read at
    the device during them, None without a device.
    """

    server: Server
    levels: Levels
    power: Power
    session: Session | None
    cold_session: Session | None = None
    restarts: int = 0
    seconds: float = 0.0
    kept: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    emptied: Mapping[str, Any] = field(default_factory=dict[str, Any])
    requested_before: int = 0
    device_read_bytes: int | None = None
    can_repeat: bool = True

    @property
    def items(self) -> list[str]:
        """The queries."""
        return [f"q{number}" for number in chosen(self.levels)]

    def enough(self, item: str) -> bool:
        """Whether a query has run `repetitions` times, and for `min_time` in total."""
        mine = self.kept.get(item, ())
        long_enough = sum(mine) >= min_time(self.levels) or len(mine) >= MOST_RUNS
        return len(mine) >= _repetitions(self.levels) and long_enough

    def begin(self, piece: Piece) -> BegunPiece:
        """Prepares a run of a query. In a warm cell it is planned once before, so that the catalogs are read; in a cold
        one the server is restarted with empty caches.

        Raises OctavoError or psycopg.Error when the server refuses; on its end also when the result is wrong.
        """
        item, repetition = piece
        number, began = int(item.removeprefix("q")), time.monotonic()
        query = known().queries[number]
        if self.session is None:
            if not self.restarts:
                self.requested_before = _requested_bytes(self.server)
            self.server.restart(self._empty_caches)
            self.restarts += 1
            self.cold_session = session = open_session(self.server, self.levels)
        else:
            session = self.session
            session.plan_beforehand(query)
        running = session.begin(self.server, query)
        prepared = time.monotonic() - began

        def end(seconds: float) -> PieceRun:
            ran, identity, ratio = running.end(seconds), None, None
            self.power.cpu_seconds += running.cpu
            self.seconds += prepared + seconds
            if ran.rows is not None:
                identity = self.power.references.check(number, ran.rows, self.levels["data_block"])
            if self.session is None:
                self.close()
                if ran.used.device is not None:
                    self.device_read_bytes = (self.device_read_bytes or 0) + usage.read_bytes_of(ran.used.device)
            elif repetition == 1 and number in CAPTURE_PROBES and ran.rows is not None:
                ratio = session.capture_ratio(self.server, query)

            def keep() -> None:
                self.kept.setdefault(item, []).append(ran.seconds)
                self.power.add(number, repetition, ran, identity)
                if ratio is not None:
                    self.power.add_capture(number, ratio)

            return PieceRun(ran.seconds, keep)

        return BegunPiece(running, session.timeout, end)

    def _empty_caches(self) -> None:
        found = drop_caches(self.server.directory)
        if not self.emptied or (found["cached_bytes_left"] or 0) > (self.emptied["cached_bytes_left"] or 0):
            self.emptied = found

    def close(self) -> None:
        """Closes its sessions."""
        for session in (self.session, self.cold_session):
            if session is not None:
                session.connection.close()

    def result(self) -> WorkloadResult:
        """The result of the kept runs. Raises OctavoError when every query was cancelled."""
        if not self.power.times:
            raise OctavoError(
                f"every query was cancelled after {self.levels['query_timeout']}; choose a longer query_timeout"
            )
        result = self.power.result(self.seconds, self.restarts)
        return replace(result, facts={**result.facts, **self.emptied, **self._cold_reads()})

    def _cold_reads(self) -> dict[str, int]:
        """The facts for the rule on cold caches, because a restart ends the instruments that query the server: bytes
        that all cold runs requested from the kernel, and read at the device. Unknown ones are left out."""
        if not self.restarts:
            return {}
        wait_for_clients_to_leave(self.server.query)
        requested = _requested_bytes(self.server) - self.requested_before
        found = {"cold_requested_bytes": requested} if requested >= 0 else {}  # less after a reset of the counters
        if self.device_read_bytes is not None:
            found["cold_device_read_bytes"] = self.device_read_bytes
        return found


@contextmanager
def pieces(server: Server, levels: Levels) -> Generator[QueryPieces, None, None]:
    """Yields the queries of a trial. Raises HostError or OctavoError when their results cannot be compared with
    anything."""
    power = Power(levels, references(server, levels["scale"]), costs=cost_settings(server, levels))
    session = None if levels["cache"] == "cold" else open_session(server, levels)
    queries = QueryPieces(server, levels, power, session)
    try:
        yield queries
    finally:
        queries.close()


def run(server: Server, levels: Levels) -> WorkloadResult:
    """Runs all repetitions of all queries in sequence. Raises the errors of `QueryPieces.begin` and `result`."""
    with pieces(server, levels) as queries:
        for item in queries.items:
            for repetition in itertools.count(1):
                begun = queries.begin((item, repetition))
                begun.end(run_whole(begun.running, begun.timeout)).keep()
                if queries.enough(item):
                    break
        return queries.result()


def beforehand(server: Server, levels: Levels) -> None:
    """Measures the cost settings, and computes or reads the reference answers, once for all trials. Raises HostError or
    OctavoError when they are not available."""
    cost_settings(server, levels)
    references(server, levels["scale"])


def warm(server: Server, levels: Levels) -> None:
    """Runs every query once."""
    session = open_session(server, levels)
    try:
        for number in chosen(levels):
            session.run(server, known().queries[number])
    finally:
        session.connection.close()


def open_session(server: Server, levels: Levels) -> Session:
    """Opens a session with the settings of the levels."""
    timeout = math.inf if levels["query_timeout"] == "none" else parse_duration(levels["query_timeout"])
    settings = cost_settings(server, levels)
    session = Session(server.connect(DATABASE), levels["explain"], timeout)
    for name, value in settings.items():
        session.connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    row = session.connection.execute(
        "SELECT current_setting('max_parallel_workers_per_gather')::int > 0 AS parallel"
    ).fetchone()
    session.is_parallel = row is not None and bool(row["parallel"])
    return session


def chosen(levels: Levels) -> list[int]:
    """The queries of the factor `queries`, in order."""
    text = levels["queries"]
    return list(QUERIES) if text == "all" else [int(one) for one in text.split(",")]


def min_time(levels: Levels) -> float:
    """The minimum total time of a query's runs in seconds."""
    return 0.0 if levels["min_time"] == "none" else parse_duration(levels["min_time"])


def _requested_bytes(server: Server) -> int:
    """The bytes that the database's sessions have requested from the kernel so far. PostgreSQL keeps the counter across
    a restart with a checkpoint."""
    return int(server.query("database")[0]["read_bytes"])


def _repetitions(levels: Levels) -> int:
    return int(levels["repetitions"])


def _processes(ran: Ran) -> usage.Processes | None:
    """The processes of a run: with those workers that ran at the same time, of the Gather node with the most. None if
    it may have had some and there is no plan that tells."""
    if ran.plan is None:
        return None if ran.is_parallel else usage.ONE
    every = (node.get("Workers Launched", node.get("Workers Planned", 0)) for node in nodes(ran.plan["Plan"]))
    return ((1 + max(map(int, every)), 1.0),)


def _totals(times: Mapping[int, Sequence[float]], repetitions: int, every: Sequence[int]) -> Iterator[Observation]:
    """The sum over the queries for each of the first `repetitions` in which all have run."""
    if not every or any(number not in times for number in every):
        return
    common = min(repetitions, *(len(times[number]) for number in every))
    sums = [sum(times[number][place] for number in every) for place in range(common)]
    for repetition, total in enumerate(sums, 1):
        yield observe(metrics.SECONDS, total, repetition=repetition)
    if repetitions > 1:
        yield observe(metrics.MINIMUM, sum(min(times[number][:repetitions]) for number in every))
        yield observe(metrics.MEDIAN, sum(median(times[number]) for number in every))


def _of_repetitions(times: Mapping[int, Sequence[float]], repetitions: int) -> Iterator[Observation]:
    """The shortest of the repetitions, which are as many in every cell, and the median of all runs: with `min_time` the
    faster cell has more runs, and the shortest of more is shorter."""
    for number, mine in times.items():
        if repetitions > 1:
            yield observe(metrics.MINIMUM, min(mine[:repetitions]), item=f"q{number}")
        if len(mine) > 1:
            yield observe(metrics.MEDIAN, median(mine), item=f"q{number}")

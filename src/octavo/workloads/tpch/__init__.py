"""TPC-H: the load in five steps, or the 22 queries, on data of any scale factor, with results that are checked.

Data are those of dbgen (`generator`), queries and reference answers are the specification's (`known`), and tables and
indexes follow it (`schema`). The results are not TPC-H results: there are no refresh functions, no streams and no
audit, and the numbers are not comparable with published ones.
"""

import math
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any

from octavo.errors import UsageError
from octavo.factor import Factor, duration, one_of, whole_number
from octavo.postgres.cluster import DATABASE, Server
from octavo.units import parse_duration
from octavo.workloads.base import Levels, Pieces, WorkloadResult
from octavo.workloads.tpch import generator, load_pieces, load_run, loading, metrics, queries, references, usage
from octavo.workloads.tpch.costs import COSTS
from octavo.workloads.tpch.query import EXPLAIN

# Measured at scale factor 1: tables and their indexes; with 1 kB blocks a tenth more.
_BYTES = 1_850_000_000
_EMPTY_BYTES = 16 * 1024**2
# Seconds at scale factor 1: one repetition of all warm queries, and the whole load (95 to 120 measured).
_QUERY_SECONDS, _LOAD_SECONDS = 40.0, 100.0
_RESTART_SECONDS = 1.0
_SETTINGS = {"jit": "off", "max_parallel_workers_per_gather": "0", "work_mem": "64MB"}
_MOST_SCALE = Decimal(10_000)
_whole_seconds = duration(1, 3600)


def _scale(text: str) -> str:
    if re.fullmatch(r"\d{1,5}(\.\d{1,3})?", text) is None or not 0 < Decimal(text) <= _MOST_SCALE:
        raise UsageError("allowed: scale factors from 0.001 to 10000, such as 0.1")
    return f"{Decimal(text).normalize():f}"


def _queries(text: str) -> str:
    """All queries, or some of 1 to 22 in order."""
    if text == "all":
        return text
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() and len(word) < 3 and 1 <= int(word) <= 22 for word in words):
        raise UsageError("allowed: all, or comma-separated numbers from 1 to 22")
    return ",".join(map(str, sorted({int(word) for word in words})))


def _timeout(text: str) -> str:
    if text == "none":
        return text
    try:
        seconds = parse_duration(text)
    except UsageError:
        seconds = 0.0
    if not 1 <= seconds <= 86_400:
        raise UsageError("allowed: none, or times from 1s to 24h")
    return text


def _min_time(text: str) -> str:
    if text == "none":
        return text
    try:
        return _whole_seconds(text)
    except UsageError as error:
        raise UsageError(str(error).replace("allowed: ", "allowed: none, or ")) from None


class Tpch:
    """One client that runs the queries, or the load, once per trial."""

    factors = (
        Factor("phase", "cluster", "what a trial measures: queries, or the load", "queries", one_of("queries", "load")),
        Factor("scale", "cluster", "scale factor: 1 is 1 GB of text", "0.1", _scale),
        Factor("order", "cluster", "order of the load's steps", "keys-first", one_of(*loading.ORDERS)),
        Factor("statistics_target", "cluster", "default_statistics_target", "100", whole_number(1, 10_000)),
        Factor("queries", "run", "which queries: all, or numbers such as 1,6,14", "all", _queries),
        Factor("repetitions", "run", "runs of each query in a trial", "1", whole_number(1, 1000)),
        Factor("min_time", "run", "minimum total time of the runs of a query in a trial, in at most "
               f"{queries.MOST_RUNS} runs", "none", _min_time),
        Factor("query_timeout", "run", "time after which a query is cancelled and marked", "none", _timeout),
        Factor("explain", "run", "output of auto_explain for each run: plan with actual rows and buffers, plan only, "
               "or none", "analyze", one_of(*EXPLAIN)),
        Factor("costs", "run", "the planner's cost settings: PostgreSQL's, page costs in proportion to the data block, "
               "or measured ones", "default", one_of(*COSTS)),
    )  # fmt: skip
    metrics = (
        metrics.SECONDS, metrics.MINIMUM, metrics.MEDIAN, metrics.TIMED_OUT, metrics.CAPTURE, metrics.ROWS,
        metrics.WAL_BYTES, metrics.WAL_RECORDS, metrics.WAL_IMAGES, metrics.WAL_HEADERS, metrics.WAL_READ,
        metrics.WAITED, *metrics.SIZES, *usage.METRICS,
    )  # fmt: skip

    @property
    def settings(self) -> Mapping[str, str]:
        """Settings that would otherwise make runs differ: one process per query, no JIT compilation. A plan's own
        settings replace these."""
        return _SETTINGS

    def contents(self, levels: Levels) -> tuple[tuple[str, str], ...]:
        """The tables depend on scale and generator, their layout on the order of the steps. A load trial starts without
        tables."""
        if levels["phase"] == "load":
            return (("workload", "tpch"), ("phase", "load"))
        return (
            ("workload", "tpch"), ("generator", generator.version()), ("scale", levels["scale"]),
            ("order", levels["order"]), ("statistics_target", levels["statistics_target"]),
        )  # fmt: skip

    def fill(self, server: Server, levels: Levels, load: int = 1) -> None:
        """Makes tables, keys and indexes; nothing for trials that are loads, whose levels all have one dataset."""
        if levels["phase"] == "load":
            return
        target = int(levels["statistics_target"])
        server.execute(f"ALTER DATABASE {DATABASE} SET default_statistics_target = {target}")
        server.execute(f"SET default_statistics_target = {target}")  # for the connection that will analyze
        loading.load(server, levels, [step for step in loading.ORDERS[levels["order"]] if step != "analyze"])

    def load_seconds(self, levels: Levels) -> float:
        """The seconds to fill; a trial of the phase "load" begins with an empty database."""
        return 0.0 if levels["phase"] == "load" else float(levels["scale"]) * _LOAD_SECONDS

    def fills_alike(self, levels: Levels) -> bool:
        """One session copies the same rows in the same order; only the sample of ANALYZE differs."""
        return levels["phase"] == "queries"

    def database_bytes(self, levels: Levels) -> int:
        """The size of tables and indexes at this scale; the trial of a load makes them."""
        return round(float(levels["scale"]) * _BYTES) + _EMPTY_BYTES

    def seconds_asked(self, levels: Levels) -> float:
        """The estimated seconds; the real duration has no limit."""
        scale = float(levels["scale"])
        if levels["phase"] == "load":
            return scale * _LOAD_SECONDS
        cold, count, one = levels["cache"] == "cold", len(queries.chosen(levels)), scale * _QUERY_SECONDS / 22
        if cold:
            one *= 2
        for_min_time = min(queries.MOST_RUNS, math.ceil(queries.min_time(levels) / one))
        runs = max(int(levels["repetitions"]), for_min_time)
        return count * (runs * (one + _RESTART_SECONDS) if cold else (1 + runs) * one)

    def beforehand(self, server: Server, levels: Levels) -> None:
        """Measures the cost settings and computes the reference answer that the queries need. Raises OctavoError or
        HostError when they are not available."""
        if levels["phase"] == "queries":
            queries.beforehand(server, levels)

    def warm(self, server: Server, levels: Levels, seed: int) -> None:
        """Runs every query once."""
        if levels["phase"] == "queries":
            queries.warm(server, levels)

    def pieces(self, server: Server, levels: Levels) -> AbstractContextManager[Pieces]:
        """The queries one at a time, or the steps of the load."""
        return (load_pieces if levels["phase"] == "load" else queries).pieces(server, levels)

    def why_not_in_pieces(self, levels: Levels) -> str | None:
        """A step of a load is one piece that cannot be repeated, so slices must end within it, or it is measured in a
        trial."""
        if levels["phase"] == "load" and (levels["device"], levels["cache"]) != ("native", "warm"):
            return "a load is paused only on the machine's own device, with a warm cache"
        return None

    def piece_levels(self, levels: Levels) -> Levels:
        """Which queries, and how often; or the order of the load's steps."""
        names = ("phase", "order") if levels["phase"] == "load" else ("phase", "queries", "repetitions", "min_time")
        return {name: levels[name] for name in names}

    def recall(self, levels: Levels, facts: Mapping[str, Any]) -> None:
        """Records the queries' results; a load has none."""
        references.recall(levels["scale"], facts.get("results", {}))

    def only_reads(self, levels: Levels) -> bool:
        """Whether the queries run, which only read."""
        return levels["phase"] == "queries"

    def run(self, server: Server, levels: Levels, seed: int) -> WorkloadResult:
        """Runs the queries or the load. Raises OctavoError when a result is wrong."""
        return load_run.run(server, levels) if levels["phase"] == "load" else queries.run(server, levels)


WORKLOAD = Tpch()

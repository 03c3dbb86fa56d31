"""A fragmented table with one row per block, of which a query reads every tenth block: the extra reads caused by large
memory pages.

The table, its index and the query are those of Franck Pachot's "PostgreSQL on ARM: default page size matters" (2022): a
fillfactor of 10 leaves room for one row per block, and the rows of one value of m are ten blocks apart. So no two
wanted blocks are neighbours, and every unit of the page cache that is larger than a block also reads unwanted blocks.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from psycopg import Connection
from psycopg.rows import DictRow

from octavo.errors import OctavoError
from octavo.factor import Factor, duration, size
from octavo.host.block_limit import DeviceLimits
from octavo.knobs import page_cache
from octavo.knobs.volume_types import parse_device
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import DATABASE, Server
from octavo.units import parse_duration, parse_size
from octavo.workload_support.explained import Explained, explain, shape
from octavo.workloads.base import Levels, WorkloadResult
from octavo.workloads.kernel_page import parallel
from octavo.workloads.kernel_page.effects import limits_of, two_effects

# The distance between wanted blocks: n modulo 10, as in the published table.
_STRIDE = 10
_TEXT_BYTES = 500
# The published table's block. Up to this size 500 bytes suffice for two rows to exceed a fillfactor of 10; above, the
# text is proportionally longer.
_TEXT_BLOCK = 8192
QUERY = "SELECT max(x) FROM demo WHERE m = 0"
# The published index: 90 MB for 3 million rows.
_INDEX_BYTES_PER_ROW = 32
# The page cache is in a steady state when a run reads at least this share of what the previous run read.
_SETTLED = 0.9
_MOST_WARM_RUNS = 10
_MB = 1024**2

_TIME = Metric("run_ms", "median time of a run (Execution Time)", "ms", "lower")
_EACH = Metric("each_run_ms", "time of each run", "ms", "lower")
_RUNS = Metric("runs", "runs of the query", "1")
_PLANNING = Metric("planning_ms", "planning time", "ms")
_READ = Metric("shared_read_blocks", "Buffers: shared read, per run", "blocks")
_HIT = Metric("shared_hit_blocks", "Buffers: shared hit, per run", "blocks")
_WANTED = Metric("wanted_mb", "blocks that a run requested from the kernel (wanted)", "MB")
_DEVICE_READS = Metric("device_reads_per_run", "reads at the device per run", "1", "lower")
_DEVICE_MB = Metric("device_mb_per_run", "read at the device per run", "MB", "lower")
_AMPLIFICATION = Metric("amplification", "read amplification (MB read per MB wanted)", "1", "lower")
_FORMULA = Metric("amplification_formula", "read amplification without caching, by the formula", "1")
_UNIT = Metric(
    "page_cache_kb",
    "unit of the page cache; XFS blocks above the memory page stand in for a larger kernel page in reads only: TLB, "
    "page tables, anonymous memory and writes differ",
    "kB",
)
_PAGE = Metric("memory_page_kb", "memory page of the kernel", "kB")
_NEEDED = Metric(
    "reads_needed", "reads that a run needs: 0 if the wanted blocks fit in memory, else one per block", "1"
)
_READ_KB = Metric("device_kb_per_read", "size of a read at the device", "kB", "lower")
_BY_REQUESTS = Metric("requests_limit_ms", "time of a run's reads at the volume's IOPS limit", "ms")
_BY_BYTES = Metric("bytes_limit_ms", "time of a run's reads at the volume's throughput limit", "ms")
_MORE_READS = Metric("more_reads_ms", "first effect: time for reads beyond those needed, one block each", "ms", "lower")
_LARGER_READS = Metric("larger_reads_ms", "second effect: time for larger reads", "ms", "lower")


def amplification(block: int, unit: int) -> float:
    """The bytes that a reader of every tenth block of `block` bytes brings in per wanted byte, in units of `unit`.

    A unit no larger than a block brings in nothing else. A unit of more than ten blocks contains several wanted ones,
    so the whole table is read once.

    >>> amplification(8192, 4096), amplification(8192, 65536), amplification(4096, 65536)
    (1.0, 8.0, 10.0)
    """
    return float(min(max(unit / block, 1), _STRIDE))


def text_bytes(block: int) -> int:
    """The length of a row's text, such that a fillfactor of 10 leaves no room for a second row in a block."""
    return _TEXT_BYTES * max(1, block // _TEXT_BLOCK)


class KernelPage:
    """One client that runs the query repeatedly. A cold trial runs it once: a second run would not be cold."""

    factors = (
        Factor("table", "cluster", "size of the fragmented table, one row per block", "800000kB", size("10MB", "1TB")),
        Factor("duration", "run", "length of the measured run", "8s", duration(1, 86_400)),
        parallel.FACTOR,
    )
    metrics = (
        _TIME, _EACH, _RUNS, _PLANNING, _READ, _HIT, _WANTED, _DEVICE_READS, _DEVICE_MB, _AMPLIFICATION, _FORMULA,
        _UNIT, _PAGE, *parallel.METRICS, _NEEDED, _READ_KB, _BY_REQUESTS, _BY_BYTES, _MORE_READS, _LARGER_READS,
    )  # fmt: skip

    def contents(self, levels: Levels) -> tuple[tuple[str, str], ...]:
        """The table depends on its size, and like every load on the data block."""
        return (("workload", "kernel-page"), ("table", levels["table"]))

    def fill(self, server: Server, levels: Levels, load: int = 1) -> None:
        """Makes the published table, which has no random data. Raises OctavoError when a block has no row or
        several."""
        rows, width = rows_of(levels), text_bytes(parse_size(levels["data_block"]))
        server.execute("CREATE TABLE demo (n bigint, m int, x text) WITH (fillfactor = 10)")
        # Neither compressed nor stored out of line, as smaller blocks would otherwise do with this text.
        server.execute("ALTER TABLE demo ALTER COLUMN x SET STORAGE PLAIN")
        server.execute("CREATE INDEX demom ON demo (m, n)")
        server.execute(
            f"INSERT INTO demo SELECT n, mod(n, {_STRIDE}), lpad('x', {width}, 'x') "  # noqa: S608  # our own numbers
            f"FROM generate_series(1, {rows}) n"
        )
        _check_layout(server, rows)

    def database_bytes(self, levels: Levels) -> int:
        """The size of the table, its index, and the catalogs."""
        return parse_size(levels["table"]) + rows_of(levels) * _INDEX_BYTES_PER_ROW + 16 * _MB

    def seconds_asked(self, levels: Levels) -> float:
        """The seconds of the duration. A cold trial lasts for one run, whose length is not known in advance."""
        return parse_duration(levels["duration"])

    def warm(self, server: Server, levels: Levels, seed: int) -> None:
        """Runs the query until the page cache is in its steady state: until a run reads as much as the one before."""
        with server.connect(DATABASE) as connection:
            parallel.set_workers(connection, levels["workers"])
            before = float("inf")
            for _ in range(_MOST_WARM_RUNS):
                run = _run(connection, server.directory)
                if run.read_bytes is None or run.read_bytes >= _SETTLED * before:
                    break
                before = run.read_bytes

    def run(self, server: Server, levels: Levels, seed: int) -> WorkloadResult:
        """Runs the query until the time is over. The current run is completed, and counts."""
        is_cold, asked = levels["cache"] == "cold", self.seconds_asked(levels)
        runs: list[QueryRun] = []
        block = parse_size(levels["data_block"])
        unit = page_cache.granularity(server.directory)
        sizes = (observe(_UNIT, unit / 1024), observe(_PAGE, page_cache.memory_page() / 1024))
        if _is_direct(server):
            unit = block
        with server.connect(DATABASE) as connection:
            parallel.set_workers(connection, levels["workers"])
            cpu, began = time.thread_time(), time.monotonic()
            while not runs or (not is_cold and time.monotonic() - began < asked):
                runs.append(_run(connection, server.directory))
            seconds, cpu = time.monotonic() - began, time.thread_time() - cpu
        plans = dict.fromkeys(shape(run.explained.plan) for run in runs)
        seen = observations(runs, block, unit)
        has_room = not is_cold and not _is_direct(server) and _memory_holds(runs, block, levels)
        effects = split(runs, block, needs_none=has_room, limits=limits_of(parse_device(levels["device"]), seconds))
        problem = parallel.problem_of([run.explained.plan for run in runs], levels["workers"])
        return WorkloadResult(
            observations=(*seen, *effects, *sizes),
            seconds_asked=seconds if is_cold else asked,
            seconds=seconds,
            transactions=len(runs),
            client_cpu_seconds=cpu,
            problems=() if problem is None else (problem,),
            output=json.dumps(runs[-1].explained.plan, indent=1) + "\n",
            facts={"plans": {QUERY: " / ".join(plans)}},
        )


@dataclass(frozen=True, slots=True)
class QueryRun:
    """One run of the query, with the requests and bytes that the device read meanwhile; None if they are unknown."""

    explained: Explained
    reads: int | None
    read_bytes: int | None


def observations(runs: Sequence[QueryRun], block: int, unit: int) -> list[Observation]:
    """The observations of a trial: medians of its runs, so that a single disturbed run does not matter. Sizes in bytes:
    the data block, and the unit in which the page cache reads (the block with direct I/O)."""
    times = [run.explained.execution_ms for run in runs]
    asked_for = median(run.explained.read_blocks * block for run in runs)
    seen = [
        observe(_TIME, median(times)),
        *(observe(_EACH, value, repetition=number) for number, value in enumerate(times, 1)),
        observe(_RUNS, len(runs)),
        observe(_PLANNING, median(run.explained.planning_ms for run in runs)),
        observe(_READ, median(run.explained.read_blocks for run in runs)),
        observe(_HIT, median(run.explained.hit_blocks for run in runs)),
        observe(_WANTED, asked_for / _MB),
        observe(_FORMULA, amplification(block, unit)),
    ]
    seen += parallel.observations([run.explained.plan for run in runs])
    reads = [run.reads for run in runs if run.reads is not None]
    read_bytes = [run.read_bytes for run in runs if run.read_bytes is not None]
    if reads and read_bytes:
        seen += [observe(_DEVICE_READS, median(reads)), observe(_DEVICE_MB, median(read_bytes) / _MB)]
        if asked_for:
            seen.append(observe(_AMPLIFICATION, median(read_bytes) / asked_for))
    return seen


def split(runs: Sequence[QueryRun], block: int, *, needs_none: bool, limits: DeviceLimits | None) -> list[Observation]:
    """Reads needed and done, and the share of each of the two effects in a run's time if the limits are known.

    `needs_none` if memory holds the wanted blocks. Empty if the device is not visible.
    """
    reads = [run.reads for run in runs if run.reads is not None]
    read_bytes = [run.read_bytes for run in runs if run.read_bytes is not None]
    if not reads or not read_bytes:
        return []
    done, done_bytes = median(reads), median(read_bytes)
    needed = 0.0 if needs_none else float(median(run.explained.read_blocks for run in runs))
    found = [observe(_NEEDED, needed)]
    if done:
        found.append(observe(_READ_KB, done_bytes / done / 1024))
    if limits is not None:
        effects = two_effects(limits, needed=needed, done=done, done_bytes=done_bytes, block=block)
        both = ((_BY_REQUESTS, effects.requests_ms), (_BY_BYTES, effects.bytes_ms))
        found += [observe(metric, value) for metric, value in both if value is not None]
        found += [observe(_MORE_READS, effects.more_reads_ms), observe(_LARGER_READS, effects.larger_reads_ms)]
    return found


def _memory_holds(runs: Sequence[QueryRun], block: int, levels: Levels) -> bool:
    """Whether the cell's memory has room for the data that a run requests from the kernel, besides shared_buffers."""
    if levels["memory"] == "none":
        return True
    wanted = median(run.explained.read_blocks for run in runs) * block
    return wanted + parse_size(levels["shared_buffers"]) <= parse_size(levels["memory"])


def _run(connection: Connection[DictRow], directory: Path) -> QueryRun:
    before = device_reads(directory)
    explained = explain(connection, QUERY)
    after = device_reads(directory)
    if before is None or after is None:
        return QueryRun(explained, None, None)
    return QueryRun(explained, after[0] - before[0], after[1] - before[1])


def rows_of(levels: Levels) -> int:
    """The number of rows: as many as blocks, in whole strides."""
    return parse_size(levels["table"]) // parse_size(levels["data_block"]) // _STRIDE * _STRIDE


def _check_layout(server: Server, rows: int) -> None:
    """Verifies that row n is alone in block n - 1."""
    row = server.connection.execute(
        "SELECT count(*) AS rows, count(*) FILTER (WHERE ctid <> format('(%s,1)', n - 1)::tid) AS elsewhere, "
        "pg_relation_size('demo') / current_setting('block_size')::int AS blocks FROM demo"
    ).fetchone()
    if row != {"rows": rows, "elsewhere": 0, "blocks": rows}:
        raise OctavoError(
            f"the table does not have one row per block in the order of the rows: {row}, {rows} requested"
        )


def _is_direct(server: Server) -> bool:
    return "data" in server.settings().get("debug_io_direct", "")


def device_reads(directory: Path) -> tuple[int, int] | None:
    """The requests and bytes that the device under the directory has read, or None if they are unknown."""
    from octavo._core import device_statistics

    try:
        now = device_statistics(str(directory))
    except (LookupError, OSError, ValueError):
        return None
    return now.reads, now.read_bytes


WORKLOAD = KernelPage()

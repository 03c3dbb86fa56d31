"""Point queries through pgbouncer on persistent connections: how large page tables become, and which process would be
killed.

The published test: sysbench oltp_point_select with as many threads as connections, each of which eventually touches
every part of shared_buffers. Afterwards the connections still exist, and are examined.
"""

import mmap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from octavo.errors import OctavoError
from octavo.factor import Factor, duration, one_of, size, whole_number
from octavo.host import cgroup
from octavo.host.free_memory import huge_page
from octavo.host.kernel_text import chosen
from octavo.hugepages.savings import predictable, table_bytes
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import DATABASE, Server
from octavo.units import human_size, parse_duration, parse_size
from octavo.workload_support.server_memory import (
    ProcessMemory,
    TouchedRegions,
    clients,
    first_victim,
    largest_by_role,
    look,
    touched,
)
from octavo.workloads.base import Levels, WorkloadResult
from octavo.workloads.pooled import client, watch
from octavo.workloads.pooled.pooler import pooled

_TABLES = Metric("page_tables_bytes", "page tables of the connections at the end (VmPTE)", "bytes", "lower")
_GROWTH = Metric("page_tables_growth_bytes", "page tables that the connections gained during the run", "bytes", "lower")
_EACH = Metric("page_tables_per_connection_bytes", "page tables at the end, for each connection", "bytes", "lower")
_PREDICTED = Metric("page_tables_predicted_bytes", "page tables predicted for every buffer touched", "bytes")
_MOST = Metric("page_tables_most_bytes", "page tables predicted for all of shared memory touched", "bytes")
_OF_PREDICTED = Metric("page_tables_of_predicted", "page tables at the end, measured / predicted", "fraction")
_TOUCHED = Metric("regions_touched", "regions of shared memory that a connection touched, mean share", "fraction")
_WEIGHT = Metric("oom_weight_bytes", "RSS + swap + page tables, largest process", "bytes")
_PSS = Metric("pss_bytes", "proportional set size, largest process", "bytes")
_VICTIM = Metric("first_victim_bytes", "RSS + swap + page tables of the first process to be killed", "bytes")
_METRICS = (_TABLES, _GROWTH, _EACH, _PREDICTED, _OF_PREDICTED, _MOST, _TOUCHED, _WEIGHT, _PSS, _VICTIM)

# The modes in which shared memory gets transparent huge pages without asking for them.
_TRANSPARENT = ("always", "within_size", "force")
# The memory that one lowest page table maps: a page of 8-byte entries.
_REGION = mmap.PAGESIZE * (mmap.PAGESIZE // 8)
# The memory that a backend touches with a buffer: its block, its descriptor, its entry in the hash table
# (src/backend/storage/buffer/buf_init.c, buf_table.c).
_OF_BUFFERS = frozenset({"Buffer Blocks", "Buffer Descriptors", "Shared Buffer Lookup Table"})


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """A part of shared memory: its name, start, and size in bytes."""

    name: str
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PageTableGrowth:
    """The connections' page tables before and after, in bytes.

    Predicted, if possible: with every buffer touched, and with all of shared memory touched (`most`).
    """

    connections: int
    before: int
    after: int
    predicted: int | None = None
    most: int | None = None
    touched: float | None = None

    def observations(self) -> list[Observation]:
        """The observations."""
        found = [
            observe(_TABLES, self.after),
            observe(_GROWTH, self.after - self.before),
            observe(_EACH, self.after / self.connections),
        ]
        if self.predicted:
            found += [observe(_PREDICTED, self.predicted), observe(_OF_PREDICTED, self.after / self.predicted)]
        if self.most:
            found.append(observe(_MOST, self.most))
        return found if self.touched is None else [*found, observe(_TOUCHED, self.touched)]


class Pooled:
    """Runs sysbench oltp_point_select, or pgbench -S, through pgbouncer; with `mix` also writing transactions."""

    factors = (
        Factor("driver", "cluster", "client program: sysbench oltp_point_select, or pgbench -S", "sysbench",
               one_of("sysbench", "pgbench")),
        Factor("database", "cluster", "approximate size of the tables; beyond shared_buffers every buffer is "
               "touched", "256MB", size("16MB", "16TB")),
        Factor("mix", "run", "queries: point queries, or reads and writes (oltp_read_write, TPC-B)", "read",
               one_of("read", "read-write")),
        Factor("connections", "run", "persistent connections, one for each client", "16", whole_number(1, 10_000)),
        Factor("duration", "run", "length of the measured run", "10s", duration(1, 86_400)),
    )  # fmt: skip
    metrics = (*_METRICS, *watch.METRICS, *client.METRICS)

    def contents(self, levels: Levels) -> tuple[tuple[str, str], ...]:
        """The tables are those of the driver."""
        return (("workload", "pooled"), ("driver", levels["driver"]), ("database", levels["database"]))

    def programs(self, levels: Levels) -> tuple[str, ...]:
        """The pooler, and sysbench if it is the driver."""
        return ("pgbouncer", "sysbench") if levels["driver"] == "sysbench" else ("pgbouncer",)

    def fill(self, server: Server, levels: Levels, load: int = 1) -> None:
        """Runs sysbench prepare, or pgbench -i. Raises HostError without sysbench."""
        client.fill(server, levels["driver"], parse_size(levels["database"]), load)

    def database_bytes(self, levels: Levels) -> int:
        """The requested size plus the catalogs."""
        return parse_size(levels["database"]) + 16 * 1024**2

    def seconds_asked(self, levels: Levels) -> float:
        """The seconds of the duration."""
        return parse_duration(levels["duration"])

    def warm(self, server: Server, levels: Levels, seed: int) -> None:
        """Does nothing: connections touch memory in the measured run. The lab has filled shared_buffers."""

    def run(self, server: Server, levels: Levels, seed: int) -> WorkloadResult:
        """Runs the measurement. Raises HostError without pgbouncer or sysbench, OctavoError when they fail."""
        wanted = int(levels["connections"])
        group = None if levels.get("memory", "none") == "none" else server.group
        page = shared_page(levels)
        parts = _parts_of_shared_memory(server)
        others = {one.pid for one in look(server.process.pid)}
        with pooled(server, wanted) as pooler:
            before = [one for one in clients(look(server.process.pid)) if one.pid not in others]
            if len(before) < wanted:
                raise OctavoError(f"pgbouncer made {len(before)} of {wanted} connections; its pool is too small")
            predicted, most = predict(before[0], touched(before[0].pid, _REGION), parts, page)
            with watch.watched(server.process.pid, self.seconds_asked(levels), group) as seen_meanwhile:
                result = client.run(server, pooler.environment, levels, seed)
            processes = look(server.process.pid, pss=True)
            lasted = {one.pid for one in before}
            after = [one for one in clients(processes) if one.pid in lasted]
            if len(after) < wanted:
                raise OctavoError(f"only {len(after)} of {wanted} connections survived; see the server's log")
            shares = [seen.share for one in after if (seen := touched(one.pid, _REGION)) is not None]
        growth = PageTableGrowth(
            wanted,
            sum(one.tables for one in before),
            sum(one.tables for one in after),
            predicted and wanted * predicted,
            most and wanted * most,
            sum(shares) / len(shares) if shares else None,
        )
        over_time = seen_meanwhile.observations(None if group is None else cgroup.achieved_limit(group))
        observations = (*growth.observations(), *_weighed(processes), *over_time, *result.observations)
        reported = story(growth, processes) + seen_meanwhile.story()
        return replace(result, observations=observations, output=result.output + reported)


def shared_page(levels: Levels, sys: Path = Path("/sys")) -> int:
    """The bytes of a page of the cell's shared memory: of the pool, else of a transparent huge page if the kernel's
    present mode gives them (kernel Documentation/admin-guide/mm/transhuge.rst), else the CPU's own."""
    if levels.get("huge_pages", "off") != "off":
        return parse_size(levels["huge_pages"])
    mode, transparent = sys / "kernel/mm/transparent_hugepage/shmem_enabled", huge_page(sys)
    if transparent is not None and mode.exists() and chosen(mode.read_text()) in _TRANSPARENT:
        return transparent
    return mmap.PAGESIZE


def predict(
    fresh: ProcessMemory, seen: TouchedRegions | None, parts: Sequence[MemoryPart], page: int, base: int = mmap.PAGESIZE
) -> tuple[int | None, int | None]:
    """Page tables, in bytes, of a connection that touched every buffer, and of one that touched all shared memory.

    They are those of a new connection (`fresh`, which has touched `seen`), and one lowest table for each region with a
    buffer, or something that belongs to buffers, that it has not touched yet (see `hugepages.savings`). With pages as
    large as a region there are no lowest tables, and both numbers are one. None if no prediction is possible.
    """
    if seen is None or not predictable():
        return None, None
    memory = seen.end - seen.start
    whole = table_bytes(memory, page, base)
    if page >= _REGION:
        private = max(0, fresh.tables - whole)
        return private + whole, private + whole
    lowest = -(-memory // _REGION) * base
    private = max(0, fresh.tables - len(seen.regions) * base - (whole - lowest))
    buffers = [seen.within(part.offset, part.offset + part.bytes) for part in parts if part.name in _OF_BUFFERS]
    regions = seen.regions.union(*buffers)
    return private + whole - lowest + len(regions) * base, private + whole


def story(growth: PageTableGrowth, processes: Sequence[ProcessMemory]) -> str:
    """The results, as lines for the trial's log."""
    lines = [
        f"page tables of {growth.connections} connections: {human_size(growth.before)} when they were new, "
        f"{human_size(growth.after)} at the end"
    ]
    if growth.predicted:
        lines.append(f"predicted for connections that touched every buffer: {human_size(growth.predicted)}")
    if (victim := first_victim(processes)) is not None:
        lines.append(f"killed first would be a {victim.role}: {human_size(victim.weight)} of RSS, swap, page tables")
    by_pss = largest_by_role(processes, "pss")
    lines += [f"largest Pss: {role} {human_size(pss)}" for role, pss in list(by_pss.items())[:3]]
    return "\n" + "\n".join(lines) + "\n"


def _weighed(processes: Sequence[ProcessMemory]) -> list[Observation]:
    found = [observe(_WEIGHT, value, item=role) for role, value in largest_by_role(processes, "weight").items()]
    found += [observe(_PSS, value, item=role) for role, value in largest_by_role(processes, "pss").items()]
    victim = first_victim(processes)
    return found if victim is None else [*found, observe(_VICTIM, victim.weight, item=victim.role)]


def _parts_of_shared_memory(server: Server) -> list[MemoryPart]:
    """The parts of shared memory, according to PostgreSQL (pg_shmem_allocations, 13 and later)."""
    with server.connect(DATABASE) as connection:
        rows = connection.execute(
            "SELECT name, off AS offset, allocated_size AS bytes FROM pg_shmem_allocations WHERE off IS NOT NULL"
        ).fetchall()
    return [MemoryPart(str(row["name"]), int(row["offset"]), int(row["bytes"])) for row in rows]


WORKLOAD = Pooled()

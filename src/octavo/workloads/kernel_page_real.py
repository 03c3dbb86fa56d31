"""The query for scattered blocks, counted where the kernel's pages really are larger: on an emulated machine.

The table and the query are those of `kernel-page`. On this host, XFS blocks larger than the page stand in for larger
pages; an emulated machine has them. Only counts are compared: times in an emulation are meaningless.

Both sides run the query once, cold, in a session that has already planned it, so that catalog reads during planning are
not counted: they would be a larger share of a smaller table.
"""

import json
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.errors import HostError, OctavoError, UsageError
from octavo.factor import Factor, one_of, size
from octavo.host.process_table import read_table
from octavo.host.safe_read import read_text
from octavo.knobs import page_cache
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import DATABASE, Server
from octavo.units import parse_size
from octavo.workload_support.explained import Explained, checked, explain, shape
from octavo.workloads.base import Levels, WorkloadResult
from octavo.workloads.kernel_page import QUERY, amplification, device_reads, rows_of, text_bytes
from octavo.workloads.kernel_page import WORKLOAD as _SAME

if TYPE_CHECKING:
    from octavo.vm.output import Outcome

HERE = "here"
_MB = 1024**2
_SECTOR = 512  # the unit of the kernel's counters for any disk (block/stat.rst)
# Initdb, the load and the query of 50,000 rows took 110 to 200 s on 2 cores under other load.
_EMULATED_SECONDS = 150.0
_MOST_SECONDS = 3600.0
_MACHINE = "aarch64"
_PROC = Path("/proc")
_MOST_STATUS = 64 * 1024
_MACHINE_MEMORY = 1024 * _MB

_AMPLIFICATION = Metric("amplification", "read amplification (MB read per MB wanted)", "1", "lower")
_REQUEST = Metric("read_request_kb", "size of a read at the disk (rareq-sz)", "kB")
_READS = Metric("device_reads_per_run", "reads at the disk per run", "1", "lower")
_READ_MB = Metric("device_mb_per_run", "read at the disk per run", "MB", "lower")
_WANTED = Metric("wanted_mb", "blocks that a run requested from the kernel (wanted)", "MB")
_FORMULA = Metric("amplification_formula", "read amplification, by the formula", "1")
_UNIT = Metric("page_cache_kb", "unit of the page cache", "kB")
_PAGE = Metric("memory_page_kb", "memory page of the kernel", "kB")
_HUGE_PAGE = Metric("huge_page_mb", "default huge page of the kernel", "MB")
_TABLES = Metric("page_tables_kb", "page tables of the server's processes after the run (VmPTE)", "kB")

# $1 rows, $2 length of the text, $3 shared_buffers. The needed output follows marker lines of our own.
_IN_THE_MACHINE = """
set -e
start() {
    start-postgres -c shared_buffers="$1" -c effective_cache_size=4GB -c max_wal_size=4GB -c checkpoint_timeout=1h \\
        -c wal_level=minimal -c max_wal_senders=0 -c autovacuum=off
}
start "$3"
psql -qX -v ON_ERROR_STOP=1 -c "BEGIN; CREATE TABLE demo (n bigint, m int, x text) WITH (fillfactor = 10);
    ALTER TABLE demo ALTER COLUMN x SET STORAGE PLAIN; CREATE INDEX demom ON demo (m, n);
    INSERT INTO demo SELECT n, mod(n, 10), lpad('x', $2, 'x') FROM generate_series(1, $1) n; COMMIT" \\
    -c "VACUUM (FREEZE, ANALYZE)"
echo "octavo: layout"
psql -qXAt -c "SELECT count(*) - $1, count(*) FILTER (WHERE ctid <> format('(%s,1)', n - 1)::tid),
    pg_relation_size('demo') / current_setting('block_size')::int - $1 FROM demo"
su -s /bin/sh postgres -c 'pg_ctl -D /scratch/cluster -s -w -t 600 -m fast stop'
sync
echo 3 >/proc/sys/vm/drop_caches
start "$3"
echo "octavo: run"
psql -qXAt <<'END'
EXPLAIN (COSTS OFF) SELECT max(x) FROM demo WHERE m = 0;
\\echo octavo: before
\\! cat /sys/block/vdb/stat
\\echo octavo: plan
EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT max(x) FROM demo WHERE m = 0;
\\echo octavo: after
\\! cat /sys/block/vdb/stat
\\echo octavo: tables
\\! server-page-tables
END
echo "octavo: kernel"
getconf PAGESIZE
grep Hugepagesize /proc/meminfo
"""
_PARTS = ("layout", "run", "before", "plan", "after", "tables", "kernel")


@dataclass(frozen=True, slots=True)
class Counted:
    """One cold run: its plan, the block size in bytes, requests and bytes at the disk, the sizes of the kernel's page
    and of the server's page tables in bytes."""

    explained: Explained
    block: int
    reads: int
    read_bytes: int
    unit: int
    page: int
    tables: int
    huge_page: int | None = None

    def observations(self) -> tuple[Observation, ...]:
        """The trial's observations. Raises OctavoError if nothing was read, because then the run was not cold."""
        wanted = self.explained.read_blocks * self.block
        if not wanted or not self.reads:
            raise OctavoError("the query read nothing from the disk, so it was not cold")
        return (
            observe(_AMPLIFICATION, self.read_bytes / wanted),
            observe(_REQUEST, self.read_bytes / self.reads / 1024),
            observe(_READS, self.reads),
            observe(_READ_MB, self.read_bytes / _MB),
            observe(_WANTED, wanted / _MB),
            observe(_FORMULA, amplification(self.block, self.unit)),
            observe(_UNIT, self.unit / 1024),
            observe(_PAGE, self.page / 1024),
            observe(_TABLES, self.tables / 1024),
            *((observe(_HUGE_PAGE, self.huge_page / _MB),) if self.huge_page else ()),
        )


class KernelPageReal:
    """Runs the query once, cold, on this host or on an emulated machine."""

    factors = (
        Factor("table", "cluster", "size of the fragmented table, one row per block", "400000kB", size("10MB", "4GB")),
        Factor(
            "kernel", "run", "whose kernel: this host's, or an emulated one with this page (octavo vm)", HERE,
            one_of(HERE, "4kB", "16kB", "64kB"),
        ),
    )  # fmt: skip
    metrics = (
        _AMPLIFICATION, _REQUEST, _READS, _READ_MB, _WANTED, _FORMULA, _UNIT, _PAGE, _TABLES, _HUGE_PAGE,
    )  # fmt: skip

    def cannot_run(self, levels: Levels) -> str | None:
        """An emulated machine needs qemu and an image, and has Debian's PostgreSQL with its 8 kB blocks."""
        from octavo.vm import images
        from octavo.vm.kernels import MACHINES
        from octavo.vm.run import check_qemu

        if levels["kernel"] == HERE:
            return None
        if levels["data_block"] != "8kB":
            return "the emulated machine runs Debian's PostgreSQL, which has 8 kB blocks"
        try:
            check_qemu(MACHINES[_MACHINE])
            images.newest(_MACHINE, levels["kernel"])
        except HostError as error:
            return str(error)
        return None

    def contents(self, levels: Levels) -> tuple[tuple[str, str], ...]:
        """The loads of `kernel-page`."""
        return _SAME.contents(levels)

    def fill(self, server: Server, levels: Levels, load: int = 1) -> None:
        """The same as `kernel-page`. An emulated machine makes the same table itself, in each trial."""
        _SAME.fill(server, levels, load)

    def database_bytes(self, levels: Levels) -> int:
        """The same as `kernel-page`."""
        return _SAME.database_bytes(levels)

    def seconds_asked(self, levels: Levels) -> float:
        """The time of a cold run, which is not known in advance. An emulated machine boots, loads and runs."""
        return 2.0 if levels["kernel"] == HERE else _EMULATED_SECONDS

    def warm(self, server: Server, levels: Levels, seed: int) -> None:
        """Nothing is warmed up. Raises UsageError: a plan of this workload is cold."""
        raise UsageError('workload kernel-page-real counts a cold run; write cache = "cold"')

    def run(self, server: Server, levels: Levels, seed: int) -> WorkloadResult:
        """Measures one cold run. Raises HostError without an image or qemu, OctavoError when there is nothing to
        count."""
        if levels["cache"] != "cold":
            self.warm(server, levels, seed)
        began, cpu = time.monotonic(), time.thread_time()
        counted = _here(server, levels) if levels["kernel"] == HERE else _emulated(server, levels)
        return WorkloadResult(
            observations=counted.observations(),
            seconds=time.monotonic() - began,
            transactions=1,
            client_cpu_seconds=time.thread_time() - cpu,
            output=json.dumps(counted.explained.plan, indent=1) + "\n",
            facts={"plans": {QUERY: shape(counted.explained.plan)}},
        )


def _here(server: Server, levels: Levels) -> Counted:
    with server.connect(DATABASE) as connection:
        connection.execute(f"EXPLAIN {QUERY}".encode())
        before = device_reads(server.directory)
        explained = explain(connection, QUERY)
        after = device_reads(server.directory)
        tables = _page_tables(server.process.pid)
    if before is None or after is None:
        raise OctavoError("the device under the data directory has no read counters; use another filesystem")
    return Counted(
        explained,
        parse_size(levels["data_block"]),
        after[0] - before[0],
        after[1] - before[1],
        page_cache.granularity(server.directory),
        page_cache.memory_page(),
        tables,
    )


def _page_tables(postmaster: int) -> int:
    """The bytes of page tables of the server's remaining processes (VmPTE, proc_pid_status(5))."""
    found = 0
    for process in read_table(_PROC).values():
        if postmaster in (process.pid, process.parent):
            with suppress(OSError, ValueError):
                status = read_text(_PROC / str(process.pid) / "status", _MOST_STATUS)
                match = re.search(r"^VmPTE:\s+([0-9]{1,12}) kB$", status, re.MULTILINE)
                found += int(match[1]) * 1024 if match else 0
    return found


def _emulated(server: Server, levels: Levels) -> Counted:
    from octavo.vm import images
    from octavo.vm.machine import Limits
    from octavo.vm.run import run

    disk = 2 * _SAME.database_bytes(levels) + 1024 * _MB
    arguments = [
        "sh", "-c", _IN_THE_MACHINE, "sh", str(rows_of(levels)), str(text_bytes(8192)), levels["shared_buffers"],
    ]  # fmt: skip
    limits = Limits(_MACHINE_MEMORY, disk, 2, _MOST_SECONDS)
    return read(run(images.newest(_MACHINE, levels["kernel"]), arguments, server.journal, limits), 8192)


def read(outcome: "Outcome", block: int) -> Counted:
    """Parses the counts of the machine's script. Raises OctavoError if it failed or its output is different."""
    if outcome.returncode != 0:
        last = outcome.text.strip().rpartition("\n")[2][:300]
        raise OctavoError(f"the query failed in the machine (exit {outcome.returncode}): {last or 'no output'}")
    pieces = re.split(r"^octavo: ([a-z]{1,10})$", outcome.text, flags=re.MULTILINE)
    parts = dict(zip(pieces[1::2], pieces[2::2], strict=False))
    if tuple(parts) != _PARTS:
        raise OctavoError(f"the machine wrote other parts than {', '.join(_PARTS)}: {', '.join(parts)}")
    if parts["layout"].strip() != "0|0|0":
        raise OctavoError("the emulated machine's table does not have one row per block in the order of the rows")
    before, after = _disk(parts["before"]), _disk(parts["after"])
    kernel = re.fullmatch(r"\s*([0-9]{4,6})\s+Hugepagesize:\s+([0-9]{3,8}) kB\s*", parts["kernel"])
    if kernel is None:
        raise OctavoError("the emulated machine's output has no page size")
    tables = re.fullmatch(r"\s*([0-9]{1,12}) [0-9]{1,6}\s*", parts["tables"])
    if tables is None:
        raise OctavoError("the emulated machine's output has no page tables")
    page = int(kernel[1])
    return Counted(
        _explained(parts["plan"]), block, after[0] - before[0], after[1] - before[1], page, page,
        int(tables[1]) * 1024, int(kernel[2]) * 1024,
    )  # fmt: skip


def _disk(text: str) -> tuple[int, int]:
    """The requests and bytes read from a disk (Documentation/block/stat.rst)."""
    match = re.match(r"\s*([0-9]{1,15})\s+[0-9]{1,15}\s+([0-9]{1,15})\s", text)
    if match is None:
        raise OctavoError("the emulated machine's output has no disk counters")
    return int(match[1]), int(match[2]) * _SECTOR


def _explained(text: str) -> Explained:
    try:
        found: Any = json.loads(text)
        one = found[0]
        return Explained(checked(one["Plan"]), float(one["Planning Time"]), float(one["Execution Time"]))
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise OctavoError(f"the machine's EXPLAIN is not in the form that is known: {type(error).__name__}") from None


WORKLOAD = KernelPageReal()

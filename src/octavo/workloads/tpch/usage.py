"""CPU and device use of a query, or of a step of the load, while it ran."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from octavo.host.process_table import read_table, tree
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import Server

_NS = 1e-9

CPU = Metric("server_cpu_seconds", "CPU of the server's processes", "seconds")
CPU_SHARE = Metric(
    "server_cpu_share", "CPU of the server's processes, share of the CPUs that the query or step could use", "fraction"
)
CPU_WAIT_SHARE = Metric(
    "server_cpu_wait_share", "time that these processes waited for a CPU, share as in server_cpu_share", "fraction"
)
READS = Metric("query_device_reads", "reads at the device", "1")
READ_BYTES = Metric("query_device_read_bytes", "read at the device", "bytes")
WRITES = Metric("query_device_writes", "writes at the device", "1")
WRITTEN_BYTES = Metric("query_device_written_bytes", "written at the device", "bytes")
BUSY = Metric("query_device_busy_share", "share of the time with a request in flight at the device", "fraction")
QUEUE = Metric("query_device_queue", "requests in flight at the device while it was busy", "1")
METRICS = (CPU, CPU_SHARE, CPU_WAIT_SHARE, READS, READ_BYTES, WRITES, WRITTEN_BYTES, BUSY, QUEUE)


# The numbers of server processes that worked at the same time, each with the seconds in which it was that many.
Processes = Sequence[tuple[int, float]]
ONE: Processes = ((1, 1.0),)


@dataclass(frozen=True, slots=True)
class UsageSnapshot:
    """Counters at one time: the seconds that the server's processes ran on a processor and waited for one, and the
    device's counters, None without a device. `processors`: how many the server may use."""

    at: float
    cpu: float
    waited: float
    device: tuple[int, ...] | None
    processors: int = 1


@dataclass(frozen=True, slots=True)
class QueryUsage:
    """The use in `seconds`: CPU seconds of the server's processes, and their wait for a processor; the growth of the
    device's counters, None without a device; the number of processors that the server could use."""

    seconds: float
    cpu: float
    waited: float
    device: tuple[int, ...] | None
    processors: int = 1


def snapshot(server: Server) -> UsageSnapshot:
    """Takes a snapshot. Ended processes count with their parent, in ticks of the kernel (usually 1/100 s)."""
    used, waited = (sum(each) for each in zip((0.0, 0.0), *_cpu(server.process.pid), strict=True))
    processors = len(os.sched_getaffinity(server.process.pid))
    return UsageSnapshot(time.perf_counter(), used, waited, device_counters(server), processors)


def between(before: UsageSnapshot, after: UsageSnapshot) -> QueryUsage:
    """The use between two snapshots."""
    return QueryUsage(
        after.at - before.at, max(0.0, after.cpu - before.cpu), max(0.0, after.waited - before.waited),
        grown(before.device, after.device), after.processors,
    )  # fmt: skip


def grown(before: tuple[int, ...] | None, after: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The growth of the device's counters; None if it has none."""
    if before is None or after is None:
        return None
    return tuple(late - early for early, late in zip(before, after, strict=True))


def added(device: tuple[int, ...] | None, part: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The growth of the counters including one more part; between parts the device serves others."""
    return device if part is None else tuple(map(sum, zip(device or (0,) * len(part), part, strict=True)))


def read_bytes_of(device: tuple[int, ...]) -> int:
    """The bytes read, of a device's counters or their growth."""
    return device[1]


def processors_for(processes: Processes, most: int) -> float:
    """The mean number of processors that so many processes could use of the `most` that there are.

    >>> processors_for([(3, 6.0), (1, 2.0)], 2), processors_for([(3, 6.0), (1, 2.0)], 8)
    (1.75, 2.5)
    """
    seconds = sum(each for _, each in processes)
    return sum(min(count, most) * each for count, each in processes) / seconds if seconds > 0 else 1.0


def observations(
    used: QueryUsage, item: str, repetition: int, *, processes: Processes | None = ONE
) -> list[Observation]:
    """The use as the trial's observations, without shares of the CPU if the processes are unknown (None)."""
    found = {CPU: used.cpu}
    if used.seconds > 0 and processes is not None:
        # The checkpointer and others work beside these processes, so that the sum may be a little more than all.
        available = used.seconds * processors_for(processes, used.processors)
        found[CPU_SHARE] = min(1.0, used.cpu / available)
        found[CPU_WAIT_SHARE] = min(1.0, used.waited / available)
    if used.seconds > 0 and used.device is not None:
        reads, read, writes, written, busy, weighted = map(float, used.device)
        found |= {READS: reads, READ_BYTES: read, WRITES: writes, WRITTEN_BYTES: written}
        found[BUSY] = min(1.0, busy / 1000 / used.seconds)
        if busy > 0:
            found[QUEUE] = weighted / busy
    return [observe(metric, value, item=item, repetition=repetition) for metric, value in found.items()]


def _cpu(postmaster: int) -> Iterator[tuple[float, float]]:
    table = read_table()
    for pid in tree(postmaster, table):
        process = table[pid]
        yield process.reaped_cpu, 0.0
        try:
            # Nanoseconds on a processor, and waiting for one (Documentation/scheduler/sched-stats.rst).
            ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_bytes().split()
            yield int(ran) * _NS, int(waited) * _NS
        except (OSError, ValueError):
            yield process.cpu, 0.0


def device_counters(server: Server) -> tuple[int, ...] | None:
    """The counters of the device below the data directory: reads and bytes, writes and bytes, milliseconds that it was
    busy, and those of all its requests. None without a device."""
    from octavo._core import device_statistics

    try:
        now = device_statistics(str(server.directory))
    except (LookupError, OSError, ValueError):
        return None
    return (
        now.reads, now.read_bytes, now.writes, now.written_bytes, now.io_milliseconds, now.weighted_io_milliseconds,
    )  # fmt: skip

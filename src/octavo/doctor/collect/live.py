"""Activity of disk, memory and server over a few seconds: the difference of two readings.

Sources: kernel Documentation/admin-guide/iostats.rst and block/stat.rst, proc_pid_io(5), proc_vmstat(5), PostgreSQL's
pg_stat_io, pg_stat_database and pg_stat_progress_basebackup.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path

from octavo.doctor.facts import Fact
from octavo.host.diskstats import DiskTotals, read_diskstats
from octavo.host.process_table import child_pids, read_process


@dataclass(frozen=True, slots=True)
class ServerCounters:
    """The server's requests to the kernel since its statistics were reset.

    Requests for blocks and their bytes, those of large scans, blocks written by the checkpointer, bytes of temporary
    files; the number of running base backups, and the age of the oldest transaction with an active statement, which
    reports its reads only when it ends; the checkpointer's pid. None if the version does not count it, or the user may
    not see it.
    """

    reads: int
    read_bytes: int
    scan_bytes: int | None = None
    checkpoint_bytes: int | None = None
    temporary_bytes: int | None = None
    base_backups: int | None = None
    oldest_active_seconds: float | None = None
    checkpointer: int | None = None


Reads = Callable[[], ServerCounters | None]
_NONE: Mapping[int, str | None] = {}


@dataclass(frozen=True, slots=True)
class LiveCounters:
    """Counters at one moment; None if not available. `disks` are all disks, by name."""

    at: float
    disk: DiskTotals | None
    swapped_pages: int | None
    asked: ServerCounters | None
    fetched_bytes: int | None
    checkpointer_dirtied: int | None = None
    disks: Mapping[str, DiskTotals] = field(default_factory=dict[str, DiskTotals])


def take(device: str | None, postmaster: int | None, asked: Reads, proc: Path = Path("/proc")) -> LiveCounters:
    """Takes one reading. The counters that are most expensive to read come last."""
    at, disks, swapped = time.monotonic(), read_diskstats(proc), _swapped(proc)
    server = asked()
    here = postmaster is not None
    return LiveCounters(
        at, disks.get(device) if device else None, swapped, server,
        _fetched(postmaster, proc) if postmaster is not None else None,
        _dirtied(server.checkpointer, proc) if here and server and server.checkpointer else None,
        disks,
    )  # fmt: skip


def live_facts(
    before: LiveCounters,
    after: LiveCounters,
    device: str | None,
    others: Mapping[int, str | None] = _NONE,
    elsewhere: str = "",
) -> list[Fact]:
    """The rates between the two readings. `others`: the disks of other volumes, by number. `elsewhere`: why none of
    this host's counters belong to the server, if that is the case."""
    seconds = max(after.at - before.at, 1e-9)
    found = [Fact("live.seconds", seconds, "between two readings")]
    if elsewhere:
        names = (
            "live.device.", "live.swapped_pages_per_second", "live.server.fetched_bytes_per_second",
            "live.server.checkpoint_dirtied_bytes_per_second",
        )  # fmt: skip
        of_server = _of_server(before.asked, after.asked, seconds)
        return [*found, *of_server, *(Fact(name, unknown=elsewhere) for name in names)]
    for number, name in others.items():
        where = f"volume.{number}.live.device."
        if name is None or name not in before.disks or name not in after.disks:
            found.append(Fact(where, unknown="the volume's disk is not counted here"))
            continue
        found += _of_disk(where, name, after.disks[name].since(before.disks[name]), seconds)
    if before.disk is None or after.disk is None:
        found.append(Fact("live.device.", unknown="the data directory's disk is not counted here"))
    else:
        found += _of_disk("live.device.", device, after.disk.since(before.disk), seconds)
    if before.swapped_pages is None or after.swapped_pages is None:
        found.append(Fact("live.swapped_pages_per_second", unknown="/proc/vmstat cannot be read"))
    else:
        rate = (after.swapped_pages - before.swapped_pages) / seconds
        found.append(Fact("live.swapped_pages_per_second", rate, "/proc/vmstat: pswpin, pswpout"))
    found += _of_server(before.asked, after.asked, seconds)
    if before.fetched_bytes is None or after.fetched_bytes is None:
        found.append(
            Fact(
                "live.server.fetched_bytes_per_second", unknown="only the server's user and root may read /proc/PID/io"
            )
        )
    else:
        rate = max(0, after.fetched_bytes - before.fetched_bytes) / seconds
        found.append(Fact("live.server.fetched_bytes_per_second", rate, "/proc/PID/io of the server: read_bytes"))
    name = "live.server.checkpoint_dirtied_bytes_per_second"
    if before.checkpointer_dirtied is None or after.checkpointer_dirtied is None:
        return [*found, Fact(name, unknown="only the server's user and root may read /proc/PID/io of the checkpointer")]
    rate = max(0, after.checkpointer_dirtied - before.checkpointer_dirtied) / seconds
    return [*found, Fact(name, rate, "/proc/PID/io of the checkpointer: write_bytes")]


def _of_disk(where: str, device: str | None, disk: DiskTotals, seconds: float) -> list[Fact]:
    file = f"/proc/diskstats: {device}, over {seconds:.1f} s"
    busy = min(1.0, max(0, disk.busy_ms) / 1000 / seconds)
    return [
        Fact(f"{where}reads_per_second", disk.reads / seconds, file),
        Fact(f"{where}read_bytes_per_second", disk.read_bytes / seconds, file),
        Fact(f"{where}writes_per_second", disk.writes / seconds, file),
        Fact(f"{where}written_bytes_per_second", disk.written_bytes / seconds, file),
        Fact(f"{where}busy_share", busy, f"/proc/diskstats: io_ticks of {device}"),
    ]


def _dirtied(pid: int, proc: Path) -> int | None:
    """The bytes of page cache that a process of the server has dirtied."""
    try:
        process = read_process(pid, proc, storage=True)
    except (OSError, ValueError):
        return None
    return process.written_bytes if process is not None and process.is_postgres else None


def _of_server(before: ServerCounters | None, after: ServerCounters | None, seconds: float) -> list[Fact]:
    if before is None or after is None:
        return [Fact("live.server.", unknown="the server did not report what it read")]
    view = f"pg_stat_io (before 16 pg_stat_database), over {seconds:.1f} s"
    names = ("reads", "read_bytes", "scan_bytes", "checkpoint_bytes", "temporary_bytes")
    found: list[Fact] = []
    for name, then, now in zip(names, astuple(before), astuple(after), strict=False):
        fact = f"live.server.{name}_per_second"
        found.append(
            Fact(fact, absent="this version does not count it")
            if then is None or now is None
            else Fact(fact, max(0, now - then) / seconds, view)
        )
    backups = max(before.base_backups or 0, after.base_backups or 0)
    found.append(Fact("live.server.base_backups", backups, "pg_stat_progress_basebackup"))
    name = "live.server.long_transactions"
    if after.oldest_active_seconds is None:
        return [*found, Fact(name, unknown="needs pg_read_all_stats: GRANT pg_monitor TO this user")]
    return [
        *found,
        Fact(name, after.oldest_active_seconds > seconds, "pg_stat_activity: xact_start of active sessions"),
    ]


def _swapped(proc: Path) -> int | None:
    try:
        counters = dict(line.split() for line in (proc / "vmstat").read_text().splitlines())
        return int(counters["pswpin"]) + int(counters["pswpout"])
    except (OSError, ValueError, KeyError):
        return None


def _fetched(postmaster: int, proc: Path) -> int | None:
    """The bytes that the server's processes fetched from storage, including ended ones (counted in the postmaster)."""
    total = 0
    for pid in (postmaster, *child_pids(postmaster, proc)):
        try:
            process = read_process(pid, proc, storage=True)
        except (OSError, ValueError):
            return None
        if process is None:
            continue
        if process.read_bytes is None:
            return None
        total += process.read_bytes
    return total

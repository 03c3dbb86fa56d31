"""What disk, memory and server did over a few seconds: two readings, and the difference.

Sources: kernel Documentation/admin-guide/iostats.rst, proc_pid_io(5), proc_vmstat(5), PostgreSQL's pg_stat_io.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from octavo.doctor.facts import Fact
from octavo.host.process_table import read_process
from octavo.instruments.processes import child_pids
from octavo.iotop.diskstats import DiskTotals, read_diskstats

Reads = Callable[[], tuple[int, int] | None]


@dataclass(frozen=True, slots=True)
class LiveCounters:
    """Counters of one moment; None where they cannot be had."""

    at: float
    disk: DiskTotals | None
    swapped_pages: int | None
    asked: tuple[int, int] | None
    fetched_bytes: int | None


def take(device: str | None, postmaster: int | None, asked: Reads, proc: Path = Path("/proc")) -> LiveCounters:
    """One reading; the counters that cost most to read come last."""
    return LiveCounters(
        time.monotonic(),
        read_diskstats(proc).get(device) if device else None,
        _swapped(proc),
        asked(),
        _fetched(postmaster, proc) if postmaster is not None else None,
    )


def live_facts(before: LiveCounters, after: LiveCounters, device: str | None) -> list[Fact]:
    """Rates between the two."""
    seconds = max(after.at - before.at, 1e-9)
    found = [Fact("live.seconds", seconds, "between two readings")]
    if before.disk is None or after.disk is None:
        found.append(Fact("live.device.", unknown="the data directory's disk is not counted here"))
    else:
        disk, file = after.disk.since(before.disk), f"/proc/diskstats: {device}, over {seconds:.1f} s"
        found += [
            Fact("live.device.reads_per_second", disk.reads / seconds, file),
            Fact("live.device.read_bytes_per_second", disk.read_bytes / seconds, file),
            Fact("live.device.writes_per_second", disk.writes / seconds, file),
            Fact("live.device.written_bytes_per_second", disk.written_bytes / seconds, file),
        ]
    if before.swapped_pages is None or after.swapped_pages is None:
        found.append(Fact("live.swapped_pages_per_second", unknown="/proc/vmstat cannot be read"))
    else:
        rate = (after.swapped_pages - before.swapped_pages) / seconds
        found.append(Fact("live.swapped_pages_per_second", rate, "/proc/vmstat: pswpin, pswpout"))
    if before.asked is None or after.asked is None:
        found.append(Fact("live.server.", unknown="the server did not say what it read"))
    else:
        view = f"pg_stat_io (before 16 pg_stat_database), over {seconds:.1f} s"
        for name, then, now in zip(("reads", "read_bytes"), before.asked, after.asked, strict=True):
            found.append(Fact(f"live.server.{name}_per_second", max(0, now - then) / seconds, view))
    if before.fetched_bytes is None or after.fetched_bytes is None:
        found.append(
            Fact("live.server.fetched_bytes_per_second", unknown="/proc/PID/io is for the server's user and root")
        )
    else:
        rate = max(0, after.fetched_bytes - before.fetched_bytes) / seconds
        found.append(Fact("live.server.fetched_bytes_per_second", rate, "/proc/PID/io of the server: read_bytes"))
    return found


def _swapped(proc: Path) -> int | None:
    try:
        counters = dict(line.split() for line in (proc / "vmstat").read_text().splitlines())
        return int(counters["pswpin"]) + int(counters["pswpout"])
    except (OSError, ValueError, KeyError):
        return None


def _fetched(postmaster: int, proc: Path) -> int | None:
    """Bytes that the server's processes had fetched from storage, the ended ones included (in the postmaster's)."""
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

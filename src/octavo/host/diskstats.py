"""The counters of each disk for all processes, from /proc/diskstats (kernel Documentation/admin-guide/iostats.rst)."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SECTOR = 512  # the unit of the file, whatever the disk's own is
_BUSY_WRAPS = 2**32  # ms, 49.7 days: an unsigned int (kernel block/genhd.c, jiffies_to_msecs)


@dataclass(frozen=True, slots=True)
class DiskTotals:
    """Requests that ended, and their bytes. Discards are None before Linux 4.18. `busy_ms`: the milliseconds with a
    request in flight (io_ticks)."""

    reads: int
    read_bytes: int
    writes: int
    written_bytes: int
    discards: int | None = None
    discarded_bytes: int | None = None
    busy_ms: int = 0

    def since(self, before: "DiskTotals") -> "DiskTotals":
        """The difference; counters that were reset (a removed disk) count from zero."""
        if self.reads < before.reads or self.writes < before.writes:
            return self
        return DiskTotals(
            self.reads - before.reads,
            self.read_bytes - before.read_bytes,
            self.writes - before.writes,
            self.written_bytes - before.written_bytes,
            None if self.discards is None or before.discards is None else self.discards - before.discards,
            None
            if self.discarded_bytes is None or before.discarded_bytes is None
            else self.discarded_bytes - before.discarded_bytes,
            (self.busy_ms - before.busy_ms) % _BUSY_WRAPS,
        )


def rows_of(text: str) -> Iterator[tuple[str, str, DiskTotals]]:
    """Number (`254:0`), name and counters of each disk and partition; a line that is shorter than the format's first
    version is left out."""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 14:
            continue
        numbers = [int(field) for field in fields[3:]]
        discards = (numbers[11], numbers[13] * _SECTOR) if len(numbers) > 13 else (None, None)
        totals = DiskTotals(
            numbers[0], numbers[2] * _SECTOR, numbers[4], numbers[6] * _SECTOR, *discards, busy_ms=numbers[9]
        )
        yield f"{fields[0]}:{fields[1]}", fields[2], totals


def parse_diskstats(text: str) -> dict[str, DiskTotals]:
    """Disks and partitions by name.

    >>> found = parse_diskstats("254 0 vda 5 1 80 9 2 0 16 3 0 4 12 1 0 8 0")["vda"]
    >>> found.reads, found.read_bytes, found.writes, found.written_bytes, found.busy_ms, found.discarded_bytes
    (5, 40960, 2, 8192, 4, 4096)
    """
    return {name: totals for _, name, totals in rows_of(text)}


def read_diskstats(proc: Path = Path("/proc")) -> dict[str, DiskTotals]:
    """All disks and partitions now; none where the kernel does not tell."""
    try:
        return parse_diskstats((proc / "diskstats").read_text())
    except OSError:
        return {}


def totals_of(number: int, proc: Path = Path("/proc")) -> DiskTotals | None:
    """The counters of the disk or partition with this number (st_dev); None if there is none, or it is not told."""
    wanted = f"{os.major(number)}:{os.minor(number)}"
    try:
        rows = list(rows_of((proc / "diskstats").read_text()))
    except OSError:
        return None
    return next((totals for found, _, totals in rows if found == wanted), None)

"""The counters of each disk for all processes, from /proc/diskstats (kernel Documentation/admin-guide/iostats.rst)."""

from dataclasses import dataclass
from pathlib import Path

_SECTOR = 512  # the unit of the file, whatever the disk's own is


@dataclass(frozen=True, slots=True)
class DiskTotals:
    """Requests that ended, and their bytes. Discards are None before Linux 4.18."""

    reads: int
    read_bytes: int
    writes: int
    written_bytes: int
    discards: int | None = None
    discarded_bytes: int | None = None

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
        )


def parse_diskstats(text: str) -> dict[str, DiskTotals]:
    """Disks and partitions by name; a line that is shorter than the format's first version is left out.

    >>> parse_diskstats("254 0 vda 5 1 80 9 2 0 16 3 0 4 12 1 0 8 0")["vda"]
    DiskTotals(reads=5, read_bytes=40960, writes=2, written_bytes=8192, discards=1, discarded_bytes=4096)
    """
    found: dict[str, DiskTotals] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 14:
            continue
        numbers = [int(field) for field in fields[3:]]
        discards = (numbers[11], numbers[13] * _SECTOR) if len(numbers) > 13 else (None, None)
        found[fields[2]] = DiskTotals(numbers[0], numbers[2] * _SECTOR, numbers[4], numbers[6] * _SECTOR, *discards)
    return found


def read_diskstats(proc: Path = Path("/proc")) -> dict[str, DiskTotals]:
    """All disks and partitions now; none where the kernel does not tell."""
    try:
        return parse_diskstats((proc / "diskstats").read_text())
    except OSError:
        return {}

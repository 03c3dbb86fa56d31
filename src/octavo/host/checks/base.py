"""The input and the result of a check of the host."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from octavo.host.cpu_times import CpuTimes, cpu_times
from octavo.host.diskstats import totals_of
from octavo.host.process_table import Table, growth, read_table

# Seconds after which a first reading is not used: what was done meanwhile took long, and is not what others do now.
_OLDEST = 30.0
Severity = Literal["disturbs", "note", "fine", "unknown"]


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """The result of a check. `why` it matters and what to do (`fix`) are set if something was found.

    `disturbs`: measurements here suffer now. `note`: worth knowing. `fine`: nothing. `unknown`: cannot be determined
    here, and `found` says why.
    """

    check: str
    severity: Severity
    found: str
    why: str = ""
    fix: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """In one line, as a run's notice and a report's limit have it."""
        rest = "; ".join(part for part in (self.why, f"to do: {self.fix}" if self.fix else "") if part)
        return f"{self.check}: {self.found}{f'; {rest}' if rest else ''}"


class CheckImpossibleError(Exception):
    """A check cannot be made on this host; the reason is the message."""


@dataclass(frozen=True, slots=True)
class HostCounters:
    """Counters of one moment. Device traffic is None where the directory's filesystem has no device; `own_reads` are
    the bytes that this process and its ended children had read from devices."""

    at: float
    cpu: CpuTimes
    processes: Table
    swapped_pages: int | None
    device_bytes: int | None
    own_reads: int = 0


@dataclass(frozen=True, slots=True)
class Host:
    """The host as the checks see it: its trees, the place of the data, and two readings a moment apart."""

    proc: Path
    sys: Path
    directory: Path
    before: HostCounters
    after: HostCounters

    @property
    def seconds(self) -> float:
        """Between the two readings."""
        return self.after.at - self.before.at

    @property
    def cpu(self) -> CpuTimes:
        """The CPU times between the two readings."""
        return self.after.cpu.since(self.before.cpu)

    def cpu_shares(self) -> dict[int, float]:
        """The share of the machine's CPU time that each living process took, by pid, ended children included."""
        used = growth(self.before.processes, self.after.processes, lambda process: process.all_cpu)
        cpu = self.cpu
        return {pid: cpu.share(seconds) for pid, seconds in used.items()}


Check = Callable[[Host], CheckFinding]


def observe_host(directory: Path, seconds: float, proc: Path, sys: Path, since: HostCounters | None = None) -> Host:
    """Reads the counters twice, at least so many seconds apart; `since` is the first reading, if a recent one
    exists."""
    before = since
    if before is None or time.monotonic() - before.at > _OLDEST:
        before = counters_now(directory, proc)
    if (left := before.at + seconds - time.monotonic()) > 0:
        time.sleep(left)
    return Host(proc, sys, directory, before, counters_now(directory, proc))


def read_text(path: Path) -> str:
    """The file's text without its end of line. Raises CheckImpossibleError if it does not exist or may not be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError as error:
        raise CheckImpossibleError(f"{path}: {error.strerror}") from error


def counters_now(directory: Path, proc: Path = Path("/proc")) -> HostCounters:
    """The counters, with those of the device below the directory, which exists."""
    return HostCounters(
        time.monotonic(), cpu_times(proc), read_table(proc), _swapped(proc), _traffic(proc, directory), _own_reads(proc)
    )


def _swapped(proc: Path) -> int | None:
    """Pages that were swapped in or out since boot (/proc/vmstat)."""
    try:
        counters = dict(line.split() for line in (proc / "vmstat").read_text().splitlines())
    except OSError:
        return None
    return int(counters.get("pswpin", 0)) + int(counters.get("pswpout", 0))


def _traffic(proc: Path, directory: Path) -> int | None:
    """Bytes read and written at the device under the directory (/proc/diskstats)."""
    totals = totals_of(directory.stat().st_dev, proc)
    return None if totals is None else totals.read_bytes + totals.written_bytes


def _own_reads(proc: Path) -> int:
    """Of proc_pid_io(5); 0 where the kernel does not count it."""
    try:
        lines = (proc / "self" / "io").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.removeprefix("read_bytes: ")) for line in lines if line.startswith("read_bytes: "))

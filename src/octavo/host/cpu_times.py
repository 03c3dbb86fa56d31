"""The machine's CPU times: the first line of /proc/stat (proc_stat(5))."""

import os
from dataclasses import astuple, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds of all CPUs together, since boot or between two readings, in the order of /proc/stat."""

    user: float
    nice: float
    system: float
    idle: float
    iowait: float
    irq: float
    softirq: float
    steal: float

    def since(self, earlier: "CpuTimes") -> "CpuTimes":
        """The difference to an earlier reading."""
        return CpuTimes(*(now - then for now, then in zip(astuple(self), astuple(earlier), strict=True)))

    @property
    def total(self) -> float:
        """The total: the number of CPUs times the elapsed time."""
        return sum(astuple(self))

    @property
    def in_tasks(self) -> float:
        """Spent in processes and kernel threads, interrupts left out."""
        return self.user + self.nice + self.system

    @property
    def busy(self) -> float:
        """Spent in processes, kernel threads and interrupts."""
        return self.in_tasks + self.irq + self.softirq

    def share(self, seconds: float) -> float:
        """These seconds as a share of the whole; 0 of nothing."""
        return seconds / self.total if self.total else 0.0


def cpu_times(proc: Path = Path("/proc")) -> CpuTimes:
    """The times since boot. Raises ValueError when the kernel's text is of another form than it has."""
    fields = (proc / "stat").read_bytes().split(b"\n", 1)[0].split()[1:9]
    if len(fields) < 8:
        raise ValueError(f"{proc / 'stat'} has {len(fields)} CPU times")
    ticks_per_second = os.sysconf("SC_CLK_TCK")
    return CpuTimes(*(float(field) / ticks_per_second for field in fields))

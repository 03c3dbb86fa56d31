"""CPU time that others used during a slice: the hypervisor, and foreign processes."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from octavo.host.cpu_times import CpuTimes, cpu_times
from octavo.host.process_table import cpu_in, read_process, read_table, tree

_PROC = Path("/proc")
# A process may usually have 1,024 open files.
_MOST_FILES = 400
_LONGEST_STAT = 4096


@dataclass(frozen=True, slots=True)
class CpuSnapshot:
    """The machine's CPU times, and the CPU seconds of foreign processes by pid."""

    machine: CpuTimes
    foreign: dict[int, float]


@dataclass(slots=True)
class CpuMeter:
    """Reads both in a few milliseconds, while all our cells are paused. A context manager: the files of foreign
    processes stay open, because opening one takes several times as long as reading it.

    Kernel threads count as ours, as in other trials, because they often write back our own pages.
    """

    root: int = field(default_factory=os.getpid)
    proc: Path = _PROC
    _foreign: dict[int, bool] = field(default_factory=dict[int, bool])
    _files: dict[int, int] = field(default_factory=dict[int, int])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in list(self._files):
            self._close(pid)

    def read(self) -> CpuSnapshot:
        """Takes a reading."""
        pids = {int(entry.name) for entry in os.scandir(self.proc) if entry.name.isdecimal()}
        if not self._only_kernel_threads(pids - self._foreign.keys()):
            table = read_table(self.proc)
            ours = tree(self.root, table)
            self._foreign = {pid: pid not in ours and not one.kernel for pid, one in table.items()}
        # A table that was just read no longer has those that have ended since.
        for pid in (self._foreign.keys() | self._files.keys()) - pids:
            self._foreign.pop(pid, None)
            self._close(pid)
        used = ((pid, self._cpu_of(pid)) for pid in pids if self._foreign.get(pid))
        return CpuSnapshot(cpu_times(self.proc), {pid: cpu for pid, cpu in used if cpu is not None})

    def _only_kernel_threads(self, new: set[int]) -> bool:
        """Whether the new processes are all the kernel's, as khugepaged is, which may be a new one in every slice: to
        find that out takes no table of all processes."""
        for pid in new:
            if (process := read_process(pid, self.proc)) is None:  # it has ended, or is hidden
                continue
            if not process.kernel:
                return False
            self._foreign[pid] = False
        return True

    def _cpu_of(self, pid: int) -> float | None:
        """The CPU seconds of a process, None if it has ended. A process that has reused its pid is read from the next
        time on."""
        try:
            if len(self._files) >= _MOST_FILES and pid not in self._files:
                return cpu_in((self.proc / str(pid) / "stat").read_bytes())
            if pid not in self._files:
                self._files[pid] = os.open(self.proc / str(pid) / "stat", os.O_RDONLY)
            return cpu_in(os.pread(self._files[pid], _LONGEST_STAT, 0))
        except (FileNotFoundError, ProcessLookupError):
            self._close(pid)
            return None

    def _close(self, pid: int) -> None:
        if (file := self._files.pop(pid, None)) is not None:
            os.close(file)

    @staticmethod
    def shares(before: CpuSnapshot, after: CpuSnapshot) -> tuple[float, float]:
        """Steal and foreign CPU between two moments, as shares of the machine's time.

        A process that started in between counts with all of its time, one that ended with none.
        """
        machine = after.machine.since(before.machine)
        foreign = sum(used - before.foreign.get(pid, 0.0) for pid, used in after.foreign.items())
        return machine.share(machine.steal), machine.share(foreign)

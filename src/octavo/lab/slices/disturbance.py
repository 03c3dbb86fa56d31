"""What others took of the CPU in a slice: the hypervisor, and processes that are not ours."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from octavo.host.cpu_times import CpuTimes, cpu_times
from octavo.host.process_table import read_process, read_table, tree

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class CpuSnapshot:
    """The machine's CPU times, and the CPU seconds of foreign processes by pid."""

    machine: CpuTimes
    foreign: dict[int, float]


@dataclass(slots=True)
class CpuMeter:
    """Reads both in a millisecond or two, while everything of ours stands still.

    Threads of the kernel count as ours, as they do for trials: what they write back is as often as not our doing.
    """

    root: int = field(default_factory=os.getpid)
    proc: Path = _PROC
    _foreign: dict[int, bool] = field(default_factory=dict[int, bool])

    def read(self) -> CpuSnapshot:
        """Now."""
        pids = {int(entry.name) for entry in os.scandir(self.proc) if entry.name.isdecimal()}
        if pids - self._foreign.keys():
            table = read_table(self.proc)
            ours = tree(self.root, table)
            self._foreign = {pid: pid not in ours and not one.kernel for pid, one in table.items()}
        seen = (read_process(pid, self.proc) for pid in pids if self._foreign.get(pid))
        return CpuSnapshot(cpu_times(self.proc), {one.pid: one.cpu for one in seen if one is not None})

    @staticmethod
    def shares(before: CpuSnapshot, after: CpuSnapshot) -> tuple[float, float]:
        """Steal and foreign CPU between two moments, as shares of the machine's time.

        A process that came in between counts with all it used, one that went with nothing.
        """
        machine = after.machine.since(before.machine)
        foreign = sum(used - before.foreign.get(pid, 0.0) for pid, used in after.foreign.items())
        return machine.share(machine.steal), machine.share(foreign)

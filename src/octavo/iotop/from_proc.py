"""Bytes from /proc/PID/io, for users who may not trace: no devices, no requests (proc_pid_io(5)).

`read_bytes` counts what was fetched from storage for a process; `write_bytes` what it dirtied, which the kernel writes
later, minus what was discarded before. A child's counters are added to its parent's when it has ended.
"""

from pathlib import Path

from octavo.host.process_table import Process, growth, read_table
from octavo.iotop.request_source import RequestCount


class FromProc:
    """Compares two readings of the process table."""

    name = "proc"
    lost = 0

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._before = read_table(proc, storage=True)

    def take(self) -> list[RequestCount]:
        """The bytes that visible processes fetched and dirtied since the previous call."""
        now = read_table(self._proc, storage=True)
        read = growth(self._before, now, _read)
        written = growth(self._before, now, _written)
        self._before = now
        return [
            *(RequestCount(None, pid, "read", None, int(amount)) for pid, amount in read.items() if amount > 0),
            *(RequestCount(None, pid, "write", None, int(amount)) for pid, amount in written.items() if amount > 0),
        ]

    def command(self, pid: int) -> str | None:
        """The name that it had at the last look."""
        process = self._before.get(pid)
        return process.name if process else None

    def cpu_seconds(self) -> float:
        """The kernel counts anyway."""
        return 0.0

    def close(self) -> None:
        """Holds nothing."""


def _read(process: Process) -> float:
    return process.read_bytes or 0


def _written(process: Process) -> float:
    return process.written_bytes or 0

"""What processes request from the kernel, as opposed to what disks serve: bytes of read(2), write(2) and similar calls.

Source: /proc/PID/io (proc_pid_io(5)): rchar, wchar, syscr, syscw. They count every file, pipe and terminal, including
what the page cache serves, but not mmap(2), recv(2) or io_uring. A child's counters are added to its parent's all at
once, when it is waited for. Reading those of other users needs root.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from octavo.instruments.request_counter import Direction

_LONGEST = 4096
_NAMES = (b"rchar", b"wchar", b"syscr", b"syscw")


@dataclass(frozen=True, slots=True)
class SystemCalls:
    """System calls, and the bytes that they moved."""

    calls: int
    bytes: int

    def since(self, before: "SystemCalls") -> "SystemCalls":
        """The difference."""
        return SystemCalls(self.calls - before.calls, self.bytes - before.bytes)


@dataclass(frozen=True, slots=True)
class AskedOf:
    """The system calls of a process."""

    read: SystemCalls
    write: SystemCalls

    def of(self, direction: Direction) -> SystemCalls | None:
        """The calls in a direction; nobody discards by a call that is counted here."""
        return {"read": self.read, "write": self.write}.get(direction)

    def since(self, before: "AskedOf") -> "AskedOf":
        """The difference; a process that took over another's pid counts from its own beginning."""
        read, write = self.read.since(before.read), self.write.since(before.write)
        if min(read.calls, read.bytes, write.calls, write.bytes) < 0:
            return self
        return AskedOf(read, write)


class AskedBytes:
    """Compares two readings of every process that we may read."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._before = self._look()

    def take(self) -> Mapping[int, AskedOf]:
        """By pid, since the last time; of a process that began meanwhile all of it."""
        now = self._look()
        nothing = AskedOf(SystemCalls(0, 0), SystemCalls(0, 0))
        found = {pid: asked.since(self._before.get(pid, nothing)) for pid, asked in now.items()}
        self._before = now
        return found

    def _look(self) -> dict[int, AskedOf]:
        found: dict[int, AskedOf] = {}
        for entry in os.scandir(self._proc):
            if entry.name.isdecimal() and (asked := _read(self._proc / entry.name / "io")) is not None:
                found[int(entry.name)] = asked
        return found


def parse_io(text: bytes) -> AskedOf | None:
    """The calls of a process; None for a text of another form.

    >>> parse_io(b"rchar: 8192\\nwchar: 10\\nsyscr: 2\\nsyscw: 1\\n").read
    SystemCalls(calls=2, bytes=8192)
    """
    values: dict[bytes, int] = {}
    for line in text.split(b"\n"):
        name, _, value = line.partition(b": ")
        if name in _NAMES and value.isdigit() and len(value) <= 20:
            values[name] = int(value)
    if len(values) < len(_NAMES):
        return None
    return AskedOf(SystemCalls(values[b"syscr"], values[b"rchar"]), SystemCalls(values[b"syscw"], values[b"wchar"]))


def _read(path: Path) -> AskedOf | None:
    try:
        with path.open("rb", buffering=0) as file:
            return parse_io(file.read(_LONGEST) or b"")
    except OSError:
        return None

"""All processes at one moment: the CPU and storage that each has used, and its parent.

Linux adds what a process used to its parent's account when the parent reaps it (wait(2); `cutime` in proc_pid_stat(5),
and the counters of proc_pid_io(5)). So the sum over a tree, including its reaped children, also covers processes that
came and went between two readings.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from octavo.host.kernel_text import lines

_PF_KTHREAD = 0x00200000  # include/linux/sched.h
_TRIES = 20
_FIELDS = 20  # of /proc/PID/stat, after the name
_LONGEST_TITLE = 4096


@dataclass(frozen=True, slots=True)
class Process:
    """One process; CPU in seconds with that of its reaped children apart, storage in bytes with theirs in it.

    The storage counters are None where we may not look, or when they were not asked for.
    """

    pid: int
    parent: int
    start_time: int
    name: str
    kernel: bool
    cpu: float
    reaped_cpu: float
    read_bytes: int | None = None
    written_bytes: int | None = None

    @property
    def is_postgres(self) -> bool:
        """Whether its program is a PostgreSQL server's: postmaster, backend or another of its processes."""
        return self.name in ("postgres", "postmaster")

    @property
    def all_cpu(self) -> float:
        """CPU seconds, those of reaped children included."""
        return self.cpu + self.reaped_cpu

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


Table = Mapping[int, Process]


def title_of(pid: int, proc: Path = Path("/proc")) -> str:
    """The beginning of its command line (proc_pid_cmdline(5)), which is as long as a process makes it. Raises OSError.

    PostgreSQL's processes write their role there.
    """
    with (proc / str(pid) / "cmdline").open("rb", buffering=0) as file:
        return (file.read(_LONGEST_TITLE) or b"").decode(errors="replace")


def read_process(pid: int, proc: Path = Path("/proc"), *, storage: bool = False) -> Process | None:
    """The process, or None when it is gone, or hidden from this user (proc(5), hidepid). Raises ValueError when the
    kernel's text is of another form than it has."""
    directory = proc / str(pid)
    try:
        before, _, after = (directory / "stat").read_bytes().rpartition(b")")
        read, written = _storage_bytes(directory / "io") if storage else (None, None)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = after.split()
    if len(fields) < _FIELDS:  # it went while it was read
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    comm = before.partition(b"(")[2].decode(errors="replace")
    name = "".join(letter if letter.isprintable() else "?" for letter in comm)
    return Process(
        pid=pid,
        parent=int(fields[1]),
        start_time=int(fields[19]),
        name=name,
        kernel=bool(int(fields[6]) & _PF_KTHREAD),
        cpu=(float(fields[11]) + float(fields[12])) / ticks,
        reaped_cpu=(float(fields[13]) + float(fields[14])) / ticks,
        read_bytes=read,
        written_bytes=written,
    )


def cpu_in(stat: bytes) -> float | None:
    """CPU seconds of a process, its reaped children left out, in the text of its `stat`; None when it is gone."""
    fields = stat.rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if len(fields) >= _FIELDS else None


def read_table(proc: Path = Path("/proc"), *, storage: bool = False) -> dict[int, Process]:
    """Every visible process, by its pid."""
    pids = (int(entry.name) for entry in os.scandir(proc) if entry.name.isdecimal())
    return {pid: process for pid in pids if (process := read_process(pid, proc, storage=storage)) is not None}


def child_pids(root: int, proc: Path = Path("/proc")) -> list[int]:
    """The processes that this one has started and not reaped (proc_tid_children(5), else the whole table)."""
    try:
        return [int(pid) for pid in (proc / str(root) / "task" / str(root) / "children").read_bytes().split()]
    except (FileNotFoundError, ProcessLookupError):  # a kernel without CONFIG_PROC_CHILDREN, or the process has ended
        pass
    return [process.pid for process in read_table(proc).values() if process.parent == root]


def settled_table(root: int, proc: Path = Path("/proc"), *, storage: bool = False) -> dict[int, Process]:
    """The table at a moment in which no process of the root's tree was being reaped.

    /proc is not read at one instant: a child that ends after its parent was read, and before it is read itself, would
    be in neither account. So it is read again until the tree does not change.
    """
    table = read_table(proc, storage=storage)
    for _ in range(_TRIES):
        if _stands_still(tree(root, table), table, proc):
            break
        table = read_table(proc, storage=storage)
    return table


def tree(root: int, table: Table) -> set[int]:
    """The process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        if pid in table and pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
    return found


def growth(before: Table, after: Table, amount: Callable[[Process], float]) -> dict[int, float]:
    """The use of each living process between two tables, by pid, including that of its children that ended meanwhile.

    `amount` includes reaped children. The use of an ended child before the first table was added to its parent with the
    rest, and is subtracted.
    """
    used = {pid: amount(process) for pid, process in after.items()}
    for then in before.values():
        if then.kernel and not _lives(then, after):
            continue  # a worker that ended: kthreadd does not take over what its threads used
        heir: Process | None = then
        while heir is not None and not _lives(heir, after):
            heir = before.get(heir.parent)
        if heir is not None:
            used[heir.pid] -= amount(then)
    return used


def _lives(process: Process, after: Table) -> bool:
    """Whether this very process is in the later table; a pid may have passed to another."""
    now = after.get(process.pid)
    return now is not None and now.start_time == process.start_time


def _stands_still(pids: Iterable[int], table: Table, proc: Path) -> bool:
    for pid in pids:
        now = read_process(pid, proc)
        if now is None or (now.start_time, now.reaped_cpu) != (table[pid].start_time, table[pid].reaped_cpu):
            return False
    return True


def _storage_bytes(path: Path) -> tuple[int | None, int | None]:
    """What was fetched from storage, and what was made dirty and not thrown away before it was written."""
    try:
        counted = lines(path)
    except PermissionError:
        return None, None
    except FileNotFoundError:
        if path.parent.exists():  # a kernel without CONFIG_TASK_IO_ACCOUNTING
            return None, None
        raise
    counters = {name: int(value) for name, _, value in (line.partition(":") for line in counted)}
    try:
        return counters["read_bytes"], max(0, counters["write_bytes"] - counters["cancelled_write_bytes"])
    except KeyError as error:
        raise ValueError(f"{path} has no {error}") from None

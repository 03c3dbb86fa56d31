"""PostgreSQL's processes by role: the memory that each touches, its page tables, its CPU time.

Sources: /proc/PID/status (proc_pid_status(5): RssShmem, RssAnon, VmPTE, VmSwap and HugetlbPages, in kB of 1024
bytes), /proc/PID/schedstat (kernel Documentation/scheduler/sched-stats.rst: nanoseconds on a CPU and waiting for one),
/proc/PID/oom_score (proc_pid_oom_score(5)). A status costs about 0.01 ms, where smaps costs 7 ms a GB.

RssShmem counts a shared page in every process that touched it, so a role shows the largest one, never a sum. Page
tables belong to one process each, so they add up. RssAnon and VmSwap are added up although a page that processes share
copy-on-write since the fork counts in each of them: these sums are upper bounds. Huge pages of hugetlbfs are in
HugetlbPages, not in RssShmem.
"""

from dataclasses import dataclass

from octavo.host.process_table import child_pids, read_process, title_of
from octavo.host.procfs import ProcFile, descriptors_to_spare, number_after
from octavo.instruments.base import Reader, UnavailableError
from octavo.instruments.figures import Figure, Gauge, Rate, Reading
from octavo.instruments.target import Target
from octavo.observation import Metric
from octavo.postgres.process_roles import OURS, POSTMASTER, role_of

_KB = 1024.0
_FILES = ("status", "schedstat", "oom_score")
_COLUMNS = ("count", "shmem", "huge", "private", "tables", "swap", "oom_score", "on_cpu", "waited")
_Row = tuple[int, ...]
_LARGEST = frozenset({"shmem", "huge", "oom_score"})
_STARTING = "starting"


class Processes:
    """Gauges and CPU time of the postmaster and its children, summed or largest by role."""

    period = 1.0
    asks_server = False
    figures: tuple[Figure, ...] = (
        Gauge(Metric("processes", "processes", "1"), "count"),
        Gauge(Metric("process_shmem_bytes", "shared memory touched, largest process (RssShmem)", "bytes"),
              "shmem", _KB),
        Gauge(Metric("process_huge_bytes", "huge pages mapped, largest process (HugetlbPages)", "bytes"),
              "huge", _KB),
        Gauge(Metric("process_private_bytes", "private memory, upper bound (RssAnon, sum)", "bytes"), "private", _KB),
        Gauge(Metric("process_page_table_bytes", "page tables, sum (VmPTE)", "bytes"), "tables", _KB),
        Gauge(Metric("process_swap_bytes", "private memory in swap, upper bound (VmSwap, sum)", "bytes"), "swap", _KB),
        Gauge(Metric("process_oom_score", "oom_score, highest", "1"), "oom_score"),
        Rate(Metric("process_cpus", "CPUs in use, sum", "1"), "on_cpu", 1e-9),
        Rate(Metric("process_cpus_waited_for", "processes waiting for a CPU", "1"), "waited", 1e-9),
    )  # fmt: skip

    def open(self, target: Target) -> Reader:
        """Raises UnavailableError when the postmaster is not visible as a process."""
        if target.postmaster is None:
            raise UnavailableError(target.no_processes)
        watched = _Family(target)
        try:
            watched.read()
        except BaseException:
            watched.close()
            raise
        return Reader(watched.read, watched.close)


@dataclass(slots=True)
class _Member:
    """A running process with its open files and last counters."""

    files: tuple[ProcFile, ...]
    role: str | None = None
    on_cpu: int = 0
    waited: int = 0


class _Family:
    """The postmaster and its children, tracked from one reading to the next."""

    def __init__(self, target: Target) -> None:
        assert target.postmaster is not None
        self._root = target.postmaster
        self._proc = target.proc
        self._special = {self._root: POSTMASTER}
        if target.backend is not None:
            self._special[target.backend] = OURS
        self._members: dict[int, _Member] = {}
        self._gone: dict[str, tuple[int, int]] = {}  # counters of ended processes, by role
        self._most_kept = descriptors_to_spare() // len(_FILES)
        self._cluster_name = str(target.query("cluster_name")[0]["cluster_name"])
        path = self._proc / str(self._root) / "task" / str(self._root) / "children"
        self._children = ProcFile(path) if path.exists() else None  # a kernel with CONFIG_PROC_CHILDREN

    def read(self) -> Reading:
        """One reading of all processes."""
        pids = {self._root, *self._child_pids()}
        for pid in self._members.keys() - pids:
            if self._is_child(pid):
                pids.add(pid)
            else:
                self._bury(pid)
        rows: dict[str | None, list[_Row]] = {None: []}
        for pid in pids:
            if (row := self._look(pid)) is not None:
                rows.setdefault(self._members[pid].role or _STARTING, []).append(row)
                rows[None].append(row)
        for role, (on_cpu, waited) in self._gone.items():
            row = (*[0] * (len(_COLUMNS) - 2), on_cpu, waited)
            rows.setdefault(role, []).append(row)
            rows[None].append(row)
        if self._root not in self._members:
            raise UnavailableError(self._why_gone())
        return {role: _together(found) for role, found in rows.items()}

    def close(self) -> None:
        """Closes all files."""
        for member in self._members.values():
            for file in member.files:
                file.close()
        self._members.clear()
        if self._children is not None:
            self._children.close()

    def _child_pids(self) -> list[int]:
        if self._children is not None:
            return [int(pid) for pid in self._children.read().split()]
        return child_pids(self._root, self._proc)

    def _is_child(self, pid: int) -> bool:
        """Whether a process is one although the list lacks it, as it may while others end (proc_tid_children(5)). Its
        counters would be added to those of ended processes, and again when it is listed the next time."""
        process = read_process(pid, self._proc)
        return process is not None and process.parent == self._root

    def _look(self, pid: int) -> _Row | None:
        """The process's numbers, or None if it has ended in the meantime."""
        try:
            member = self._members.get(pid)
            if member is None:
                member = self._members[pid] = _Member(self._opened(pid))
            if member.role is None:
                member.role = self._special.get(pid) or self._role(pid)
            status, schedstat, oom_score = [file.read() for file in member.files]
        except (FileNotFoundError, ProcessLookupError):
            self._bury(pid)
            return None
        on_cpu, waited, _ = schedstat.split()
        member.on_cpu, member.waited = int(on_cpu), int(waited)
        return (
            1,
            number_after(status, b"\nRssShmem:"),
            number_after(status, b"\nHugetlbPages:"),
            number_after(status, b"\nRssAnon:"),
            number_after(status, b"\nVmPTE:"),
            number_after(status, b"\nVmSwap:"),
            int(oom_score),
            member.on_cpu,
            member.waited,
        )

    def _opened(self, pid: int) -> tuple[ProcFile, ...]:
        """The process's files. Raises OSError, with none of them left open."""
        kept = len(self._members) < self._most_kept
        files: list[ProcFile] = []
        try:
            for name in _FILES:
                files.append(ProcFile(self._proc / str(pid) / name, kept=kept))
        except OSError:
            for file in files:
                file.close()
            raise
        return tuple(files)

    def _why_gone(self) -> str:
        place = self._proc / str(self._root)
        missing = [name for name in _FILES if place.is_dir() and not (place / name).exists()]
        if missing:
            return f"this kernel has no {missing[0]} of a process"
        return f"the postmaster (pid {self._root}) is gone"

    def _role(self, pid: int) -> str | None:
        return role_of(title_of(pid, self._proc), self._cluster_name)

    def _bury(self, pid: int) -> None:
        """Removes an ended process but keeps its counters."""
        member = self._members.pop(pid, None)
        if member is None:
            return
        for file in member.files:
            file.close()
        role = member.role or _STARTING
        on_cpu, waited = self._gone.get(role, (0, 0))
        self._gone[role] = (on_cpu + member.on_cpu, waited + member.waited)


def _together(rows: list[_Row]) -> dict[str, float]:
    """Combines the rows by column: the largest value, or the sum."""
    columns = zip(_COLUMNS, zip(*rows, strict=True), strict=True)
    return {name: float(max(values) if name in _LARGEST else sum(values)) for name, values in columns}


INSTRUMENT = Processes()

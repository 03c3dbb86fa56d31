"""The identity of a process: its name, parent and user, and its role if it is PostgreSQL's or the kernel's."""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from octavo.host.process_table import child_pids, read_process, title_of
from octavo.iotop.terminal_text import one_line
from octavo.postgres.process_roles import POSTMASTER, role_of

# Kernel threads whose name says what they do; the first that fits.
_KERNEL_ROLES = (
    ("kworker", "kernel worker"), ("jbd2", "filesystem's journal"), ("xfsaild", "filesystem's journal"),
    ("kswapd", "reclaim"), ("btrfs", "filesystem"), ("md", "RAID"), ("loop", "loop device"), ("dmcrypt", "encryption"),
)  # fmt: skip
# What a kernel worker writes was dirtied before, by somebody of whom the block layer knows nothing.
WRITE_BACK = "kernel, written back later"
ENDED = "ended"
# PostgreSQL's processes that read for others, with io_method = worker.
IO_WORKER = "io worker"
_CHECKPOINTER = re.compile(r"postgres: (.+): checkpointer\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """A process; `role` is one of PostgreSQL's (the words of pg_stat_activity), the kernel's, or None.

    A kernel worker has no pid of interest: they take each other's work, so all of them are one.
    """

    pid: int | None
    parent: int | None
    uid: int | None
    command: str
    role: str | None = None
    kernel: bool = False
    ended: bool = False


# The idle task of every CPU, which /proc does not list: an interrupt on it issued the request.
_IDLE = ProcessInfo(0, None, 0, "swapper", "kernel", kernel=True)


def has_no_title(who: ProcessInfo) -> bool:
    """Whether this is a server's process in its first moments, whose role is not known yet."""
    return who.role is None and not who.kernel and who.command.startswith("postgres")


class ProcessLookup:
    """Looks up each pid while the process may still exist; results are kept until the pid belongs to another
    process."""

    def __init__(self, command: Callable[[int], str | None], proc: Path = Path("/proc")) -> None:
        self._command = command
        self._proc = proc
        self._known: dict[int, tuple[int, ProcessInfo]] = {}
        self._clusters: dict[int, str] = {}

    def meet(self, pid: int) -> ProcessInfo:
        """Its identity now, or from an earlier lookup. For a process that ended before any lookup there is at most its
        name."""
        if pid == 0:
            return _IDLE
        try:
            process = read_process(pid, self._proc)
        except OSError:  # /proc mounted with hidepid
            process = None
        known = self._known.get(pid)
        if process is None:
            if known is None:
                return ProcessInfo(pid, None, None, one_line(self._command(pid) or "?"), ENDED, ended=True)
            return replace(known[1], role=ENDED, ended=True) if has_no_title(known[1]) else known[1]
        if known and known[0] == process.start_time and not has_no_title(known[1]):
            return known[1]
        if process.kernel:
            found = _kernel_thread(pid, process.parent, process.name)
        else:
            role: str | None = None
            with suppress(OSError):  # it, or its parent, is ending
                role = self._role(pid, process.parent)
            found = ProcessInfo(pid, process.parent, self._uid(pid), one_line(process.name), role)
        self._known[pid] = process.start_time, found
        return found

    def forget(self, kept: Iterable[int]) -> None:
        """Keeps only these."""
        keep = set(kept)
        self._known = {pid: known for pid, known in self._known.items() if pid in keep}

    def _uid(self, pid: int) -> int | None:
        try:
            return (self._proc / str(pid)).stat().st_uid
        except OSError:
            return None

    def _title(self, pid: int) -> str:
        try:
            return title_of(pid, self._proc).replace("\0", " ").strip()
        except OSError:
            return ""

    def _role(self, pid: int, parent: int) -> str | None:
        title = self._title(pid)
        if title.startswith("postgres: "):
            if parent not in self._clusters:
                titles = (self._title(child) for child in child_pids(parent, self._proc))
                self._clusters[parent] = cluster_name_of(titles)
            return role_of(title, self._clusters[parent])
        if Path(title.partition(" ")[0]).name not in ("postgres", "postmaster"):
            return None
        children = child_pids(pid, self._proc)
        return POSTMASTER if any(self._title(child).startswith("postgres: ") for child in children) else None


def cluster_name_of(titles: Iterable[str]) -> str:
    """The cluster_name that a server's processes put before their roles, from the one that every server has.

    >>> cluster_name_of(["postgres: 18/main: io worker 0", "postgres: 18/main: checkpointer "])
    '18/main'
    >>> cluster_name_of(["postgres: checkpointer "])
    ''
    """
    return next((match[1] for title in titles if (match := _CHECKPOINTER.fullmatch(title))), "")


def _kernel_thread(pid: int, parent: int, name: str) -> ProcessInfo:
    role = next((words for start, words in _KERNEL_ROLES if name.startswith(start)), "kernel")
    if name.startswith("kworker"):
        return ProcessInfo(None, None, 0, "kworker", role, kernel=True)
    return ProcessInfo(pid, parent, 0, one_line(name), role, kernel=True)

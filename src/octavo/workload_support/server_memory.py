"""The memory of PostgreSQL's processes at one moment, process by process, and which one the kernel would kill first.

Sources: /proc/PID/status, maps, smaps_rollup and oom_score (proc_pid_status(5) and its neighbours), pagemap (kernel
Documentation/admin-guide/mm/pagemap.rst). The OOM killer weighs resident memory, swap and page tables (oom_badness in
the kernel's mm/oom_kill.c), not Pss, which divides a shared page among its processes.
"""

import mmap
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from octavo.host.process_table import child_pids, title_of
from octavo.host.procfs import number_after
from octavo.postgres.process_roles import CLIENT, OURS, POSTMASTER, role_of

_PROC = Path("/proc")
_KB = 1024
_ENTRY = 8
# Of a page's 64 bits in pagemap the highest says that it is there; the last byte of eight holds it.
_PRESENT = 0x80
# Shared anonymous memory as maps names it; see `hugepages.postmaster_memory`.
_SHARED = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) ...s \S+ \S+ \d+ +(?:/dev/zero|/anon_hugepage|/SYSV)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """The memory of one process in bytes. `weight` is the OOM killer's measure; `private` is RssAnon, and `pss` is 0
    where it was not read."""

    pid: int
    role: str
    rss: int
    swap: int
    tables: int
    private: int = 0
    pss: int = 0

    @property
    def weight(self) -> int:
        """Resident memory, swap and page tables. Huge pages of hugetlbfs are in none of them."""
        return self.rss + self.swap + self.tables


def look(postmaster: int, *, pss: bool = False, ours: int | None = None, proc: Path = _PROC) -> list[ProcessMemory]:
    """The postmaster and its children now, without those that end meanwhile. `ours` is a backend of Octavo's.

    Pss costs 7 ms for each process and GB that it touched.
    """
    pids: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        pids = [postmaster, *child_pids(postmaster, proc)]
    found: list[ProcessMemory] = []
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            status = (proc / str(pid) / "status").read_bytes()
            found.append(
                ProcessMemory(
                    pid,
                    POSTMASTER if pid == postmaster else OURS if pid == ours else _role(pid, proc),
                    number_after(status, b"\nVmRSS:") * _KB,
                    number_after(status, b"\nVmSwap:") * _KB,
                    number_after(status, b"\nVmPTE:") * _KB,
                    number_after(status, b"\nRssAnon:") * _KB,
                    number_after((proc / str(pid) / "smaps_rollup").read_bytes(), b"\nPss:") * _KB if pss else 0,
                )
            )
    return found


def clients(processes: Iterable[ProcessMemory]) -> list[ProcessMemory]:
    """The backends that serve clients."""
    return [one for one in processes if one.role == CLIENT]


def largest_by_role(processes: Iterable[ProcessMemory], what: str) -> dict[str, int]:
    """The largest `weight`, `pss` … of any process of each role, the largest role first.

    >>> largest_by_role([ProcessMemory(1, "a", 5, 0, 0), ProcessMemory(2, "b", 7, 1, 0)], "weight")
    {'b': 8, 'a': 5}
    """
    found: dict[str, int] = {}
    for one in sorted(processes, key=lambda held: getattr(held, what), reverse=True):
        found.setdefault(one.role, getattr(one, what))
    return found


def first_victim(processes: Sequence[ProcessMemory]) -> ProcessMemory | None:
    """Whom the kernel would kill first, all of them having one oom_score_adj, as PostgreSQL's children have."""
    return max(processes, key=lambda one: one.weight, default=None)


@dataclass(frozen=True, slots=True)
class TouchedRegions:
    """The regions of the server's shared memory that a process has touched, counted from address 0, and where it is."""

    regions: frozenset[int]
    start: int
    end: int
    region: int

    def within(self, first: int, last: int) -> frozenset[int]:
        """The regions of a part of it, from one offset up to another, in bytes."""
        return frozenset(range((self.start + first) // self.region, -(-(self.start + last) // self.region)))

    @property
    def share(self) -> float:
        """How many of its regions were touched, as a fraction."""
        return len(self.regions) / len(self.within(0, self.end - self.start))


def touched(pid: int, region: int, proc: Path = _PROC) -> TouchedRegions | None:
    """The part of the server's shared memory that a process has touched, in regions of this size (bytes).

    A region is what one lowest page table maps: 2 MB where a page is 4 kB. None if there is no such memory, the kernel
    does not allow access, or the process has ended.
    """
    try:
        found = _SHARED.findall((proc / str(pid) / "maps").read_text(errors="replace"))
        mappings = [(int(start, 16), int(end, 16)) for start, end in found]
        if not mappings:
            return None
        start, end = max(mappings, key=lambda mapping: mapping[1] - mapping[0])
        regions: set[int] = set()
        with (proc / str(pid) / "pagemap").open("rb", buffering=0) as pagemap:
            for first in range(start - start % region, end, region):
                low, high = max(start, first), min(end, first + region)
                pagemap.seek(low // mmap.PAGESIZE * _ENTRY)
                there = pagemap.read((high - low) // mmap.PAGESIZE * _ENTRY)[_ENTRY - 1 :: _ENTRY]
                if max(there, default=0) >= _PRESENT:
                    regions.add(first // region)
    except OSError:
        return None
    return TouchedRegions(frozenset(regions), start, end, region)


def _role(pid: int, proc: Path) -> str:
    return role_of(title_of(pid, proc)) or "starting"

"""The postmaster's memory in /proc: a check of PostgreSQL's own report, and of the VmPeak recipe.

Sources: proc_pid_status(5) (VmPeak, VmPTE, HugetlbPages; readable by everybody), proc_pid_smaps(5) (KernelPageSize;
for the server's user and root). smaps costs 7 ms a touched GB, once, for the postmaster alone.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.host.process_table import child_pids
from octavo.host.procfs import number_after

_PROC = Path("/proc")
_KB = 1024
_HEADER = re.compile(r"^[0-9a-f]+-[0-9a-f]+ (\S{4}) \S+ \S+ \d+ *(.*)$")
SHARED, FILES, PRIVATE, OTHER = "shared memory", "programs and libraries", "private memory", "other shared mappings"
_NOT_MAPPED = ""


@dataclass(frozen=True, slots=True)
class PostmasterMemory:
    """Sizes in bytes. Figures from smaps are None if we may not read it.

    `mapping` is the size of the server's shared memory and `page` the size of its pages; `parts` is everything that the
    postmaster maps, by kind. `huge` are the huge pages that it has touched, `tables` the page tables of all
    `processes`.
    """

    peak: int
    huge: int
    tables: int
    processes: int
    mapping: int | None = None
    page: int | None = None
    parts: Mapping[str, int] | None = None

    def as_dict(self, needed: int, page: int) -> dict[str, Any]:
        """For JSON, with the pages by the recipe VmPeak / page size next to those that are needed."""
        asked = recipe(self.peak, page)
        return {
            "vm_peak_bytes": self.peak,
            "vm_peak_pages": asked,
            "needed_pages": needed,
            "over_asked_pages": asked - needed,
            "over_asked_bytes": (asked - needed) * page,
            "page_bytes": page,
            "shared_memory_bytes": self.mapping,
            "shared_memory_page_bytes": self.page,
            "parts_bytes": None if self.parts is None else dict(self.parts),
            "page_table_bytes": self.tables,
            "processes": self.processes,
        }


def recipe(peak: int, page: int) -> int:
    """Pages by the recipe that divides the postmaster's VmPeak by the page size, the rest cut off.

    >>> recipe(148392404 * 1024, 2 * 1024**2)
    72457
    """
    return peak // page


def read_postmaster(postmaster: int, proc: Path = _PROC) -> PostmasterMemory | None:
    """Its current figures, as far as visible; None if it has ended."""
    try:
        status = (proc / str(postmaster) / "status").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    tables = [_tables(pid, proc) for pid in (postmaster, *child_pids(postmaster, proc))]
    alive = [one for one in tables if one is not None]
    mapping = page = parts = None
    with suppress(OSError):
        parts, mapping, page = _mappings((proc / str(postmaster) / "smaps").read_text(errors="replace"))
    return PostmasterMemory(
        number_after(status, b"\nVmPeak:") * _KB,
        number_after(status, b"\nHugetlbPages:") * _KB,
        sum(alive),
        len(alive),
        mapping,
        page,
        parts,
    )


def _tables(pid: int, proc: Path) -> int | None:
    try:
        return number_after((proc / str(pid) / "status").read_bytes(), b"\nVmPTE:") * _KB
    except (FileNotFoundError, ProcessLookupError):
        return None


def _mappings(smaps: str) -> tuple[dict[str, int], int | None, int | None]:
    """Bytes by kind, and size and page size of the largest shared anonymous mapping, which is shared_buffers and all.

    Its file is what mmap(2) makes for it: /dev/zero, /anon_hugepage, and /SYSV… with shared_memory_type = sysv.
    """
    found: list[tuple[str, int, int]] = []
    kind, size = OTHER, 0
    for line in smaps.split("\n"):  # a path in it may hold what else ends lines
        if header := _HEADER.match(line):
            kind = _kind(header[1], header[2])
        elif line.startswith("Size:"):
            size = _kilobytes(line) * _KB
        elif line.startswith("KernelPageSize:") and kind != _NOT_MAPPED:
            found.append((kind, size, _kilobytes(line) * _KB))
    shared = max((one for one in found if one[0] == SHARED), key=lambda one: one[1], default=None)
    parts: dict[str, int] = {}
    for one in found:
        name = OTHER if one[0] == SHARED and one is not shared else one[0]
        parts[name] = parts.get(name, 0) + one[1]
    return parts, shared and shared[1], shared and shared[2]


def _kilobytes(line: str) -> int:
    """The number of a line. Raises ValueError when it has none."""
    return int(line.partition(":")[2].removesuffix("kB"))


def _kind(permissions: str, name: str) -> str:
    if permissions.endswith("s"):
        return SHARED if name.startswith(("/dev/zero", "/anon_hugepage", "/SYSV")) else OTHER
    if name == "[vsyscall]":  # the same fixed address for all, and no part of VmPeak
        return _NOT_MAPPED
    return FILES if name.startswith(("/", "[vdso]", "[vvar")) else PRIVATE

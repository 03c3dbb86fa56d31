"""How large the pages of a cell's shared memory are, by its levels."""

import mmap
from pathlib import Path

from octavo.units import parse_size
from octavo.workloads.base import Levels

# The size of a transparent huge page (kernel Documentation/admin-guide/mm/transhuge.rst).
_THP_SIZE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
_ALL = ("always", "force")


def shared_page(levels: Levels) -> int:
    """Bytes: the huge page's size, that of a transparent one if shared memory is to have them, else the CPU's own.

    The instruments record the pages that the kernel really gave (`memory_shmem_huge_bytes`).
    """
    if levels.get("huge_pages", "off") != "off":
        return parse_size(levels["huge_pages"])
    if levels.get("shmem_thp") in _ALL and _THP_SIZE.exists():
        return int(_THP_SIZE.read_text())
    return mmap.PAGESIZE

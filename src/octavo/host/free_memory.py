"""Free memory by the sizes of its pieces: how much of it could be a huge page.

Source: proc_buddyinfo(5): of each zone, a column for each power of two of pages, with how many pieces have that size.
"""

import math
import os
from dataclasses import dataclass
from pathlib import Path

from octavo.host.kernel_text import lines, words

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class FreeMemory:
    """Bytes of free memory, and those of them in pieces of a huge page or more."""

    free: int
    whole: int

    @property
    def unusable(self) -> float:
        """The share that no huge page can have: the kernel's own "unusable free space index" (mm/vmstat.c)."""
        return 1 - self.whole / self.free if self.free else 0.0


def huge_page(sys: Path = Path("/sys")) -> int | None:
    """Bytes of a transparent huge page; None on a kernel without them."""
    try:
        return int((sys / "kernel/mm/transparent_hugepage/hpage_pmd_size").read_text())
    except (OSError, ValueError):
        return None


def free_memory(huge: int, proc: Path = Path("/proc")) -> FreeMemory:
    """The free memory now; `huge` is the size of a huge page in bytes. Raises OSError."""
    order = int(math.log2(huge // _PAGE))
    free = whole = 0
    for line in lines(proc / "buddyinfo"):
        counts = [int(word) for word in words(line.partition("zone")[2])[1:]]
        pieces = [count * (_PAGE << power) for power, count in enumerate(counts)]
        free, whole = free + sum(pieces), whole + sum(pieces[order:])
    return FreeMemory(free, whole)

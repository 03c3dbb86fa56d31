"""Page tables of shared memory, predicted: before huge pages and with them.

A process has page tables of its own for memory that all share. A table is one memory page of 8-byte entries; its
entries map one page each, or a table of the next lower level (kernel Documentation/mm/page_tables.rst). A table exists
once any page below it was touched: with 4 kB pages one table of 4 kB for every touched 2 MB. A huge page is one entry
of the level of its size, without the levels below.
"""

import os
from dataclasses import dataclass
from typing import Any

_ENTRY = 8
# PTE, PMD and PUD tables; with pages of 64 kB a PMD table maps 4 TB, and there is no PUD (arch/arm64/Kconfig,
# PGTABLE_LEVELS). What is above is there for every process anyway.
_LEVELS, _LEVELS_OF_64KB = 3, 2
# Those whose tables are one page of 8-byte entries at every level.
_KNOWN = ("x86_64", "aarch64", "riscv64", "loongarch64")


@dataclass(frozen=True, slots=True)
class Prediction:
    """Page tables in bytes, of one backend that touched all of the shared memory, and of so many of them."""

    page: int
    each: int
    connections: int

    @property
    def all(self) -> int:
        """Of all the backends."""
        return self.each * self.connections

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"page_bytes": self.page, "each_backend_bytes": self.each, "all_backends_bytes": self.all}


def table_bytes(memory: int, page: int, base: int) -> int:
    """Page tables that one process needs to have touched so many bytes in pages of this size; `base` is the CPU's.

    A mapping that does not begin at a table's border needs one table more on each level. 138 GB, as in a published
    test, take 277 MB a process at 4 kB and 560 kB at 2 MB:

    >>> kB, GB = 1024, 1024**3
    >>> [table_bytes(138 * GB, page, 4 * kB) // kB for page in (4 * kB, 2048 * kB, GB)]
    [283180, 556, 4]
    >>> table_bytes(138 * GB, 64 * kB, 64 * kB) // kB  # a kernel with 64 kB pages: a table is 64 kB and maps 512 MB
    17728
    """
    entries = base // _ENTRY
    total, entry = 0, base
    levels = _LEVELS_OF_64KB if base == 64 * 1024 else _LEVELS
    for level in range(1, levels + 1):
        covered = entry * entries
        if covered > page or level == levels:  # a table of this level maps more than one such page
            total += -(-memory // covered) * base
        entry = covered
    return total


def predict(memory: int, sizes: list[int], connections: int, base: int, machine: str | None = None) -> list[Prediction]:
    """One prediction for the CPU's own page and each huge page size; none where tables are made otherwise."""
    if not predictable(machine):
        return []
    return [Prediction(page, table_bytes(memory, page, base), connections) for page in (base, *sizes)]


def predictable(machine: str | None = None) -> bool:
    """Whether this machine's page tables are made as described here."""
    return (machine or os.uname().machine) in _KNOWN

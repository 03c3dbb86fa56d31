"""Memory of shared buffers at a block size: the buffers, their descriptors, and page tables."""

from dataclasses import dataclass

from octavo.hugepages.savings import table_bytes

# Bytes per buffer besides its page: BufferDescPadded (64), its I/O condition variable (16), CkptSortItem (20), and in
# the hash table an entry with its link and a part of its bucket and freelist (buf_internals.h, buf_table.c,
# dynahash.c). The sum is about what 18.6 was observed to use: 1 GB of shared_buffers maps 1,275 MB at 1 kB and 1,067 MB
# at 32 kB, which is 214 bytes per buffer including what grows with them (lock partitions, the planner's statistics).
BYTES_A_BUFFER = 214
# Bytes of an entry of a page table. A table is a page, and a huge page is what a table of the lowest level maps.
_ENTRY = 8


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory in bytes."""

    shared_buffers: int
    descriptors: int
    page_tables: int
    page_tables_huge: int


def memory_of(shared_buffers: int, block: int, connections: int, kernel_page: int = 4096) -> Memory:
    """The most memory that these buffers use, with so many backends that have touched all of them.

    >>> found = memory_of(1024**3, 1024, 100)
    >>> found.descriptors // 1024**2, found.page_tables // 1024**2
    (214, 242)
    """
    descriptors = shared_buffers // block * BYTES_A_BUFFER
    mapped = shared_buffers + descriptors
    base = kernel_page if kernel_page in (4096, 16384, 65536) else 4096
    return Memory(
        shared_buffers,
        descriptors,
        connections * table_bytes(mapped, base, base),
        connections * table_bytes(mapped, base * base // _ENTRY, base),
    )

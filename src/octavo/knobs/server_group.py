"""The memory limit of a server: a control group in which it is started, on cgroup version 1 or 2.

Sources: kernel Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst. The page cache is charged to the group
that touches a page first, so nothing may read the server's files before it starts, and a server that is moved in later
is not limited. Huge pages are not charged unless cgroup2 is mounted with memory_hugetlb_accounting: the limit is
reduced by the server's huge pages, so that cells with and without them have the same memory.
"""

import secrets
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from octavo.host import cgroup
from octavo.host.journal import Journal
from octavo.knobs import device
from octavo.units import parse_size


@contextmanager
def server_group(
    levels: Mapping[str, str], journal: Journal, *, huge_page_bytes: int = 0, root: Path = cgroup.ROOT
) -> Generator[Path | None, None, None]:
    """Yields the group in which to start a cell's server, or None if it needs none.

    `huge_page_bytes` is the server's memory in huge pages, which is subtracted from the limit where the kernel does not
    charge it. Raises HostError when the host has no controller for it.
    """
    limit = levels.get("memory", "none")
    io = device.needs_group(levels)
    if limit == "none" and not io:
        yield None
        return
    name = f"{journal.token[:8]}-{secrets.token_hex(3)}"
    uncharged = 0 if not huge_page_bytes or cgroup.charges_huge_pages(root) else huge_page_bytes
    memory = None if limit == "none" else max(1024**2, parse_size(limit) - uncharged)
    swap = levels.get("zram_swap", "none") != "none"
    with cgroup.group(name, journal, memory=memory, swap=swap, io=io, root=root) as path:
        yield path

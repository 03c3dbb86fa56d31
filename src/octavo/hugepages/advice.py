"""The lines that allocate the pool at boot, and the effect of each setting of huge_pages if it is missing.

Sources: kernel Documentation/admin-guide/mm/hugetlbpage.rst and kernel-parameters.txt (hugepagesz=, hugepages=);
PostgreSQL's manual ("Linux Huge Pages") and src/backend/port/sysv_shmem.c.
"""

from typing import Any

from octavo.hugepages.pool import PoolState, pool_file
from octavo.postgres.setting_line import Setting
from octavo.units import format_size

# The default size's number has a sysctl, the others only a file. A pool of pages this large cannot be had later.
_BOOT_ONLY = 1024**3
SYSCTL_FILE = "/etc/sysctl.d/60-postgresql-huge-pages.conf"

FAILURES = {
    "on": "the server does not start without its pages: FATAL: could not map anonymous shared memory: Cannot allocate "
    "memory. That is better than running out of memory later",
    "try": "the default: the server starts with small pages and logs it at DEBUG1 only; see "
    "huge_pages_status (17 and later) or octavo hugepages verify",
}
EITHER = (
    "reaching the limit of a hugetlb cgroup when a page is first touched kills the server by SIGBUS; if a "
    "read fills the page, the read is short and PostgreSQL reports a block that it could not read completely"
)
# A boot that takes more than this share of memory for one pool leaves a machine that may not come up.
_MOST_OF_MEMORY = 0.9


def advise(pool: PoolState, needed: int, own: int, requested: int, default: int, memory: int) -> dict[str, Any]:
    """The lines for one page size, so that a server that requests pages of `requested` bytes gets `needed` pages, of
    which it holds `own` now.

    A larger pool is not reduced, because its free pages may be for others. More than nine tenths of `memory`, in bytes
    and without the pools of other sizes, is never advised, because at boot the kernel allocates all that it can.
    """
    page, target = pool.page, pool.target(needed, own)
    pages = max(target, pool.persistent)
    fits = pages * page <= _MOST_OF_MEMORY * memory
    return {
        "page_bytes": page,
        "pool_pages": pages,
        "unclaimed_pages": pages - target,
        "fits_memory": fits,
        "sysctl": [f"vm.nr_hugepages = {pages}"] if page == default and fits else [],
        "sysfs": str(pool_file(page)),
        "kernel_command_line": kernel_command_line(page, pages) if fits else None,
        "boot_only": page >= _BOOT_ONLY,
        "postgresql_conf": [one.conf for one in settings(page, requested, default)],
    }


def settings(page: int, requested: int, default: int) -> list[Setting]:
    """The settings by which the server uses pages of this size, and refuses to start without them."""
    meant = [] if requested == page == default else [Setting("huge_page_size", format_size(page))]
    return [Setting("huge_pages", "on"), *meant]


def kernel_command_line(page: int, pages: int) -> str:
    """The words for so many pages at boot.

    >>> kernel_command_line(1024**3, 3), kernel_command_line(64 * 1024, 9)
    ('hugepagesz=1G hugepages=3', 'hugepagesz=64K hugepages=9')
    """
    return f"hugepagesz={format_size(page).removesuffix('B').replace('k', 'K')} hugepages={pages}"

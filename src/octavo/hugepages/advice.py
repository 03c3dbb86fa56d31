"""What to write where so that the pool is there at boot, and what each setting of huge_pages does when it is not.

Sources: kernel Documentation/admin-guide/mm/hugetlbpage.rst and kernel-parameters.txt (hugepagesz=, hugepages=);
PostgreSQL's manual ("Linux Huge Pages") and src/backend/port/sysv_shmem.c.
"""

from typing import Any

from octavo.units import format_size

# The default size's number has a sysctl, the others only a file. A pool of pages this large cannot be had later.
_BOOT_ONLY = 1024**3
SYSCTL_FILE = "/etc/sysctl.d/60-postgresql-huge-pages.conf"

FAILURES = {
    "on": "the server does not start without its pages: FATAL: could not map anonymous shared memory: Cannot allocate "
    "memory. Better that than memory that runs out later",
    "try": "the default: the server starts with small pages and says so in no log (one line at DEBUG1); only "
    "huge_pages_status (17 and later) or octavo hugepages verify tells",
}
EITHER = "a hugetlb group's limit that is met when a page is touched kills either by SIGBUS"


def advise(page: int, default: int, target: int) -> dict[str, Any]:
    """The lines for one page size: `target` pages in all, those that others use included."""
    name = _kernel_name(page)
    parameters = f"hugepagesz={name} hugepages={target}"
    return {
        "page_bytes": page,
        "pool_pages": target,
        "sysctl": [f"vm.nr_hugepages = {target}"] if page == default else [],
        "sysfs": f"/sys/kernel/mm/hugepages/hugepages-{page // 1024}kB/nr_hugepages",
        "kernel_command_line": parameters,
        "boot_only": page >= _BOOT_ONLY,
        "postgresql_conf": ["huge_pages = on", *([] if page == default else [f"huge_page_size = {format_size(page)}"])],
    }


def _kernel_name(page: int) -> str:
    """As the kernel's command line has it.

    >>> _kernel_name(1024**3), _kernel_name(2 * 1024**2), _kernel_name(64 * 1024)
    ('1G', '2M', '64K')
    """
    return format_size(page).removesuffix("B").replace("k", "K")

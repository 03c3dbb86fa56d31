"""What the kernel does with memory on its own."""

from octavo.host.checks.base import CheckFinding, CheckImpossibleError, Host, read_text
from octavo.host.kernel_text import chosen, lines, words
from octavo.units import human_size

# Of a number of 64 bits.
_MOST_DIGITS = 20
# VIRTIO_BALLOON_F_REPORTING (include/uapi/linux/virtio_balloon.h).
_REPORTS_FREE_PAGES = 5

# For a host whose /sys is where it always is.
THP_FILE = "/sys/kernel/mm/transparent_hugepage/enabled"
_AGAIN = "swapoff -a && swapon -a (which starts only what is in /etc/fstab)"
SWAP_FIX = f"{_AGAIN}, if enough memory is free; sysctl vm.swappiness=1"


def swap(host: Host) -> CheckFinding:
    """Swap in use, and whether pages are being swapped."""
    try:
        areas = [
            row for row in map(words, lines(host.proc / "swaps")[1:]) if len(row) > 3 and len(row[3]) <= _MOST_DIGITS
        ]
    except OSError as error:
        raise CheckImpossibleError(f"{host.proc / 'swaps'}: {error.strerror}") from error
    if not areas:
        return CheckFinding("swap", "fine", "none")
    used = sum(int(row[3]) for row in areas) * 1024
    swappiness = read_text(host.proc / "sys/vm/swappiness")
    found = f"{human_size(used)} in use, swappiness {swappiness}"
    before, after = host.before.swapped_pages, host.after.swapped_pages
    if before is not None and after is not None and after > before:
        return CheckFinding(
            "swap",
            "disturbs",
            f"{after - before} pages swapped in {host.seconds:.1f} s; {found}",
            "memory is short: the server's pages may be swapped out while a trial runs",
            f"stop what uses the memory, then: {_AGAIN}",
        )
    if used:
        return CheckFinding(
            "swap",
            "note",
            found,
            "swapped pages may be read back in the middle of a trial",
            SWAP_FIX,
        )
    return CheckFinding("swap", "fine", found)


def huge_pages(host: Host) -> CheckFinding:
    """Whether khugepaged puts memory together into huge pages by itself."""
    mode = chosen(read_text(host.sys / "kernel/mm/transparent_hugepage/enabled"))
    if mode != "always":
        return CheckFinding("transparent huge pages", "fine", mode)
    return CheckFinding(
        "transparent huge pages",
        "note",
        mode,
        "khugepaged collapses memory into huge pages at a different time in each trial",
        f"echo madvise > {host.sys / 'kernel/mm/transparent_hugepage/enabled'}",
    )


def cold_pages(host: Host) -> CheckFinding:
    """Whether DAMON writes out what has not been used for a while, also with memory free.

    Source: kernel Documentation/admin-guide/mm/damon/{usage,reclaim}.rst.
    """
    damon = host.sys / "kernel/mm/damon/admin/kdamonds"
    switch = host.sys / "module/damon_reclaim/parameters/enabled"
    off: str | None = None
    for worker in sorted(damon.glob("[0-9]*")):
        actions = {read_text(path) for path in worker.glob("contexts/*/schemes/*/action")}
        if read_text(worker / "state") == "on" and actions & {"pageout", "cold"}:
            off = f"echo off > {worker / 'state'}"
    if switch.exists() and read_text(switch) == "Y":
        off = f"echo N > {switch}"
    if off is None:
        return CheckFinding("cold pages", "fine", "kept while memory is free")
    return CheckFinding(
        "cold pages",
        "disturbs",
        "paged out by DAMON",
        "warm caches do not stay warm: pages unused for seconds are reclaimed and read from storage again",
        off,
    )


def free_memory(host: Host) -> CheckFinding:
    """Whether the hypervisor takes back memory that is free for two seconds.

    Source: kernel Documentation/mm/free_page_reporting.rst; sysfs lists a device's negotiated features bit by bit.
    """
    for file in sorted((host.sys / "bus/virtio/drivers/virtio_balloon").glob("virtio*/features")):
        if read_text(file)[_REPORTS_FREE_PAGES : _REPORTS_FREE_PAGES + 1] == "1":
            return CheckFinding(
                "free memory",
                "note",
                "reported to the hypervisor (virtio_balloon)",
                "the hypervisor reclaims free memory: the first page fault on it is slow, unless it was just freed",
            )
    return CheckFinding("free memory", "fine", "kept by this machine")

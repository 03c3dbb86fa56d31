"""Kernel events of allocating transparent huge pages, and of compacting memory for them.

Source: thp_*, compact_* and allocstall_* in /proc/vmstat (kernel Documentation/admin-guide/mm/transhuge.rst,
include/linux/vm_event_item.h), and /proc/buddyinfo (proc_buddyinfo(5)), if the kernel has it.
"""

from contextlib import suppress

from octavo.host.free_memory import free_memory, huge_page
from octavo.host.procfs import ProcFile, named_numbers
from octavo.instruments.base import Reader, UnavailableError
from octavo.instruments.figures import Figure, Gauge, Rate, Reading, Total
from octavo.instruments.target import Target
from octavo.observation import Metric

_EVENTS = (
    b"thp_fault_alloc", b"thp_fault_fallback", b"thp_collapse_alloc", b"thp_file_alloc", b"thp_file_fallback",
    b"thp_split_page", b"thp_swpout", b"thp_swpout_fallback", b"compact_stall", b"compact_success", b"compact_fail",
    b"compact_migrate_scanned",
)  # fmt: skip


class HugePageEvents:
    """Counters of /proc/vmstat. They change rarely, so one reading every five seconds is enough."""

    period = 5.0
    asks_server = False
    figures: tuple[Figure, ...] = (
        Rate(Metric("thp_fault_alloc_per_second", "huge pages allocated at a fault, a second", "1/s"),
             "thp_fault_alloc"),
        Rate(Metric("thp_collapse_alloc_per_second", "huge pages collapsed by khugepaged, a second", "1/s"),
             "thp_collapse_alloc"),
        Rate(Metric("compact_stall_per_second", "direct compactions for a huge page, a second", "1/s"),
             "compact_stall"),
        Total(Metric("thp_fault_alloc", "huge pages allocated at a fault", "1"), "thp_fault_alloc"),
        Total(Metric("thp_fault_fallback", "faults that fell back to small pages", "1"), "thp_fault_fallback"),
        Total(Metric("thp_collapse_alloc", "huge pages collapsed by khugepaged", "1"), "thp_collapse_alloc"),
        Total(Metric("thp_file_alloc", "huge pages allocated for shared memory", "1"), "thp_file_alloc"),
        Total(Metric("thp_file_fallback", "shared memory that fell back to small pages", "1"), "thp_file_fallback"),
        Total(Metric("thp_split_page", "huge pages split", "1"), "thp_split_page"),
        Total(Metric("thp_swpout", "huge pages swapped out whole", "1"), "thp_swpout"),
        Total(Metric("thp_swpout_fallback", "huge pages split to be swapped out", "1"), "thp_swpout_fallback"),
        Total(Metric("compact_stall", "direct compactions for a huge page", "1"), "compact_stall"),
        Total(Metric("compact_success", "direct compactions that succeeded", "1"), "compact_success"),
        Total(Metric("compact_fail", "direct compactions that failed", "1"), "compact_fail"),
        Total(Metric("compact_pages_scanned", "pages scanned by compaction", "1"),
              "compact_migrate_scanned"),
        Total(Metric("allocstall", "allocations that had to reclaim memory (direct reclaim)", "1"), "allocstall"),
        Gauge(Metric("free_huge_bytes", "free memory in blocks of a huge page or larger, minimum", "bytes"),
              "free_huge", whole="min"),
    )  # fmt: skip

    def open(self, target: Target) -> Reader:
        """Raises UnavailableError on a kernel without transparent huge pages."""
        try:
            file = ProcFile(target.proc / "vmstat")
        except OSError as error:
            raise UnavailableError(f"{error.filename}: {error.strerror}") from error
        if not any(key in named_numbers(file.read()) for key in _EVENTS):
            file.close()
            raise UnavailableError("this kernel has no transparent huge pages")
        huge = huge_page()

        def read() -> Reading:
            events = named_numbers(file.read())
            found = {key.decode(): float(events[key]) for key in _EVENTS if key in events}
            stalls = [count for name, count in events.items() if name.startswith(b"allocstall")]
            if stalls:
                found["allocstall"] = float(sum(stalls))
            if huge is not None:
                with suppress(OSError):  # may be hidden in a container
                    found["free_huge"] = float(free_memory(huge, target.proc).whole)
            return {None: found}

        return Reader(read, file.close)


INSTRUMENT = HugePageEvents()

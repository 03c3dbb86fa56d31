"""What the kernel did to give out transparent huge pages, and to make room for them.

Source: thp_* and compact_* of /proc/vmstat (kernel Documentation/admin-guide/mm/transhuge.rst).
"""

from octavo.host.procfs import ProcFile, named_numbers
from octavo.instruments.base import Reader, UnavailableError
from octavo.instruments.figures import Figure, Rate, Reading, Total
from octavo.instruments.target import Target
from octavo.observation import Metric


class HugePageEvents:
    """Counters of /proc/vmstat; they move rarely, so a look every five seconds is enough."""

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
        Total(Metric("thp_file_alloc", "huge pages allocated for shared memory or files", "1"), "thp_file_alloc"),
        Total(Metric("thp_file_fallback", "shared memory or files that fell back to small pages", "1"),
              "thp_file_fallback"),
        Total(Metric("thp_split_page", "huge pages split", "1"), "thp_split_page"),
        Total(Metric("compact_stall", "direct compactions for a huge page", "1"), "compact_stall"),
        Total(Metric("compact_success", "of those, successful", "1"), "compact_success"),
        Total(Metric("compact_pages_moved", "pages scanned by compaction", "1"),
              "compact_migrate_scanned"),
    )  # fmt: skip

    def open(self, target: Target) -> Reader:
        """Raises UnavailableError on a kernel without transparent huge pages."""
        try:
            file = ProcFile(target.proc / "vmstat")
        except OSError as error:
            raise UnavailableError(f"{error.filename}: {error.strerror}") from error
        keys = [figure.key.encode() for figure in self.figures if isinstance(figure, Total)]
        if not any(key in named_numbers(file.read()) for key in keys):
            file.close()
            raise UnavailableError("this kernel has no transparent huge pages")

        def read() -> Reading:
            events = named_numbers(file.read())
            return {None: {key.decode(): float(events[key]) for key in keys if key in events}}

        return Reader(read, file.close)


INSTRUMENT = HugePageEvents()

"""The machine's memory: its page tables, its huge pages, its page cache.

Source: /proc/meminfo (proc_meminfo(5), kernel Documentation/filesystems/proc.rst), whose kB are 1024 bytes.
HugePages_* count huge pages of the default size, Hugepagesize.
"""

from octavo.host.procfs import ProcFile, named_numbers
from octavo.instruments.base import Reader, UnavailableError
from octavo.instruments.figures import Figure, Gauge, Reading
from octavo.instruments.target import Target
from octavo.observation import Metric

_KB = 1024.0


class HostMemory:
    """Gauges of /proc/meminfo."""

    period = 1.0
    asks_server = False
    figures: tuple[Figure, ...] = (
        Gauge(Metric("memory_available_bytes", "memory available (MemAvailable)", "bytes"),
              "MemAvailable", _KB, "min"),
        Gauge(Metric("memory_cached_bytes", "page cache, shared memory included (Cached)", "bytes"),
              "Cached", _KB, "max"),
        Gauge(Metric("memory_dirty_bytes", "dirty in the page cache (Dirty)", "bytes"), "Dirty", _KB),
        Gauge(Metric("memory_writeback_bytes", "being written back (Writeback)", "bytes"), "Writeback", _KB),
        Gauge(Metric("memory_page_tables_bytes", "page tables of all processes (PageTables)", "bytes"),
              "PageTables", _KB),
        Gauge(Metric("memory_shmem_bytes", "shared memory in small and transparent huge pages (Shmem)", "bytes"),
              "Shmem", _KB),
        Gauge(Metric("memory_anon_huge_bytes", "private memory in transparent huge pages (AnonHugePages)", "bytes"),
              "AnonHugePages", _KB),
        Gauge(Metric("memory_shmem_huge_bytes", "shared memory in transparent huge pages (ShmemHugePages)", "bytes"),
              "ShmemHugePages", _KB),
        Gauge(Metric("memory_file_huge_bytes", "page cache in transparent huge pages (FileHugePages)", "bytes"),
              "FileHugePages", _KB),
        Gauge(Metric("huge_pages_total", "huge pages of the default size (HugePages_Total)", "1"), "HugePages_Total"),
        Gauge(Metric("huge_pages_free", "huge pages not in use (HugePages_Free)", "1"),
              "HugePages_Free", whole="min"),
        Gauge(Metric("huge_pages_reserved", "huge pages reserved, not yet in use (HugePages_Rsvd)", "1"),
              "HugePages_Rsvd"),
        Gauge(Metric("huge_pages_surplus", "huge pages beyond the pool (HugePages_Surp)", "1"), "HugePages_Surp"),
        Gauge(Metric("swap_used_bytes", "swap in use (SwapTotal − SwapFree)", "bytes"), "SwapUsed", _KB),
    )  # fmt: skip

    def open(self, target: Target) -> Reader:
        """Raises UnavailableError if /proc/meminfo cannot be read."""
        try:
            file = ProcFile(target.proc / "meminfo")
        except OSError as error:
            raise UnavailableError(f"{error.filename}: {error.strerror}") from error

        def read() -> Reading:
            numbers = {name.decode(): float(value) for name, value in named_numbers(file.read()).items()}
            numbers["SwapUsed"] = numbers.get("SwapTotal", 0.0) - numbers.get("SwapFree", 0.0)
            return {None: numbers}

        return Reader(read, file.close)


INSTRUMENT = HostMemory()

"""The block device under the data directory, as `iostat -x` names it.

Source: /proc/diskstats, read by the Rust core (kernel Documentation/admin-guide/iostats.rst); the formulas are those of
iostat(1). It counts requests of all processes, but not pages that are still dirty in the page cache at the end.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from octavo.instruments.base import Reader, UnavailableError
from octavo.instruments.figures import Figure, PerTransaction, Rate, Ratio, Reading, Total
from octavo.instruments.target import Target
from octavo.observation import Metric

if TYPE_CHECKING:
    from octavo._core import DeviceStatistics

_KB = 1 / 1024
_COUNTERS = (
    "reads", "reads_merged", "read_bytes", "read_milliseconds", "writes", "writes_merged", "written_bytes",
    "write_milliseconds", "io_milliseconds", "weighted_io_milliseconds",
)  # fmt: skip
# Linux 5.5, of whole disks with a request queue (block/blk-flush.c): those of partitions and volumes are always zero.
_FLUSH_COUNTERS = ("flushes", "flush_milliseconds")
_DEVICES = Path("/sys/dev/block")


class DeviceActivity:
    """The device's counters."""

    period = 1.0
    asks_server = False
    figures: tuple[Figure, ...] = (
        Rate(Metric("device_reads_per_second", "reads a second (r/s)", "1/s"), "reads"),
        Rate(Metric("device_writes_per_second", "writes a second (w/s)", "1/s"), "writes"),
        Rate(Metric("device_read_kb_per_second", "read a second (rkB/s)", "kB/s"), "read_bytes", _KB),
        Rate(Metric("device_written_kb_per_second", "written a second (wkB/s)", "kB/s"), "written_bytes", _KB),
        Rate(Metric("device_flushes_per_second", "flushes a second (f/s)", "1/s"), "flushes"),
        Ratio(Metric("rareq_sz", "bytes per read (rareq-sz)", "bytes"), "read_bytes", "reads"),
        Ratio(Metric("wareq_sz", "bytes per write (wareq-sz)", "bytes"), "written_bytes", "writes"),
        Ratio(Metric("r_await", "time of a read, queueing included (r_await)", "ms"), "read_milliseconds", "reads"),
        Ratio(Metric("w_await", "time of a write, queueing included (w_await)", "ms"), "write_milliseconds", "writes"),
        Ratio(Metric("f_await", "time of a flush (f_await)", "ms"), "flush_milliseconds", "flushes"),
        Rate(Metric("aqu_sz", "requests in flight (aqu-sz)", "1"), "weighted_io_milliseconds", 1e-3),
        Rate(
            Metric("device_util", "share of the time with a request in flight (%util)", "fraction"),
            "io_milliseconds",
            1e-3,
        ),
        Rate(Metric("device_reads_merged_per_second", "reads merged a second (rrqm/s)", "1/s"), "reads_merged"),
        Rate(Metric("device_writes_merged_per_second", "writes merged a second (wrqm/s)", "1/s"), "writes_merged"),
        Total(Metric("device_read_bytes", "read at the device", "bytes"), "read_bytes"),
        Total(Metric("device_written_bytes", "written at the device", "bytes"), "written_bytes"),
        Total(Metric("device_reads", "reads at the device", "1"), "reads"),
        Total(Metric("device_writes", "writes at the device", "1"), "writes"),
        PerTransaction(
            Metric("device_read_bytes_per_transaction", "bytes read at the device per transaction", "bytes"),
            "read_bytes",
        ),
        PerTransaction(
            Metric("device_written_bytes_per_transaction", "bytes written at the device per transaction", "bytes"),
            "written_bytes",
        ),
        PerTransaction(
            Metric("device_read_requests_per_transaction", "device read requests per transaction", "1"), "reads"
        ),
        PerTransaction(
            Metric("device_write_requests_per_transaction", "device write requests per transaction", "1"), "writes"
        ),
    )

    def open(self, target: Target) -> Reader:
        """Raises UnavailableError on a filesystem without a device, or when the directory is not visible."""
        from octavo._core import device_statistics

        if target.directory is None:
            raise UnavailableError(target.no_directory)
        path = str(target.directory)

        def look() -> "DeviceStatistics":
            try:
                return device_statistics(path)
            except (LookupError, OSError, ValueError) as error:
                raise UnavailableError(str(error)) from error

        first = look()
        counts_flushes = (_DEVICES / f"{first.major}:{first.minor}" / "mq").exists()
        counters = (*_COUNTERS, *_FLUSH_COUNTERS) if counts_flushes else _COUNTERS

        def read() -> Reading:
            now = look()
            return {None: {name: value for name in counters if (value := getattr(now, name)) is not None}}

        return Reader(read)


INSTRUMENT = DeviceActivity()

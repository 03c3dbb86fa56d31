"""The block device under the data directory: what was read and written while the trial ran.

Source: /proc/diskstats, read by the Rust core (kernel Documentation/admin-guide/iostats.rst). It counts
everybody's requests, and what is still dirty in the page cache at the end is not in it.
"""

from octavo.instruments.base import Stop, UnavailableError, per_transaction
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import Server
from octavo.workloads.base import WorkloadResult

_READ = Metric("device_read_bytes", "read at the device", "bytes")
_WRITTEN = Metric("device_written_bytes", "written at the device", "bytes")
_READS = Metric("device_reads", "reads at the device", "1")
_WRITES = Metric("device_writes", "writes at the device", "1")
_READ_EACH = Metric("device_read_bytes_per_transaction", "device reads per transaction", "bytes")
_WRITTEN_EACH = Metric("device_written_bytes_per_transaction", "device writes per transaction", "bytes")
_READ_SIZE = Metric("rareq_sz", "bytes a read (rareq-sz)", "bytes")
_WRITE_SIZE = Metric("wareq_sz", "bytes a write (wareq-sz)", "bytes")


class Device:
    """Deltas of the device's counters."""

    metrics = (_READ, _WRITTEN, _READS, _WRITES, _READ_EACH, _WRITTEN_EACH, _READ_SIZE, _WRITE_SIZE)

    def start(self, server: Server) -> Stop:
        """Reads the counters now and at the stop. Raises UnavailableError on a filesystem without a device."""
        from octavo._core import device_statistics

        path = str(server.directory)
        try:
            before = device_statistics(path)
        except (LookupError, OSError, ValueError) as error:
            raise UnavailableError(str(error)) from error

        def stop(result: WorkloadResult) -> list[Observation]:
            after = device_statistics(path)
            reads, writes = after.reads - before.reads, after.writes - before.writes
            read = after.read_bytes - before.read_bytes
            written = after.written_bytes - before.written_bytes
            pairs = (
                (_READ, read), (_WRITTEN, written), (_READS, reads), (_WRITES, writes),
                (_READ_EACH, per_transaction(read, result)), (_WRITTEN_EACH, per_transaction(written, result)),
                (_READ_SIZE, read / reads if reads else None), (_WRITE_SIZE, written / writes if writes else None),
            )  # fmt: skip
            return [observe(metric, value) for metric, value in pairs if value is not None]

        return stop


INSTRUMENT = Device()

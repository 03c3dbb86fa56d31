"""PostgreSQL's requests to the kernel for relations, by backend type, and their sizes.

Source: pg_stat_io (PostgreSQL 16; "The Cumulative Statistics System"). Before 18 every request counts as one block.
"""

from octavo.instruments.base import Reader, UnavailableError
from octavo.instruments.figures import Figure, Rate, Ratio, Reading, Total
from octavo.instruments.target import Target
from octavo.observation import Metric

_SINCE = 160000


class ServerIo:
    """Counters by backend type."""

    period = 1.0
    asks_server = True
    figures: tuple[Figure, ...] = (
        Rate(Metric("server_reads_per_second", "read requests a second", "1/s"), "reads"),
        Rate(Metric("server_read_bytes_per_second", "read a second", "bytes/s"), "read_bytes"),
        Ratio(Metric("server_read_request_bytes", "bytes per read request", "bytes"), "read_bytes", "reads"),
        Rate(Metric("server_writes_per_second", "write requests a second", "1/s"), "writes"),
        Rate(Metric("server_written_bytes_per_second", "written a second", "bytes/s"), "written_bytes"),
        Ratio(Metric("server_write_request_bytes", "bytes per write request", "bytes"), "written_bytes", "writes"),
        Rate(Metric("server_extended_bytes_per_second", "added to relation files (extends) a second", "bytes/s"),
             "extended_bytes"),
        Rate(Metric("server_evictions_per_second", "buffers evicted a second", "1/s"), "evictions"),
        Total(Metric("server_reads", "read requests", "1"), "reads"),
        Total(Metric("server_writes", "write requests", "1"), "writes"),
        Total(Metric("server_written_bytes", "written to relations by the server", "bytes"), "written_bytes"),
    )  # fmt: skip

    def open(self, target: Target) -> Reader:
        """Raises UnavailableError before PostgreSQL 16."""
        if target.version < _SINCE:
            raise UnavailableError("pg_stat_io came with PostgreSQL 16")

        def read() -> Reading:
            return {row.pop("item"): row for row in target.query("io")}

        return Reader(read)


INSTRUMENT = ServerIo()

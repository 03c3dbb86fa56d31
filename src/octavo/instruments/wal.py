"""WAL that is generated, and WAL that is written.

`wal_bytes` is the growth of the insert position: records, full-page images and page headers. Records and images
separately come from pg_stat_wal, writes from pg_stat_io (PostgreSQL 18; "The Cumulative Statistics System"). A WAL page
that fills slowly is written once for each flush: `wal_amplification` is bytes written to the files of the WAL per byte
generated, the figure that a larger WAL block makes worse.
"""

from octavo.instruments.base import Reader
from octavo.instruments.figures import Figure, PerTransaction, Rate, Ratio, Reading, Total
from octavo.instruments.target import Target
from octavo.observation import Metric
from octavo.postgres.limits import WAL_BLOCKS
from octavo.units import parse_size

# A server that generates less than the smallest WAL block per second is idle: it only writes the few records of its
# own, each in a separate block.
LEAST_WAL = float(min(map(parse_size, WAL_BLOCKS)))


class WalActivity:
    """The insert position and the counters of pg_stat_wal."""

    period = 1.0
    asks_server = True
    figures: tuple[Figure, ...] = (
        Rate(Metric("wal_bytes_per_second", "WAL generated a second", "bytes/s"), "position"),
        Rate(Metric("wal_records_per_second", "WAL records a second", "1/s"), "records"),
        Rate(Metric("wal_full_page_images_per_second", "full-page images a second", "1/s"), "full_page_images"),
        Rate(Metric("wal_written_bytes_per_second", "WAL written a second", "bytes/s"), "written_bytes"),
        Rate(Metric("wal_writes_per_second", "WAL writes a second", "1/s"), "writes"),
        Rate(Metric("wal_syncs_per_second", "WAL syncs a second", "1/s"), "syncs"),
        Ratio(Metric("wal_write_request_bytes", "bytes per WAL write", "bytes"), "written_bytes", "writes"),
        Ratio(Metric("wal_amplification", "WAL written per WAL generated", "1", "lower"), "written_bytes", "position",
              least=LEAST_WAL),
        Total(Metric("wal_bytes", "WAL", "bytes"), "position"),
        PerTransaction(Metric("wal_bytes_per_transaction", "WAL per transaction", "bytes", "lower"), "position"),
        Total(Metric("wal_record_bytes", "WAL without page headers", "bytes"), "record_bytes"),
        Total(Metric("wal_records", "WAL records", "1"), "records"),
        Total(Metric("wal_full_page_images", "full-page images", "1"), "full_page_images"),
        PerTransaction(Metric("wal_full_page_images_per_transaction", "full-page images per transaction", "1"),
             "full_page_images"),
        Total(Metric("wal_written_bytes", "WAL written to its files", "bytes"), "written_bytes"),
        Total(Metric("wal_buffers_full", "WAL writes because the WAL buffers were full", "1"), "buffers_full"),
    )  # fmt: skip

    def open(self, target: Target) -> Reader:
        """Available on every supported version; figures that a version does not count are left out."""

        def read() -> Reading:
            return {None: target.query("wal_counters")[0]}

        return Reader(read)


INSTRUMENT = WalActivity()

"""Counters of the database: transactions, blocks accessed, blocks read from the kernel, rows.

Source: pg_stat_database (PostgreSQL's documentation, "The Cumulative Statistics System"), to which a backend reports at
most once a second, when it is idle, and when it exits. A read may be a page cache hit: compare with the device.
"""

from octavo.instruments.base import Reader
from octavo.instruments.figures import Figure, Gauge, PerTransaction, Rate, Ratio, Reading, Total
from octavo.instruments.target import Target
from octavo.observation import Metric


class Database:
    """Counters of the database of our connection."""

    period = 1.0
    asks_server = True
    figures: tuple[Figure, ...] = (
        Rate(Metric("transactions_per_second", "transactions a second, as the server counts them", "1/s"),
             "transactions"),
        Rate(Metric("block_reads_per_second", "blocks read into shared buffers a second", "1/s"), "reads"),
        Rate(Metric("block_read_bytes_per_second", "read into shared buffers a second", "bytes/s"), "read_bytes"),
        Ratio(Metric("buffer_hit_share", "buffer hit ratio", "fraction"), "hits", "lookups"),
        Rate(Metric("rows_returned_per_second", "rows of sequential and entries of index scans a second (tup_returned)",
                    "1/s"), "rows_returned"),
        Rate(Metric("rows_fetched_per_second", "live rows fetched by index scans a second (tup_fetched)", "1/s"),
             "rows_fetched"),
        Rate(Metric("rows_inserted_per_second", "rows inserted a second (tup_inserted)", "1/s"), "rows_inserted"),
        Rate(Metric("rows_updated_per_second", "rows updated a second (tup_updated)", "1/s"), "rows_updated"),
        Rate(Metric("rows_deleted_per_second", "rows deleted a second (tup_deleted)", "1/s"), "rows_deleted"),
        Rate(Metric("temp_bytes_per_second", "written to temporary files a second", "bytes/s"), "temp_bytes"),
        Gauge(Metric("connections", "connections to the database", "1"), "connections"),
        Total(Metric("block_reads", "blocks read into shared buffers", "1"), "reads"),
        Total(Metric("block_read_bytes", "read into shared buffers", "bytes"), "read_bytes"),
        Total(Metric("block_hits", "blocks found in shared buffers", "1"), "hits"),
        PerTransaction(Metric("block_reads_per_transaction", "block reads per transaction", "1"), "reads"),
        PerTransaction(
            Metric("block_hits_per_transaction", "blocks found in shared buffers per transaction", "1"), "hits"
        ),
        PerTransaction(Metric("rows_updated_per_transaction", "rows updated per transaction", "1"), "rows_updated"),
        Total(Metric("temp_bytes", "written to temporary files", "bytes"), "temp_bytes"),
    )  # fmt: skip

    def open(self, target: Target) -> Reader:
        """Available on every version."""

        def read() -> Reading:
            return {None: target.query("database")[0]}

        return Reader(read)


INSTRUMENT = Database()

"""WAL generated while the trial ran.

`wal_bytes` is how far the insert position moved: records, full-page images and page headers.
Records and images apart come from pg_stat_wal (PostgreSQL's documentation, "The Cumulative Statistics
System"), which backends report at the latest when they exit.
"""

from octavo.instruments.base import Stop, per_transaction
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import Server
from octavo.workloads.base import WorkloadResult

_BYTES = Metric("wal_bytes", "WAL", "bytes")
_BYTES_EACH = Metric("wal_bytes_per_transaction", "WAL per transaction", "bytes", "lower")
_RECORDS = Metric("wal_records", "WAL records", "1")
_IMAGES = Metric("wal_full_page_images", "full-page images", "1")
_IMAGES_EACH = Metric("wal_full_page_images_per_transaction", "full-page images per transaction", "1")
_CHECKPOINTS = Metric("checkpoints", "checkpoints during the trial", "1")


class Wal:
    """Deltas of the WAL position and of pg_stat_wal."""

    metrics = (_BYTES, _BYTES_EACH, _RECORDS, _IMAGES, _IMAGES_EACH, _CHECKPOINTS)

    def start(self, server: Server) -> Stop:
        """Reads the counters now and at the stop, over a connection that is closed in between."""
        (before,) = server.query("wal")
        checkpoints = server.query("checkpoints")[0]["checkpoints"]
        server.disconnect()

        def stop(result: WorkloadResult) -> list[Observation]:
            (after,) = server.query("wal")
            generated = after["position"] - before["position"]
            images = after["full_page_images"] - before["full_page_images"]
            pairs = (
                (_BYTES, generated),
                (_BYTES_EACH, per_transaction(generated, result)),
                (_RECORDS, after["records"] - before["records"]),
                (_IMAGES, images),
                (_IMAGES_EACH, per_transaction(images, result)),
                (_CHECKPOINTS, server.query("checkpoints")[0]["checkpoints"] - checkpoints),
            )
            return [observe(metric, float(value)) for metric, value in pairs if value is not None]

        return stop


INSTRUMENT = Wal()

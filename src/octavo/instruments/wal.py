"""WAL generated while the trial ran.

`wal_bytes` is how far the insert position moved: records, full-page images and page headers.
Records and images apart come from pg_stat_wal (PostgreSQL's documentation, "The Cumulative Statistics
System"), which backends report at the latest when they exit.
"""

import time

from octavo.instruments.base import Stop, per_transaction
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import Server
from octavo.workloads.base import WorkloadResult

_BYTES = Metric("wal_bytes", "WAL", "bytes")
_BYTES_EACH = Metric("wal_bytes_per_transaction", "WAL per transaction", "bytes", "lower")
_RECORD_BYTES = Metric("wal_record_bytes", "WAL without page headers", "bytes")
_CREATED = Metric("wal_segments_created", "WAL segments created, not recycled", "1")
_RECORDS = Metric("wal_records", "WAL records", "1")
_IMAGES = Metric("wal_full_page_images", "full-page images", "1")
_IMAGES_EACH = Metric("wal_full_page_images_per_transaction", "full-page images per transaction", "1")
_CHECKPOINTS = Metric("checkpoints", "checkpoints during the trial", "1")

_LEAVING_SECONDS = 5.0


class Wal:
    """Deltas of the WAL position and of pg_stat_wal."""

    metrics = (_BYTES, _BYTES_EACH, _RECORD_BYTES, _CREATED, _RECORDS, _IMAGES, _IMAGES_EACH, _CHECKPOINTS)

    def start(self, server: Server) -> Stop:
        """Reads the counters now and at the stop, over a connection that is closed in between."""
        (before,) = server.query("wal")
        checkpoints = server.query("checkpoints")[0]["checkpoints"]
        segments = _segments(server)
        server.disconnect()

        def stop(result: WorkloadResult) -> list[Observation]:
            _wait_for_clients_to_leave(server)
            (after,) = server.query("wal")
            generated = after["position"] - before["position"]
            images = after["full_page_images"] - before["full_page_images"]
            pairs = (
                (_BYTES, generated),
                (_BYTES_EACH, per_transaction(generated, result)),
                (_RECORD_BYTES, after["record_bytes"] - before["record_bytes"]),
                (_CREATED, _segments(server) - segments),
                (_RECORDS, after["records"] - before["records"]),
                (_IMAGES, images),
                (_IMAGES_EACH, per_transaction(images, result)),
                (_CHECKPOINTS, server.query("checkpoints")[0]["checkpoints"] - checkpoints),
            )
            return [observe(metric, float(value)) for metric, value in pairs if value is not None]

        return stop


def _segments(server: Server) -> int:
    """How many segment files there are; more after a trial without a checkpoint were created in it."""
    return sum(len(path.name) == 24 for path in (server.directory / "pg_wal").iterdir())


def _wait_for_clients_to_leave(server: Server) -> None:
    """A backend reports the rest of its statistics when it exits, a moment after its client has."""
    deadline = time.monotonic() + _LEAVING_SECONDS
    while server.query("other_clients")[0]["clients"] and time.monotonic() < deadline:
        time.sleep(0.01)


INSTRUMENT = Wal()

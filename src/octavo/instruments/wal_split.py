"""The composition of a trial's WAL: records, full-page images, page headers (`postgres.wal_contents`).

It is read after the measured time. Of more than 512 MB, whole segments spread evenly over the trial are read (512 MB of
one of 1 GB), and `wal_inspected_share` is their share; nothing is extrapolated.
"""

from octavo.instruments.base import Stop, UnavailableError
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import Server
from octavo.postgres.wal_contents import contents, position, segments
from octavo.workloads.base import WorkloadResult

_INSPECTED = Metric("wal_inspected_share", "share of the trial's WAL that was analysed", "fraction")
_RECORDS = Metric("wal_records_share", "records without images, of the analysed WAL", "fraction")
_IMAGES = Metric("wal_images_share", "full-page images, of the analysed WAL", "fraction")
_HEADERS = Metric("wal_header_bytes", "page headers of the WAL", "bytes")
_CREATED = Metric("wal_segments_created", "WAL segments created, not recycled", "1")


class WalSplit:
    """Reads the trial's WAL once more."""

    metrics = (_INSPECTED, _RECORDS, _IMAGES, _HEADERS, _CREATED)

    def start(self, server: Server) -> Stop:
        """Records the WAL position. Raises UnavailableError if the build has no pg_waldump."""
        if not server.build.program("pg_waldump").exists():
            raise UnavailableError("the build has no pg_waldump")
        before, there = position(server), segments(server.directory)

        def stop(result: WorkloadResult) -> list[Observation]:
            after = position(server)
            created = float(max(0, len(segments(server.directory)) - len(there)))
            found = contents(server, before.end, after)
            seen = [observe(_CREATED, created), observe(_HEADERS, float(found.headers))]
            if after.end <= before.end:
                return seen
            seen.append(observe(_INSPECTED, found.inspected / (after.end - before.end)))
            if found.inspected:
                seen += [
                    observe(_RECORDS, found.records / found.inspected),
                    observe(_IMAGES, found.images / found.inspected),
                ]
            return seen

        return stop


INSTRUMENT = WalSplit()

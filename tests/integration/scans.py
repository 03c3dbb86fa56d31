"""A second instrument, in one file: sequential scans of user tables during the trial."""

from octavo.instruments.base import Stop
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import Server
from octavo.workloads.base import WorkloadResult

_SCANS = Metric("sequential_scans", "sequential scans", "1")
_QUERY = b"SELECT coalesce(sum(seq_scan), 0)::float8 AS scans FROM pg_stat_user_tables"


class Scans:
    metrics = (_SCANS,)

    def start(self, server: Server) -> Stop:
        (before,) = server.connection.execute(_QUERY).fetchall()

        def stop(result: WorkloadResult) -> list[Observation]:
            (after,) = server.connection.execute(_QUERY).fetchall()
            return [observe(_SCANS, after["scans"] - before["scans"])]

        return stop


INSTRUMENT = Scans()

"""The statements that took most of the trial's time, with what each read and wrote.

Source: pg_stat_statements, if the plan's settings load it (shared_preload_libraries). The extension is created in the
trial's copy of the database, before the measured time.
"""

from octavo.instruments.base import NOT_COUNTED, NotAskedError, Stop
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import Server
from octavo.workloads.base import WorkloadResult

_CALLS = Metric("statement_calls", "calls", "1")
_TIME = Metric("statement_seconds", "time in the server, all calls", "seconds")
_READS = Metric("statement_block_reads", "blocks read into shared buffers", "1")
_HITS = Metric("statement_block_hits", "blocks found in shared buffers", "1")
_TEMPORARY = Metric("statement_temp_blocks", "blocks of temporary files read and written", "1")
_WAL = Metric("statement_wal_bytes", "WAL", "bytes")
_COLUMNS = (
    (_CALLS, "calls", 1.0), (_TIME, "milliseconds", 1e-3), (_READS, "reads", 1.0), (_HITS, "hits", 1.0),
    (_TEMPORARY, "temporary", 1.0), (_WAL, "wal_bytes", 1.0),
)  # fmt: skip

_MOST = 20


class Statements:
    """Deltas by statement; an item is its text as PostgreSQL normalised it, shortened."""

    metrics = (_CALLS, _TIME, _READS, _HITS, _TEMPORARY, _WAL)

    def start(self, server: Server) -> Stop:
        """Raises NotAskedError when the library is not loaded."""
        if not server.query("has_statements")[0]["preloaded"]:
            raise NotAskedError("pg_stat_statements is not among shared_preload_libraries")
        server.connection.execute(NOT_COUNTED)
        server.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        before = {row["item"]: row for row in server.query("statements")}

        def stop(result: WorkloadResult) -> list[Observation]:
            server.connection.execute(NOT_COUNTED)
            grown = [
                (row["item"], {key: row[key] - before.get(row["item"], {}).get(key, 0.0) for _, key, _ in _COLUMNS})
                for row in server.query("statements")
            ]
            # One that the extension dropped for lack of room, and met again, counts from zero.
            grown = [(item, growth) for item, growth in grown if growth["calls"] > 0 and min(growth.values()) >= 0]
            grown.sort(key=lambda pair: -pair[1]["milliseconds"])
            return [
                observe(metric, growth[key] * scale, item=item)
                for item, growth in grown[:_MOST]
                for metric, key, scale in _COLUMNS
            ]

        return stop


INSTRUMENT = Statements()

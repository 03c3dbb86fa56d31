"""The sizes of the largest tables and indexes, and their growth during the trial.

Source: pg_relation_size of the main fork (PostgreSQL's documentation, "Database Object Management Functions").
"""

from octavo.instruments.base import Stop
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import Server
from octavo.workloads.base import WorkloadResult

_BYTES = Metric("relation_bytes", "size at the end", "bytes")
_GROWTH = Metric("relation_growth_bytes", "growth in the trial", "bytes")


class Relations:
    """Sizes before and after; an item is a table or an index."""

    metrics = (_BYTES, _GROWTH)

    def start(self, server: Server) -> Stop:
        """Available on every version."""
        before: dict[str, float] = {row["item"]: row["bytes"] for row in server.query("relations")}

        def stop(result: WorkloadResult) -> list[Observation]:
            found: list[Observation] = []
            for row in server.query("relations"):
                found.append(observe(_BYTES, row["bytes"], item=row["item"]))
                # One that is among the largest only now has not grown by all of its size.
                if growth := row["bytes"] - before.get(row["item"], row["bytes"]):
                    found.append(observe(_GROWTH, growth, item=row["item"]))
            return found

        return stop


INSTRUMENT = Relations()

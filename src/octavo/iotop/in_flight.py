"""The backends for which PostgreSQL's I/O workers read: unknown to the kernel, but shown at each moment by `pg_aios`
(PostgreSQL 18)."""

from collections import Counter

from octavo.instruments.target import Target
from octavo.iotop.polled_query import PolledQuery


class InFlight:
    """Bytes in flight by process, added up over moments: a sample. For one thread at a time.

    Source: PostgreSQL 18 documentation, "pg_aios".
    """

    def __init__(self, target: Target) -> None:
        self._asked = PolledQuery(target, "in_flight")
        self._bytes: Counter[int] = Counter()

    @property
    def off(self) -> str | None:
        """Why it cannot be told, if it cannot."""
        return self._asked.off

    def sample(self) -> None:
        """Adds the requests in flight now."""
        self._bytes.update({row["pid"]: row["bytes"] for row in self._asked.rows()})

    def take(self) -> dict[int, float]:
        """The share of each process since the last time, largest first; empty when nothing was met in flight."""
        found, self._bytes = self._bytes, Counter()
        whole = found.total()
        return {pid: size / whole for pid, size in found.most_common() if size}

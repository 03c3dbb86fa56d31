"""For whom PostgreSQL's I/O workers read: the kernel does not know, `pg_aios` (PostgreSQL 18) does at each moment."""

from collections import Counter

import psycopg

from octavo.instruments.target import Target
from octavo.iotop.clean import one_line


class InFlight:
    """Bytes in flight by process, added up over moments: a sample. One that is refused is so for good; `off` says why.

    Source: PostgreSQL 18 documentation, "pg_aios".
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._bytes: Counter[int] = Counter()
        self.off: str | None = None

    def sample(self) -> None:
        """Adds what is in flight now."""
        if self.off is not None:
            return
        try:
            rows = self._target.query("in_flight")
        except psycopg.errors.QueryCanceled:  # a server that is busy now may answer the next time
            return
        except psycopg.errors.InsufficientPrivilege:
            self.off = "for whom io workers read: this user may not read pg_aios (GRANT pg_monitor)"
        except psycopg.Error as error:
            self.off = f"the server does not tell for whom io workers read: {one_line(str(error))}"
        else:
            self._bytes.update({row["pid"]: row["bytes"] for row in rows})

    def take(self) -> dict[int, float]:
        """The share of each process since the last time, largest first; empty when nothing was met in flight."""
        found, self._bytes = self._bytes, Counter()
        whole = found.total()
        return {pid: size / whole for pid, size in found.most_common() if size}

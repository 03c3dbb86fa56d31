"""A query that is repeated periodically on a server that may be busy, refuse it, or end."""

import psycopg

from octavo.instruments.target import Rows, Target
from octavo.iotop.terminal_text import one_line


class PolledQuery:
    """A query of `postgres/sql`. Once refused or lost it stays off, and `off` gives the reason."""

    def __init__(self, target: Target, name: str, off: str | None = None) -> None:
        self._target, self._name = target, name
        self.off = off

    def rows(self) -> Rows:
        """Its current rows; empty if they are not available."""
        if self.off is not None:
            return []
        try:
            return self._target.query(self._name)
        except psycopg.errors.QueryCanceled:  # a server that is busy now may answer the next time
            return []
        except psycopg.errors.InsufficientPrivilege as error:
            self.off = f"{one_line(str(error))} (GRANT pg_monitor)"
        except psycopg.Error as error:
            self.off = f"not reported by the server: {one_line(str(error))}"
        return []

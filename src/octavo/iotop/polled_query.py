"""A query that is repeated periodically on a server that may be busy, refuse it, or end."""

import psycopg
from psycopg import errors

from octavo.errors import HostError
from octavo.instruments.target import Rows, Target
from octavo.iotop.terminal_text import one_line

# A server that is busy now may answer the next time. A query that pg_stat_activity shows of a database with another
# encoding may be no text in ours, and the server then refuses all rows while it is there.
_PASSES = (
    errors.QueryCanceled, errors.LockNotAvailable, errors.CharacterNotInRepertoire, errors.UntranslatableCharacter,
)  # fmt: skip


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
        except _PASSES:
            return []
        except errors.InsufficientPrivilege as error:
            self.off = f"{one_line(str(error))} (GRANT pg_monitor)"
        except (HostError, psycopg.Error) as error:  # HostError: a pooler that now refuses our limits
            self.off = f"not reported by the server: {one_line(str(error))}"
        return []

"""The claim on a run in a store that several hosts share: its coordinator holds an advisory lock in the server.

The server frees it when the coordinator's connection ends, however that ends, so nothing has to be cleaned up, and a
read-only role sees it in pg_locks (https://www.postgresql.org/docs/18/explicit-locking.html#ADVISORY-LOCKS).
"""

import zlib
from typing import TYPE_CHECKING, Any

from octavo.errors import UsageError
from octavo.store.address import ServerAddress

if TYPE_CHECKING:
    import psycopg

# The first of a lock's two keys is ours, the second is the run's; 0 is that of who makes or migrates the tables.
NAMESPACE = 1329812566
# One whose coordinator has just ended is held for a moment yet, until its session in the server has ended, too.
_PATIENCE = "5s"
# A session that only holds a lock is idle for as long as a trial lasts. PostgreSQL 13 has no such limit.
_STAY = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'"
HELD = """
SELECT objid::bigint FROM pg_locks
WHERE locktype = 'advisory' AND classid = 1329812566 AND objsubid = 2 AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


def key_of(run: str) -> int:
    """The key of a run as pg_locks shows it, 32 bits without sign."""
    return zlib.crc32(run.encode("utf-8", "replace")) or 1


class Claim:
    """The lock on one run, for as long as the connection lives."""

    def __init__(self, address: ServerAddress, run: str) -> None:
        self._address = address
        self._run = run
        self._connection: psycopg.Connection[Any] | None = None

    def hold(self) -> None:
        """Takes the lock unless we have it. Raises UsageError when another coordinator does, psycopg.Error."""
        import psycopg

        if self._connection is not None:
            try:
                self._connection.execute("SELECT 1")
            except psycopg.Error:  # the server was restarted
                self.close()
            else:
                return
        connection = self._address.connect(autocommit=True)
        key = key_of(self._run)
        signed = key - 2**32 if key >= 2**31 else key
        try:
            connection.execute(_STAY)
            connection.execute("SELECT set_config('lock_timeout', %s, false)", (_PATIENCE,))
            connection.execute("SELECT pg_advisory_lock(%s::int, %s::int)", (NAMESPACE, signed))
        except BaseException as error:
            connection.close()
            if isinstance(error, psycopg.errors.LockNotAvailable):
                raise UsageError(f"another coordinator is running {self._run}; wait for it, or stop it") from None
            raise
        self._connection = connection

    def close(self) -> None:
        """Frees it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

"""A checkpoint during the scan: dirties buffers before it, and measures for how much of the scan's time it ran."""

import threading
import time
from types import TracebackType
from typing import Self

import psycopg

from octavo.errors import OctavoError
from octavo.postgres.cluster import DATABASE, Server

# A row of 240 bytes with header and line pointer: it fits every block size, and nothing is compressed.
_FILLER, _ROW = 200, 240


def make_dirty(server: Server, amount: int) -> None:
    """Fills about so many bytes of shared buffers with dirty blocks of a separate table, for a checkpoint to write.

    It uses INSERT, because CREATE TABLE AS writes its blocks itself (a ring of buffers, BAS_BULKWRITE).
    """
    server.execute("CHECKPOINT")  # writes left from the start are not the scan's
    server.execute("CREATE TABLE dirtied (filler text NOT NULL)")
    server.execute("ALTER TABLE dirtied ALTER COLUMN filler SET STORAGE PLAIN")
    server.execute(
        f"INSERT INTO dirtied SELECT repeat('x', {_FILLER}) "  # noqa: S608  # numbers of our own
        f"FROM generate_series(1, {max(1, amount // _ROW)})"
    )


class CheckpointBeside:
    """A context manager that runs CHECKPOINT in another session: started on entry, waited for on exit."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._began = self._ended = 0.0
        self._asked = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoint", daemon=True)
        self._problem: Exception | None = None

    def __enter__(self) -> Self:
        self._connection = self._server.connect(DATABASE)
        self._thread.start()
        self._asked.wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        self._thread.join()
        self._connection.close()
        if kind is None and self._problem is not None:
            raise OctavoError(f"the checkpoint beside the scan failed: {self._problem}") from self._problem

    def share_of(self, began: float, seconds: float) -> float:
        """The share of the `seconds` from `began` on (time.perf_counter) during which it ran."""
        return overlap(self._began, self._ended, began, began + seconds) / seconds

    def _run(self) -> None:
        self._began = time.perf_counter()
        self._asked.set()
        try:
            self._connection.execute("CHECKPOINT")
        except psycopg.Error as error:
            self._problem = error
        self._ended = time.perf_counter()


def overlap(one_began: float, one_ended: float, other_began: float, other_ended: float) -> float:
    """The length of the overlap of two intervals.

    >>> overlap(1.0, 3.0, 2.0, 6.0), overlap(1.0, 2.0, 3.0, 4.0)
    (1.0, 0.0)
    """
    return max(0.0, min(one_ended, other_ended) - max(one_began, other_began))

"""After the kill: the server recovers by itself, or is restarted if its postmaster was killed; then its contents are
verified."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psycopg

from octavo.errors import OctavoError
from octavo.postgres import cluster
from octavo.postgres.cluster import DATABASE, Server
from octavo.text import one_line

_RECOVERY_SECONDS = 300.0
_LOG_SECONDS = 10.0
_PAUSE_SECONDS = 0.05
_LONGEST_LINE = 65536


@dataclass(frozen=True, slots=True)
class Recovered:
    """The time until the first answer, and the ledger's entries: connection and number."""

    seconds: float
    entries: set[tuple[int, int]]


def ledger_of(server: Server) -> Recovered:
    """The contents of the ledger once the server responds again. Raises OctavoError if it does not."""
    began = time.monotonic()
    while True:
        try:
            if server.is_alive():
                return _read(server, began)
            with _started_again(server) as again:
                return _read(again, began)
        except (psycopg.Error, OctavoError) as error:
            if time.monotonic() - began > _RECOVERY_SECONDS:
                raise OctavoError(f"the server did not recover: {one_line(error)}") from None
        time.sleep(_PAUSE_SECONDS)


def log_lines(server: Server, offset: int) -> Iterator[str]:
    """The server's log from this byte on, including the next seconds while the postmaster exists.

    A connection may break before the postmaster has reaped the killed process and logged it. The server's account can
    write anything into the log: a line is read in parts, and text written meanwhile is read next time.
    """
    deadline = time.monotonic() + _LOG_SECONDS
    with server.log.open("rb") as file:
        file.seek(offset)
        while True:
            alive = server.is_alive()
            end = os.fstat(file.fileno()).st_size
            while file.tell() < end and (line := file.readline(_LONGEST_LINE)):
                yield line.decode(errors="replace")
            if not alive or time.monotonic() > deadline:
                return
            time.sleep(_PAUSE_SECONDS)


def _read(server: Server, began: float) -> Recovered:
    with server.connect(DATABASE) as connection:
        rows = connection.execute("SELECT connection, entry FROM ledger").fetchall()
        seconds = time.monotonic() - began
    return Recovered(seconds, {(int(row["connection"]), int(row["entry"])) for row in rows})


def _started_again(server: Server) -> Server:
    """Starts another postmaster on the killed one's data, with its settings and outside of its memory group."""
    log = Path(f"{server.log}.again")
    settings = settings_in(server.arguments)
    return cluster.start(server.build, server.directory, settings, server.journal, server.account, log=log)


def settings_in(arguments: Sequence[str | Path]) -> dict[str, str]:
    """The settings of a postmaster's command line.

    >>> settings_in(["postgres", "-D", Path("data"), "-c", "shared_buffers=1GB", "-c", "log_line_prefix=%m ="])
    {'shared_buffers': '1GB', 'log_line_prefix': '%m ='}
    """
    given = (str(value).partition("=") for option, value in pairwise(arguments) if option == "-c")
    return {name: value for name, _, value in given}

"""The server's log during a trial: its size is limited, and it is never read into memory as a whole."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from octavo.errors import OctavoError
from octavo.units import human_size

# The log of a good trial has kilobytes. Errors in every transaction write megabytes per second.
_LARGEST = 256 * 1024**2
_KEPT = 1024**2
_PERIOD_SECONDS = 0.5
_PATIENCE_SECONDS = 30.0
# The part of the log that the validity rules examine, and how much of it is kept.
_TELLING = re.compile(
    rb"(?:ERROR|FATAL|PANIC):  |No space left on device|Disk quota exceeded|"
    rb"terminating any other active server processes|\(PID \d+\) (?:was terminated by|exited with)"
)
_MOST = 16 * 1024**2
_LONGEST_LINE = 64 * 1024


@contextmanager
def limited_log(
    log: Path, server: "Callable[[], subprocess.Popen[str]]", largest: int = _LARGEST
) -> Generator[None, None, None]:
    """Ends the server if its log grows beyond so many bytes; the first megabyte is kept. `server` returns its process,
    which changes on a restart.

    In that case raises OctavoError, instead of the resulting error.
    """
    over, grown = threading.Event(), threading.Event()

    def watch() -> None:
        while not over.wait(_PERIOD_SECONDS):
            with suppress(OSError):
                if log.stat().st_size > largest:
                    grown.set()
                    server().send_signal(signal.SIGQUIT)
                    return

    watching = threading.Thread(target=watch, name="log", daemon=True)
    watching.start()
    problem: Exception | None = None
    try:
        yield
    except (OctavoError, psycopg.Error) as error:
        problem = error
    finally:
        over.set()
        watching.join()
    if grown.is_set():
        with suppress(subprocess.TimeoutExpired):
            server().wait(_PATIENCE_SECONDS)
        os.truncate(log, _KEPT)
        raise OctavoError(
            f"the server's log grew beyond {human_size(largest)}, so the trial was stopped; see its first "
            f"{human_size(_KEPT)} in {log}"
        ) from problem
    if problem is not None:
        raise problem


def read_log(log: Path, most: int = _MOST) -> str:
    """The log as text; if it is larger than so many bytes, only its lines about errors and crashes, as many as fit."""
    with log.open("rb") as file:
        if os.fstat(file.fileno()).st_size <= most:
            return file.read(most).decode(errors="replace")
        kept: list[bytes] = []
        size = 0
        while size < most and (line := file.readline(_LONGEST_LINE)):
            if _TELLING.search(line):
                kept.append(line)
                size += len(line)
    return b"".join(kept).decode(errors="replace")

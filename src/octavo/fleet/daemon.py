"""A process of its own that outlives who started it: the scheduler, and the worker of a host.

It is known by a file with its identity, and stopped by that, never by its name. Its log has a bound: anybody who can
reach what it listens on can have it log something.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from octavo.errors import HostError, OctavoError
from octavo.fleet.certificates import directory
from octavo.home import write_durably
from octavo.host.process import ProcessIdentity, is_alive, itself, signal_to
from octavo.host.safe_read import read_tail, read_text

Ready = Callable[[], None]

_PATIENCE_SECONDS = 60.0
_BETWEEN_SECONDS = 0.05
# Of a log that grows beyond the first the second is kept; how often it is looked at, in seconds.
_LARGEST_LOG, _KEPT_OF_LOG = 8 * 1024**2, 1024**2
_BETWEEN_LOOKS = 2.0


def running(name: str) -> ProcessIdentity | None:
    """The process of this name, if it lives."""
    try:
        found = json.loads(read_text(_note(name)))
        identity = ProcessIdentity(int(found["pid"]), int(found["start_time"]), str(found["boot_id"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return identity if is_alive(identity) else None


def start(name: str, serve: Callable[[Ready], None]) -> int:
    """Starts the process unless it is there, and returns its pid. `serve` calls its argument once it is ready.

    Raises HostError with the last line of its log when it ends before that.
    """
    if (there := running(name)) is not None:
        return there.pid
    reader, writer = os.pipe()
    if child := os.fork():
        os.close(writer)
        os.waitpid(child, 0)
        with os.fdopen(reader) as told:
            pid = told.readline().strip()
        if not pid:
            raise HostError(f"the {name} did not start: {_last_words(name)}")
        return int(pid)
    os.close(reader)
    _become(name, serve, writer)
    raise AssertionError("a process of its own does not return")


def stop(name: str) -> bool:
    """Ends the process and waits until it is gone; whether there was one. Raises HostError when it does not end."""
    identity = running(name)
    if identity is None:
        return False
    signal_to(identity, signal.SIGTERM)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while is_alive(identity):
        if time.monotonic() > deadline:
            raise HostError(f"the {name} (pid {identity.pid}) does not stop; its log is {_log(name)}")
        time.sleep(_BETWEEN_SECONDS)
    _note(name).unlink(missing_ok=True)
    return True


def _become(name: str, serve: Callable[[Ready], None], writer: int) -> None:
    """What is left of the fork: a session of its own, its output a log, and at the end no way back."""
    code = 1
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        log = os.open(_log(name), os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        for descriptor, of in ((null, 0), (log, 1), (log, 2)):
            os.dup2(descriptor, of)
        os.chdir("/")
        threading.Thread(target=_keep_short, args=(log,), name="log", daemon=True).start()
        me = itself()
        write_durably(
            _note(name), json.dumps({"pid": me.pid, "start_time": me.start_time, "boot_id": me.boot_id}) + "\n"
        )

        def ready() -> None:
            os.write(writer, f"{me.pid}\n".encode())
            os.close(writer)

        serve(ready)
        code = 0
    except KeyboardInterrupt:
        code = 0
    except (OctavoError, OSError) as error:
        print(f"octavo: {error}", file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _keep_short(log: int) -> None:
    """Cuts the log, which everybody appends to, whenever it has become too large."""
    while True:
        time.sleep(_BETWEEN_LOOKS)
        with suppress(OSError):  # a full disk: once more
            cut_log(log)


def cut_log(log: int) -> None:
    """Leaves the end of a log that has become too large. What is written at that moment may be lost."""
    size = os.fstat(log).st_size
    if size > _LARGEST_LOG:
        end = os.pread(log, _KEPT_OF_LOG, size - _KEPT_OF_LOG)
        os.ftruncate(log, 0)
        os.write(log, b"[...]\n" + end)


def _note(name: str) -> Path:
    return directory() / f"{name}.json"


def _log(name: str) -> Path:
    return directory() / f"{name}.log"


def _last_words(name: str) -> str:
    try:
        lines = read_tail(_log(name)).strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "no output"

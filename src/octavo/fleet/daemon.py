"""A separate process that outlives the process that started it: the scheduler, and the worker of a host.

It is a separate Python process that inherits no locks, files or threads, because a coordinator may start the scheduler
in the middle of a run. It is identified and stopped by its file, never by its name. The size of its log is limited,
because anybody who can reach its port can make it log.

`start` runs `python -m octavo.fleet.daemon scheduler DESCRIPTOR LISTEN` or `worker DESCRIPTOR SCHEDULER LISTEN NAME`.
The descriptor is a pipe on which the process reports that it is ready.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from octavo.errors import HostError, OctavoError
from octavo.fleet.certificates import directory
from octavo.home import write_durably
from octavo.host.foreground import interrupt_once
from octavo.host.process import ProcessIdentity, is_alive, itself, signal_to
from octavo.host.safe_read import read_tail, read_text
from octavo.text import one_line

SCHEDULER = "scheduler"
WORKER = "worker"

Ready = Callable[[], None]

_PATIENCE_SECONDS = 60.0
_BETWEEN_SECONDS = 0.05
# A log larger than the first is cut to the second, in bytes. Then the seconds between two checks of its size.
_LARGEST_LOG, _KEPT_OF_LOG = 8 * 1024**2, 1024**2
_BETWEEN_LOOKS = 2.0


def running(name: str) -> ProcessIdentity | None:
    """The process of this name if it is running, otherwise None."""
    try:
        found = json.loads(read_text(_note(name)))
        identity = ProcessIdentity(int(found["pid"]), int(found["start_time"]), str(found["boot_id"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return identity if is_alive(identity) else None


def _words(name: str) -> list[str] | None:
    """The arguments that the process of this name was started with; None if they were not recorded."""
    try:
        found: Any = json.loads(read_text(_note(name)))["words"]
        return [str(word) for word in found]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def start(name: str, *words: str) -> int:
    """Starts the process unless it is running. Returns its pid once it is ready. `words` are its arguments.

    Raises HostError with the last line of its log when the process ends before it is ready, and when it is running with
    other arguments: a worker for another scheduler would never come to ours.
    """
    with _alone(name):
        if (there := running(name)) is not None:
            if (others := _words(name)) is not None and others != list(words):
                raise HostError(
                    f"the {name} (pid {there.pid}) was started with {one_line(' '.join(others))} instead of "
                    f"{one_line(' '.join(words))}; stop it first: octavo fleet stop"
                )
            return there.pid
        logged = _size_of_log(name)
        reader, writer = os.pipe()
        with os.fdopen(reader) as told:
            try:
                first = _launch(name, writer, words)
            finally:
                os.close(writer)
            pid = told.readline().strip()
        first.wait()
        if not pid:
            raise HostError(f"the {name} did not start: {_last_words(name, logged)}")
        return int(pid)


@contextmanager
def _alone(name: str) -> Generator[None, None, None]:
    """Holds a lock so that nobody else starts or stops it: of two started at once, one would not be in the file."""
    lock = os.open(directory() / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _launch(name: str, writer: int, words: Sequence[str]) -> "subprocess.Popen[bytes]":
    # Without -I the environment may say where Octavo is, but the current directory is never searched (-P).
    python = [sys.executable, "-I" if sys.flags.isolated else "-P"]
    # Appended to: a worker that has died is started again at once, and says here why it died.
    log = os.open(_log(name), os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        return subprocess.Popen(
            [*python, "-m", "octavo.fleet.daemon", name, str(writer), *words],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=[writer],
        )  # fmt: skip
    finally:
        os.close(log)


def stop(name: str) -> bool:
    """Ends the process and waits for its exit. Returns whether it was running. Raises HostError when it does not
    end."""
    with _alone(name):
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


def main() -> None:
    """The entry point of the process that `start` runs: detaches from its parent, writes its identity, and serves."""
    name, writer, *words = sys.argv[1:]
    if os.fork():
        os._exit(0)
    code = 1
    try:
        interrupt_once()
        os.umask(0o022)  # the servers' user needs access to builds and sockets
        os.chdir("/")
        threading.Thread(target=_keep_short, args=(sys.stdout.fileno(),), name="log", daemon=True).start()
        me = itself()
        note = {"pid": me.pid, "start_time": me.start_time, "boot_id": me.boot_id, "words": words}
        write_durably(_note(name), json.dumps(note) + "\n")

        def ready() -> None:
            os.write(int(writer), f"{me.pid}\n".encode())
            os.close(int(writer))

        _serve(name, words, ready)
        code = 0
    except KeyboardInterrupt:
        code = 0
    except (OctavoError, OSError) as error:
        print(f"octavo: {error}", file=sys.stderr)
    except Exception:  # a bug: print it now, because os._exit below would lose it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _serve(name: str, words: Sequence[str], ready: Ready) -> None:
    from octavo.fleet import servers

    if name == SCHEDULER:
        (listen,) = words
        servers.serve_scheduler(listen, ready)
    else:
        scheduler, listen, host = words
        servers.serve_host(scheduler, listen, host, ready)


def _keep_short(log: int) -> None:
    """Cuts the log, which is open for appending, whenever it has become too large."""
    while True:
        time.sleep(_BETWEEN_LOOKS)
        with suppress(OSError):  # a full disk: try again later
            cut_log(log)


def cut_log(log: int) -> None:
    """Keeps only the end of a log that has become too large. A line written at that moment may be lost."""
    size = os.fstat(log).st_size
    if size > _LARGEST_LOG:
        end = os.pread(log, _KEPT_OF_LOG, size - _KEPT_OF_LOG)
        os.ftruncate(log, 0)
        os.write(log, b"[...]\n" + end)


def _note(name: str) -> Path:
    return directory() / f"{name}.json"


def _log(name: str) -> Path:
    return directory() / f"{name}.log"


def _size_of_log(name: str) -> int:
    with suppress(OSError):
        return _log(name).stat().st_size
    return 0


def _last_words(name: str, logged: int) -> str:
    """The last line of the log behind the bytes that were there before."""
    try:
        new = max(0, _size_of_log(name) - logged)
        lines = read_tail(_log(name), min(new, _KEPT_OF_LOG)).strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "no output"


if __name__ == "__main__":
    main()

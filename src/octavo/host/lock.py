"""One run at a time on a host, because two concurrent runs would disturb each other.

The lock is a file in the runtime directory (flock(2)). Only root can open root's lock, so nobody else can hold it, and
it is the same file in every network namespace. The holder is recorded beside it, readable by all, so that other users
wait for a run of root's. Their own runs block neither root nor each other; whoever starts one meanwhile gets a warning.
"""

import errno
import fcntl
import os
import socket
import struct
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from octavo.errors import HostError
from octavo.home import runtime_directory
from octavo.host.process import ProcessIdentity, is_alive, itself

_LOCK = "run.lock"
_OWNER = "run.owner"
_ROOTS = Path("/run/octavo")
# A name in the abstract namespace (unix(7)) that anybody may take: it tells, it does not lock.
_TOLD = "\0octavo-run"
_PATIENCE_SECONDS = 10.0
_BETWEEN_SECONDS = 0.01
# An owner's line: pid, start time, boot id.
_LONGEST_LINE = 200


@contextmanager
def host_lock() -> Generator[None, None, None]:
    """Holds the host's run lock. Raises HostError naming the process that has it."""
    directory = runtime_directory()
    if os.geteuid() != 0 and (owner := _owner(_ROOTS)) is not None and is_alive(owner):
        raise _taken(owner, ", user 0")
    with ExitStack() as stack:
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        stack.callback(os.close, lock)
        os.fchmod(lock, 0o600)
        _take(lock, directory)
        note = directory / _OWNER
        _note(note)
        stack.callback(note.unlink, missing_ok=True)
        _warn_of_others(stack)
        yield


def _take(lock: int, directory: Path) -> None:
    """Locks it. One whose owner is dead is held for a moment yet by a child that was just being made."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            owner = _owner(directory)
            if (owner is not None and is_alive(owner)) or time.monotonic() > deadline:
                raise _taken(owner) from None
        time.sleep(_BETWEEN_SECONDS)


def _taken(owner: ProcessIdentity | None, user: str = "") -> HostError:
    who = "another run" if owner is None else f"another run (pid {owner.pid}{user})"
    return HostError(f"{who} is measuring on this host; wait for it to end, or stop it")


def _note(file: Path) -> None:
    """Writes down who we are, in a directory that is ours alone."""
    me = itself()
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(f"{me.pid} {me.start_time} {me.boot_id}\n")


def _owner(directory: Path) -> ProcessIdentity | None:
    """Who noted that the lock is theirs; None where nobody did, or we may not look."""
    with suppress(OSError, ValueError):
        descriptor = os.open(directory / _OWNER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as opened:
            pid, start_time, boot = opened.read(_LONGEST_LINE).decode("ascii").split()
        return ProcessIdentity(int(pid), int(start_time), boot)
    return None


def _warn_of_others(stack: ExitStack) -> None:
    """Warns when another user measures too; takes the name that says so of us."""
    telling = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    try:
        telling.bind(_TOLD)
        telling.listen()
    except OSError as error:
        if error.errno == errno.EADDRINUSE and (other := _listener()) is not None and other[1] != os.geteuid():
            print(
                f"octavo: warning: pid {other[0]} of user {other[1]} is also measuring here; both results suffer",
                file=sys.stderr,
            )


def _listener() -> tuple[int, int] | None:
    """Pid and user of who has the name, as the kernel knows them (SO_PEERCRED: pid, uid, gid)."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(1)
        asking.connect(_TOLD)
        pid, uid, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return pid, uid
    return None

"""One run at a time on a host: two that measure at once measure each other.

The lock is a listening socket in the abstract namespace (unix(7)): one for all users, gone with its
process, and its owner can be asked for.
"""

import errno
import os
import socket
import struct
from collections.abc import Generator
from contextlib import contextmanager

from octavo.errors import HostError

_NAME = "\0octavo-run"


@contextmanager
def host_lock() -> Generator[None, None, None]:
    """Holds the host's run lock. Raises HostError naming the process that has it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        try:
            lock.bind(_NAME)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise HostError(f"{_owner()} is measuring on this host; wait until it has ended, or stop it") from None
        lock.listen()
        yield


def _owner() -> str:
    """The process that listens, as the kernel knows it (SO_PEERCRED: pid, uid, gid)."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.settimeout(1)
            asking.connect(_NAME)
            credentials = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid, uid, _ = struct.unpack("3i", credentials)
    except OSError:
        return "another run"
    return f"another run (pid {pid}{'' if uid == os.geteuid() else f', user {uid}'})"

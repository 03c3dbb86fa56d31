"""One run at a time on a host: two that measure at once measure each other."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager

from octavo.errors import HostError
from octavo.home import make_directory, runtime_directory


@contextmanager
def host_lock(holder: str) -> Generator[None, None, None]:
    """Holds the host's run lock. Raises HostError naming who has it."""
    path = make_directory(runtime_directory()) / "run.lock"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            other = file.read().strip() or "another run"
            raise HostError(f"{other} is measuring on this host; wait until it has ended, or stop it") from None
        file.truncate(0)
        file.write(f"{holder} (pid {os.getpid()})")
        file.flush()
        yield
        file.truncate(0)

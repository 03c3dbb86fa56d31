"""Processes by identity: a pid alone may have passed to another, a pid with its start time has not.

The start time is field 22 of /proc/PID/stat, in clock ticks since boot (proc_pid_stat(5)), so a boot
id goes with it.
"""

import contextlib
import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process that cannot be taken for another one."""

    pid: int
    start_time: int
    boot_id: str


def boot_id() -> str:
    """The kernel's id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _start_time(pid: int) -> int | None:
    """Clock ticks from boot to the process's start; None when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command's name stands in parentheses and may hold anything, so count from the last one.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of a living process, or None."""
    start_time = _start_time(pid)
    return None if start_time is None else ProcessIdentity(pid, start_time, boot_id())


def itself() -> ProcessIdentity:
    """The identity of this process."""
    identity = identify(os.getpid())
    assert identity is not None
    return identity


def is_alive(identity: ProcessIdentity) -> bool:
    """Whether this very process still runs."""
    return identity.boot_id == boot_id() and _start_time(identity.pid) == identity.start_time


def find_by_environment(variable: str, value: str) -> list[ProcessIdentity]:
    """The living processes that were started with this environment variable set to this value.

    It finds a child that was started just before its parent was killed, before its pid could be noted.
    """
    marker = f"{variable}={value}".encode()
    found: list[ProcessIdentity] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if marker in environment.split(b"\0"):
            identity = identify(int(entry.name))
            if identity is not None:
                found.append(identity)
    return found


def end(identity: ProcessIdentity, first: signal.Signals, patience_seconds: float = 10.0) -> None:
    """Ends this very process: `first`, then, when it has not gone in time, SIGKILL to it and its group.

    A pidfd is opened before the identity is checked, so that the signal cannot reach a later owner of
    the pid (pidfd_open(2)).
    """
    try:
        descriptor = os.pidfd_open(identity.pid)
    except OSError:
        return
    try:
        if not is_alive(identity):
            return
        signal.pidfd_send_signal(descriptor, first)
        signal.pidfd_send_signal(descriptor, signal.SIGCONT)  # a stopped one would not hear of it
        if not _wait_for_exit(descriptor, patience_seconds):
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(identity.pid) == identity.pid:
                    os.killpg(identity.pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            _wait_for_exit(descriptor, patience_seconds)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)


def _wait_for_exit(descriptor: int, seconds: float) -> bool:
    """Whether the process behind the pidfd exits within that time; its pidfd is then readable."""
    readable, _, _ = select.select([descriptor], [], [], seconds)
    return bool(readable)

"""Processes by identity: a pid alone may have passed to another, a pid with its start time has not.

The start time is field 22 of /proc/PID/stat, in clock ticks since boot (proc_pid_stat(5)), so a boot
id goes with it.
"""

import contextlib
import os
import pwd
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path

# An environment may be as long as a process makes it (prctl(2), PR_SET_MM); execve(2) takes 128 kB a string.
_MOST_ENVIRONMENT = 4 * 1024**2
# Besides ourselves, who a root's children run as; a process of anybody else is not ours, whatever it carries.
SERVERS, BUILDS = "octavo", "octavo-build"
_BETWEEN_SECONDS = 0.01


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
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The command's name stands in parentheses and may hold any bytes, so count from the last one.
    fields = stat.rpartition(b")")[2].split()
    if len(fields) < 20 or fields[0] == b"Z" or not (fields[19].isdigit() and len(fields[19]) <= 20):
        return None
    return int(fields[19])


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
    """Our living processes that were started with this environment variable set to this value.

    It finds a child that was started just before its parent was killed, before its pid could be noted. Ours are those
    of this user and, for root, of the accounts that children run as: anybody can give a process any environment.
    """
    marker = f"{variable}={value}".encode()
    ours = _our_users()
    found: list[ProcessIdentity] = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        try:
            # The user first, and twice: another user's environment is as long as he likes, and pids pass to others.
            if not is_of(entry.path, ours) or not _has(entry.path, marker):
                continue
            identity = identify(int(entry.name))
            if identity is not None and is_of(entry.path, ours) and _has(entry.path, marker):
                found.append(identity)
        except OSError:
            continue
    return found


def _has(process: str, marker: bytes) -> bool:
    """Whether the process was started with this in its environment. Raises OSError when we may not look."""
    with Path(process, "environ").open("rb") as file:
        return marker in file.read(_MOST_ENVIRONMENT).split(b"\0")


def is_of(process: str, users: set[int]) -> bool:
    """Whether all of the process's user ids are among these. Raises OSError when it is gone."""
    its = _users(Path(process, "status").read_bytes())
    return bool(its) and its <= users


def _our_users() -> set[int]:
    """The user ids whose processes may be ours."""
    users = {os.getuid(), os.geteuid()}
    if os.geteuid() == 0:
        for name in (SERVERS, BUILDS):
            with contextlib.suppress(KeyError):
                users.add(pwd.getpwnam(name).pw_uid)
    return users


def _users(status: bytes) -> set[int]:
    """Real, effective, saved and filesystem user of a process (proc_pid_status(5)): all of them, for a setuid program.

    The owner of its files in /proc would not do: they are root's for every process that may not be dumped.
    """
    line = next((line for line in status.split(b"\n") if line.startswith(b"Uid:")), b"")
    return {int(user) for user in line.split()[1:]}


def signal_to(identity: ProcessIdentity, number: signal.Signals) -> None:
    """Sends this very process a signal, when it still lives; by a pidfd, as `end` does."""
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(identity.pid)
        try:
            if is_alive(identity):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def end(identity: ProcessIdentity, first: signal.Signals, patience_seconds: float = 10.0) -> None:
    """Ends this very process: `first`, then, when it has not gone in time, SIGKILL to it and its group.

    SIGTERM goes to its group, too, which then has the same time to end: initdb may be gone while its server still gives
    back its shared memory. A pidfd is opened before the identity is checked, so that the signal cannot reach a later
    owner of the pid (pidfd_open(2)).
    """
    deadline = time.monotonic() + patience_seconds
    try:
        descriptor = os.pidfd_open(identity.pid)
    except OSError:
        return
    try:
        if not is_alive(identity):
            return
        if first is signal.SIGTERM and os.getpgid(identity.pid) == identity.pid:
            os.killpg(identity.pid, first)
        with contextlib.suppress(ProcessLookupError):  # what its group was sent has ended it; the others go on
            signal.pidfd_send_signal(descriptor, first)
            signal.pidfd_send_signal(descriptor, signal.SIGCONT)  # a stopped one would not hear of it
        if not _wait_for_exit(descriptor, patience_seconds):
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(identity.pid) == identity.pid:
                    os.killpg(identity.pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            _wait_for_exit(descriptor, patience_seconds)
        if first is signal.SIGTERM:
            wait_for_group(identity.pid, deadline)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)


def wait_for_group(leader: int, deadline: float) -> None:
    """Waits until nothing is left of the process group of a leader that has ended, or for the monotonic deadline."""
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(leader, 0)
            time.sleep(_BETWEEN_SECONDS)


def _wait_for_exit(descriptor: int, seconds: float) -> bool:
    """Whether the process behind the pidfd exits within that time; its pidfd is then readable."""
    readable, _, _ = select.select([descriptor], [], [], seconds)
    return bool(readable)

"""Child processes that never outlive their purpose: journaled, marked, in a session of their own, unprivileged.

One that is not root is also confined (`confine`), and starts in a control group that is killed with it (`child_group`).
"""

import os
import pwd
import re
import resource
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from octavo.errors import HostError, OctavoError
from octavo.host import child_group, child_output, confine, mode_filter
from octavo.host.journal import TOKEN_VARIABLE, Journal
from octavo.host.process import BUILDS, SERVERS, identify, wait_for_group

# A child sees no more of the environment than this, so that a trial does not depend on who started it.
PLAIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PATIENCE_SECONDS = 10.0
_NOBODYS_GROUP = 65534  # /proc/sys/kernel/overflowgid
# As PostgreSQL's programs and compilers write it. Hints follow, and what initdb or pg_basebackup remove.
_ERROR = re.compile(r"\b(?:error|ERROR|FATAL|PANIC): ")
_PLAIN_ENVIRONMENT = {"PATH": PLAIN_PATH, "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True, slots=True)
class Account:
    """An unprivileged user: that of servers and their clients, or that of builds."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The result of a child: its exit code, its output, and the CPU seconds that it used."""

    returncode: int
    stdout: str
    stderr: str
    cpu_seconds: float


def server_account() -> Account:
    """The account of servers: the user `octavo` if we are root, else our own. Raises HostError without it."""
    return _account(SERVERS, "run servers")


def build_account() -> Account:
    """The account for builds and packages: the user `octavo-build` if we are root, else our own.

    It is not the servers' account, because a dump's programs could then change the next build. Raises HostError without
    it.
    """
    return _account(BUILDS, "make builds")


def owner_account(uid: int) -> Account:
    """The account of this owner. The group is the user's own, never that of a file or directory, which others may have
    chosen. A user without a name has the group of nobody."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return Account(f"user {uid}", uid, _NOBODYS_GROUP)
    return Account(entry.pw_name, uid, entry.pw_gid)


def _account(name: str, purpose: str) -> Account:
    if os.geteuid() != 0:
        return replace(owner_account(os.geteuid()), gid=os.getegid())
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise HostError(f"there is no user {name} to {purpose} as; script/bootstrap creates it") from None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def start(
    arguments: Sequence[str | Path],
    journal: Journal,
    *,
    role: str,
    account: Account | None = None,
    groups: Sequence[Path] = (),
    below: Path | None = None,
    network: bool = False,
    becomes: bool = False,
    rings: bool = False,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[str] | IO[bytes] = subprocess.PIPE,
    stderr: int | IO[str] | IO[bytes] = subprocess.PIPE,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    end_signal: signal.Signals = signal.SIGTERM,
) -> tuple[subprocess.Popen[str], int]:
    """Starts a child in a session of its own. Returns it with its journal number, for `ended`.

    With an `account` it has only that user's rights, no `network` but Unix sockets, and no io_uring without `rings`
    (`mode_filter`); one that `becomes` the account does so itself (`confine.become`). It starts inside the control
    `groups`, and its own group is made `below` one that is stopped as a whole (`child_group.together`). Raises
    HostError when the program cannot be started.
    """
    command = [str(argument) for argument in arguments]
    whole_environment = {**_PLAIN_ENVIRONMENT, **(environment or {}), TOKEN_VARIABLE: journal.token}
    if shutil.which(command[0], path=whole_environment["PATH"]) is None:
        raise HostError(f"cannot start {command[0]}: not found or not executable")
    arranged, own = command, None
    if account is not None:
        arranged, own = confined(
            command, journal, account, groups=groups, below=below, network=network, becomes=becomes
        )
    elif groups:
        arranged = [*confine.entering(groups), *command]

    def begin() -> "subprocess.Popen[str]":
        return subprocess.Popen(
            arranged,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            errors="replace",
            cwd=directory or "/",
            env=whole_environment,
            start_new_session=True,
        )

    try:
        child = filtered(begin, account, rings=rings)
    except OSError as error:
        raise HostError(f"cannot start {arguments[0]}: {error.strerror}") from error
    return child, record(child.pid, journal, role, end_signal, own)


def confined(
    command: Sequence[str],
    journal: Journal,
    account: Account,
    *,
    groups: Sequence[Path] = (),
    below: Path | None = None,
    network: bool = False,
    becomes: bool = False,
) -> tuple[list[str], Path | None]:
    """The command line with the account's rights alone, in a new control group; and that group, for `record`.

    None where no group can be made. Arguments as in `start`. Raises HostError.
    """
    own = _own_group(journal, groups, below)
    rights = confine.without_privileges(account.uid, account.gid, network=network, itself=becomes)
    # Within version 2 a process is in one group: its own, which lies below the limited one.
    entered = [group for group in groups if own is None or own.parent != group]
    return [*confine.entering([*entered, *([own] if own else [])]), *rights, *command], own


def filtered(
    begin: Callable[[], "subprocess.Popen[str]"], account: Account | None, *, rings: bool = False
) -> "subprocess.Popen[str]":
    """The child that `begin` starts, for root as another account with the filter of system calls (`mode_filter`).

    A child of our own user is not restricted, because its files are ours.
    """
    return mode_filter.started(begin, rings=rings) if account is not None and os.geteuid() == 0 else begin()


def end(child: subprocess.Popen[str]) -> None:
    """Ends a child's session, even if it ignores SIGTERM or is stopped.

    The child's descendants get the same time to end as the child itself: initdb may have ended while its server still
    releases its shared memory, which would remain if it were killed.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_PATIENCE_SECONDS)
            break
    child.wait()
    wait_for_group(child.pid, deadline)


def ended(journal: Journal, number: int) -> None:
    """Records that a child has ended, and kills its remaining descendants."""
    if group := journal.groups.pop(number, None):
        child_group.remove(group)
    journal.done(number)


def _own_group(journal: Journal, groups: Sequence[Path], below: Path | None) -> Path | None:
    """A new control group for one child; None where this host or our rights offer none."""
    limited = next((group for group in groups if child_group.is_version_2(group)), None)
    parent = below or limited or child_group.of(journal)
    if parent is None:
        return None
    own = parent / secrets.token_hex(4)
    try:
        own.mkdir()
    except OSError as error:
        raise HostError(f"cannot make the control group {own}: {error.strerror}") from error
    return own


def record(pid: int, journal: Journal, role: str, end_signal: signal.Signals, own: Path | None = None) -> int:
    """Notes a child that was just started, the signal that ends it, and its `own` control group, which `ended` removes.

    Returns its journal number.
    """
    facts = identify(pid)
    number = journal.record(
        "process",
        role=role,
        pid=pid,
        start_time=facts.start_time if facts else -1,
        boot_id=facts.boot_id if facts else "",
        signal=int(end_signal),
    )
    if own is not None:
        journal.groups[number] = own
    return number


def run(
    arguments: Sequence[str | Path],
    journal: Journal,
    *,
    role: str,
    account: Account | None = None,
    groups: Sequence[Path] = (),
    network: bool = False,
    becomes: bool = False,
    rings: bool = False,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Finished:
    """Runs a child to its end; `on_line` sees its standard output line by line. Raises what `child_output.read` does.

    The CPU seconds are those of all children reaped meanwhile: one client runs at a time.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    child, number = start(
        arguments,
        journal,
        role=role,
        account=account,
        groups=groups,
        network=network,
        becomes=becomes,
        rings=rings,
        directory=directory,
        environment=environment,
        stderr=subprocess.STDOUT if on_line else subprocess.PIPE,
    )
    try:
        stdout, stderr = child_output.read(child, role, on_line)
    except BaseException:
        end(child)
        raise
    finally:
        ended(journal, number)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Finished(child.returncode, stdout, stderr, cpu_seconds)


def check(finished: Finished, doing: str) -> Finished:
    """The same, unless it failed: then an OctavoError with the first error that the child wrote, else its last line."""
    if finished.returncode != 0:
        lines = (finished.stderr.strip() or finished.stdout.strip()).splitlines()
        cause = next((line.strip() for line in lines if _ERROR.search(line)), lines[-1] if lines else "no output")
        raise OctavoError(f"{doing} failed (exit {finished.returncode}): {cause}")
    return finished

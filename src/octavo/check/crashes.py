"""Crashes, found in a server's log and in core files."""

import errno
import os
import re
import resource
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from octavo.check.outcome import Failure
from octavo.errors import HostError
from octavo.host import careful_open, children, trees
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build

_TRAP = re.compile(r"TRAP: ")
# A server's process is named with its PID; a command that it ran (archive_command …) is not.
_CRASH = re.compile(r"\bPANIC:  |\(PID \d+\) was terminated by signal (\d+)|\bTRAP: ")
_BACKTRACE = re.compile(r"\S+\(\S*\+0x[0-9a-f]+\)|\S+\(\+?0x[0-9a-f]+\)|\[0x[0-9a-f]+\]$")
_CONTEXT = 12


@contextmanager
def cores_allowed() -> Generator[None, None, None]:
    """Lets children that crash leave a core file as far as this process may allow it (setrlimit(2))."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def crashes_in_log(log: Path, *, killing_is_tested: bool) -> list[Failure]:
    """A failure for each PANIC, assertion and death by a signal in a server's log, with the lines around it.

    `killing_is_tested`: the suite itself ends backends with SIGKILL, which is then no crash.
    """
    try:
        lines = careful_open.read_text(log).splitlines()
    except OSError as error:
        return [Failure(log.stem, f"{log}: {error.strerror}", ())] if error.errno == errno.EFBIG else []
    found: list[Failure] = []
    for place, line in enumerate(lines):
        match = _CRASH.search(line)
        if match is None or (killing_is_tested and match[1] == "9"):
            continue
        end = place + _CONTEXT
        while end < len(lines) and _BACKTRACE.search(lines[end]):
            end += 1
        first = place if _TRAP.search(line) else max(0, place - 2)
        found.append(Failure(log.stem, f"the server crashed: {line.strip()}", tuple(lines[first:end])))
    return found


def backtraces(build: Build, directory: Path, journal: Journal, account: Account) -> list[Failure]:
    """A failure for each core file below the directory, with gdb's backtrace, or why there is none."""
    found: list[Failure] = []
    for core in filter(_is_core, trees.files(directory)):
        arguments = ["gdb", "-q", "-batch", "-ex", "bt", build.program("postgres"), core]
        try:
            finished = children.run(arguments, journal, role="gdb", account=account)
            lines = [line for line in finished.stdout.splitlines() if line.startswith(("#", "Program", "Core"))]
        except HostError:
            lines = [f"gdb is missing; install it to see the cause of {core.name}"]
        found.append(Failure(core.parent.name, "a server left a core file", tuple(lines)))
    return found


def _is_core(path: Path) -> bool:
    if not re.fullmatch(r"core(\.\d+)?", path.name):
        return False
    with suppress(OSError), os.fdopen(careful_open.open_file(path), "rb") as file:
        return file.read(4) == b"\x7fELF"
    return False


def logs_below(directories: Sequence[Path]) -> list[Path]:
    """The server logs below these directories."""
    return sorted(path for directory in directories for path in trees.files(directory) if path.suffix == ".log")

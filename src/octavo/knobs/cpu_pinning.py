"""The CPUs of the server and of its client, pinned so that they do not compete for them: sched_setaffinity(2).

It changes nothing on the host: a mask belongs to a process, is inherited by its children, and ends with it. So it needs
neither root nor a journal. The kernel's own threads (writeback, loop devices) are not pinned.
"""

import os
import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from octavo.errors import OctavoError, UsageError
from octavo.factor import Factor
from octavo.host.process_table import read_table, tree


def _check(text: str) -> str:
    return text if text == "all" else format_cpus(parse_cpus(text))


SERVER_CPUS = Factor("server_cpus", "run", "CPUs of the server", "all", _check)
CLIENT_CPUS = Factor("client_cpus", "run", "CPUs of the client", "all", _check)


def parse_cpus(text: str) -> frozenset[int]:
    """Parses a CPU list in the kernel's format. Raises UsageError.

    >>> sorted(parse_cpus("0-2,5"))
    [0, 1, 2, 5]
    """
    cpus: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise UsageError("allowed: all, or CPUs by number, such as 0-3 or 0,2")
        cpus.update(range(first, last + 1))
    return frozenset(cpus)


def format_cpus(cpus: frozenset[int] | set[int]) -> str:
    """The shortest list for these CPUs.

    >>> format_cpus({5, 0, 2, 1})
    '0-2,5'
    """
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def cannot(level: str) -> str | None:
    """Why the level is not possible here, or None."""
    if level == "all":
        return None
    ours = os.sched_getaffinity(0)
    missing = parse_cpus(level) - ours
    return f"CPU {format_cpus(missing)} is not available; Octavo may use {format_cpus(ours)}" if missing else None


def pin(pid: int, level: str) -> str:
    """Pins a running process with all its threads and children; later ones inherit it. Returns the CPUs.

    Raises OctavoError when one of them is not on these CPUs afterwards, or the process has ended.
    """
    if level == "all":
        return format_cpus(_cpus_of(pid))
    wanted = parse_cpus(level)
    done: set[int] = set()
    while new := threads_of(pid) - done:  # a child forked by a parent that was not pinned yet
        for thread in new:
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, wanted)
        done |= new
    return _verified(pid, wanted)


@contextmanager
def pinned(level: str) -> Generator[str, None, None]:
    """Pins this thread, and the children that it starts, to these CPUs within the context. Yields the CPUs."""
    before = os.sched_getaffinity(0)
    if level == "all":
        yield format_cpus(before)
        return
    os.sched_setaffinity(0, parse_cpus(level))
    try:
        yield format_cpus(os.sched_getaffinity(0))
    finally:
        os.sched_setaffinity(0, before)


def threads_of(root: int) -> set[int]:
    """The threads of a process and of all its descendants."""
    threads: set[int] = set()
    for pid in tree(root, read_table()) | {root}:
        with suppress(OSError):
            threads |= {int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()}
    return threads


def _verified(pid: int, wanted: frozenset[int]) -> str:
    for thread in threads_of(pid):
        with suppress(ProcessLookupError):
            if (now := frozenset(os.sched_getaffinity(thread))) != wanted:
                raise OctavoError(f"thread {thread} runs on CPUs {format_cpus(now)}, not on {format_cpus(wanted)}")
    return format_cpus(_cpus_of(pid))


def _cpus_of(pid: int) -> set[int]:
    try:
        return os.sched_getaffinity(pid)
    except ProcessLookupError as error:
        raise OctavoError(f"process {pid} ended before it was on its CPUs; see the server's log") from error

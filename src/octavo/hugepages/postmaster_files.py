"""What a postmaster leaves in its data directory: postmaster.pid while it runs, postmaster.opts of its last start."""

import re
from contextlib import suppress
from pathlib import Path

from octavo.errors import UsageError
from octavo.host.process_table import Process, read_process

_PROC = Path("/proc")
_QUOTED = re.compile(r'"([^"]*)"')


def refuse_running(data: Path, proc: Path = _PROC) -> None:
    """Raises UsageError when a server runs on the data directory, or may run there out of sight.

    `postgres -C` would end it. A lock file whose pid it cannot see, as of a server in another container, PostgreSQL
    takes for left over (CreateLockFile, src/backend/utils/init/miscinit.c) and replaces; a postmaster that misses its
    own shuts down. It has the pid in its first line, port and socket directory in its fourth and fifth (pidfile.h).
    """
    try:
        lines = [line.strip() for line in (data / "postmaster.pid").read_text(errors="replace").splitlines()]
    except FileNotFoundError:
        lines = []
    if postmaster := _on(data, proc) or _of_that_name(lines[:1], proc):
        apart = _same(proc / str(postmaster.pid) / "root", Path("/")) is False
        port, socket = (lines[3], lines[4]) if len(lines) > 4 else ("", "")
        if socket and apart:
            socket = f"{proc}/{postmaster.pid}/root{socket}"
        parts = (socket and f"host={socket}", port and f"port={port}", "dbname=postgres")
        where = ", in a container" if apart else ""
        raise UsageError(
            f"a server (pid {postmaster.pid}{where}) runs on {data}; ask it: --dsn '{' '.join(filter(None, parts))}'"
        )
    if lines:
        raise UsageError(
            f"{data / 'postmaster.pid'} names process {lines[0]}, which cannot be seen on this directory: a server in "
            "another container may run on it, and asking would end it; if there is none, remove that file and ask again"
        )


def last_options(data: Path) -> list[str]:
    """The settings of its last command line, as `-c name=value`: they override postgresql.conf at each such start.

    `pg_ctl restart` gives them again, and so does what started it, be it Docker, Patroni or a unit. No other option
    changes shared memory but -B and -N (manual, "postgres").
    """
    try:
        words = _QUOTED.findall((data / "postmaster.opts").read_text(errors="replace"))
    except OSError:
        return []
    found: list[str] = []
    for word, following in zip(words, [*words[1:], ""], strict=False):  # none follows the last, which may not be there
        if word.startswith("--") and "=" in word:
            name, _, value = word[2:].partition("=")
            found.append(f"{name.replace('-', '_')}={value}")
        elif word in ("-c", "-B", "-N"):
            found.append({"-c": "", "-B": "shared_buffers=", "-N": "max_connections="}[word] + following)
    return [argument for setting in found for argument in ("-c", setting)]


def _on(data: Path, proc: Path) -> Process | None:
    """The postmaster whose working directory this is, in whichever container it runs: a host sees them all."""
    found: dict[int, Process] = {}
    for entry in proc.iterdir():
        with suppress(PermissionError):  # hidepid
            process = read_process(int(entry.name), proc) if entry.name.isdecimal() else None
            if process is not None and process.is_postgres and _same(entry / "cwd", data):
                found[process.pid] = process
    return next((process for process in found.values() if process.parent not in found), None)


def _of_that_name(pids: list[str], proc: Path) -> Process | None:
    """A PostgreSQL of that pid, where its working directory is not ours to see (another user's, in a container)."""
    with suppress(OSError, ValueError):
        for pid in pids:
            process = read_process(int(pid), proc)
            if process is not None and process.is_postgres and _same(proc / pid / "cwd", Path("/")) is None:
                return process
    return None


def _same(one: Path, other: Path) -> bool | None:
    """Whether they are one directory; None where we may not look."""
    try:
        return one.samefile(other)
    except OSError:
        return None

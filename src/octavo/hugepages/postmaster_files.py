"""Files of a postmaster in its data directory: postmaster.pid while it runs, postmaster.opts of its last start."""

import re
import shlex
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from octavo.errors import UsageError
from octavo.host.owner import owner_of
from octavo.host.process import is_of
from octavo.host.process_table import Process, read_process
from octavo.host.safe_read import read_text

_PROC = Path("/proc")
_QUOTED = re.compile(r'"([^"]*)"')
# The options that change shared memory, and the setting that each one's value is of.
_SETTING_OPTIONS = {"-c": "", "-B": "shared_buffers=", "-N": "max_connections="}


@dataclass(frozen=True, slots=True)
class Running:
    """A server that runs on a data directory: its postmaster here, whether it is in a container, and how to reach it
    (empty if its lock file does not contain that)."""

    pid: int
    apart: bool
    socket: str
    port: str


def refuse_running(data: Path, proc: Path = _PROC) -> None:
    """Raises UsageError when a server runs on the data directory, or may run there out of sight.

    `postgres -C` would end it.
    """
    if found := running_on(data, proc):
        where = ", in a container" if found.apart else ""
        dsn = _dsn(found.socket, found.port)
        raise UsageError(f"a server (pid {found.pid}{where}) runs on {data}; use --dsn {dsn}")


def running_on(data: Path, proc: Path = _PROC) -> Running | None:
    """The server on the data directory. Raises UsageError when one may run there out of sight.

    A lock file whose pid it cannot see, as of a server in another container, PostgreSQL
    takes for left over (CreateLockFile, src/backend/utils/init/miscinit.c) and replaces; a postmaster that misses its
    own shuts down. It has the pid in its first line, port and socket directory in its fourth and fifth (pidfile.h).
    """
    try:
        lines = [line.strip() for line in read_text(data / "postmaster.pid").splitlines()]
    except FileNotFoundError:
        lines = []
    except OSError as error:
        raise UsageError(f"{data / 'postmaster.pid'}: {error.strerror}; is this a data directory?") from None
    except ValueError as error:
        raise UsageError(f"{error}; is this a data directory?") from None
    if postmaster := _on(data, proc) or _of_that_name(lines[:1], proc):
        apart = _same(proc / str(postmaster.pid) / "root", Path("/")) is False
        port, socket = (lines[3], lines[4]) if len(lines) > 4 else ("", "")
        if socket and apart:
            socket = f"{proc}/{postmaster.pid}/root{socket}"
        return Running(postmaster.pid, apart, socket, port)
    if lines:
        raise UsageError(
            f"{data / 'postmaster.pid'} names process {lines[0]}, which is not visible here: a server in another "
            "container may run on this directory, and asking would end it; if there is none, remove that file and "
            "try again"
        )
    return None


def last_options(data: Path) -> list[str]:
    """The settings of its last command line, as `-c name=value`: they override postgresql.conf at each such start.

    `pg_ctl restart` gives them again, and so does what started it, be it Docker, Patroni or a unit. No other option
    changes shared memory but -B and -N (manual, "postgres"). A value may be part of its option's word (getopt(3)).
    """
    try:
        words = _QUOTED.findall(read_text(data / "postmaster.opts"))
    except (OSError, ValueError):
        return []
    found: list[str] = []
    for word, following in pairwise([*words, ""]):
        if word.startswith("--") and "=" in word:
            name, _, value = word[2:].partition("=")
            found.append(f"{name.replace('-', '_')}={value}")
        elif (setting := _SETTING_OPTIONS.get(word[:2])) is not None:
            found.append(setting + (word[2:] or following))
    return [argument for setting in found for argument in ("-c", setting)]


def _dsn(socket: str, port: str) -> str:
    """The connection string as a word for the shell. Both parts are in a file of the server's user, who may be anybody.

    >>> _dsn("/run/postgresql", "5432"), _dsn("/run/a b", "1 user=x")
    ("'host=/run/postgresql port=5432 dbname=postgres'", '\\'host=\\'"\\'"\\'/run/a b\\'"\\'"\\' dbname=postgres\\'')
    """
    from psycopg.conninfo import make_conninfo

    parts = {
        "host": socket if socket.isprintable() else "",
        "port": port if port.isdecimal() else "",
        "dbname": "postgres",
    }
    return shlex.quote(make_conninfo("", **{name: value for name, value in parts.items() if value}))


def _on(data: Path, proc: Path) -> Process | None:
    """The postmaster whose working directory this is, in whichever container it runs: a host sees them all.

    It is the user's whose the data are, as PostgreSQL wants it. The working directory of anybody else may be in a
    filesystem that does not answer.
    """
    owner = owner_of(data.stat())
    found: dict[int, Process] = {}
    for entry in proc.iterdir():
        with suppress(OSError):  # gone meanwhile, or hidepid
            process = read_process(int(entry.name), proc) if entry.name.isdecimal() else None
            if process is None or not process.is_postgres or not is_of(str(entry), {owner}):
                continue
            if _same(entry / "cwd", data):
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

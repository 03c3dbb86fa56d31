"""The PostgreSQL servers of this host, by the Unix sockets on which they listen.

/proc/net/unix names every socket of a network namespace, for everybody (unix(7)); /proc/PID/net/unix is that of a
process in another one. A listening socket has the flag __SO_ACCEPTCON (0x10000).
"""

import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from octavo.host.kernel_text import lines
from octavo.host.process_table import read_table

# A comma in a directory's name would make two hosts of it.
_SOCKET = re.compile(r"^(/[^,]*)/\.s\.PGSQL\.(\d{1,5})$")
_LISTENS = 0x10000


@dataclass(frozen=True, slots=True)
class Listener:
    """A server's socket: its directory as it is reached from here, the port in its name, and whose it is."""

    directory: str
    port: int
    owner: int

    def __str__(self) -> str:
        return f"host={self.directory} port={self.port}"


def listeners(proc: Path = Path("/proc")) -> list[Listener]:
    """Every server's sockets that can be reached from here, by port. None where the kernel does not say."""
    found: dict[tuple[int, int], Listener] = {}
    # Our own namespaces first: what is seen there needs no detour over another process's root.
    for table, root in ((proc / "net/unix", Path("/")), *_namespaces(proc)):
        for path, port in _sockets(table):
            there = root / path.removeprefix("/")
            try:
                facts = there.stat()
            except (OSError, ValueError):  # in another mount namespace, or not for us
                continue
            if stat.S_ISSOCK(facts.st_mode):
                found.setdefault((facts.st_dev, facts.st_ino), Listener(str(there.parent), port, facts.st_uid))
    return sorted(found.values(), key=lambda one: (one.port, one.directory))


def _namespaces(proc: Path) -> Generator[tuple[Path, Path], None, None]:
    """The sockets and the root of every postmaster."""
    table = read_table(proc)
    for process in table.values():
        parent = table.get(process.parent)
        if process.is_postgres and (parent is None or not parent.is_postgres):
            yield proc / str(process.pid) / "net/unix", Path("/")
            yield proc / str(process.pid) / "net/unix", proc / str(process.pid) / "root"


def _sockets(table: Path) -> Generator[tuple[str, int], None, None]:
    try:
        rows = lines(table)[1:]
    except OSError:
        return
    for row in rows:
        fields = row.split(maxsplit=7)
        if len(fields) == 8 and (match := _SOCKET.match(fields[7])) and _listens(fields[3]):
            yield fields[7], int(match[2])


def _listens(flags: str) -> bool:
    try:
        return bool(int(flags, 16) & _LISTENS)
    except ValueError:
        return False


@contextmanager
def acting_as(owner: int) -> Generator[None, None, None]:
    """For root, the block as this user: peer authentication asks who connects (SO_PEERCRED, the effective user)."""
    if os.geteuid() != 0 or owner == 0:
        yield
        return
    os.seteuid(owner)
    try:
        yield
    finally:
        os.seteuid(0)

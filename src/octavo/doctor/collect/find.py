"""The PostgreSQL servers of this host, by the Unix sockets on which they listen.

/proc/net/unix names every socket of this network namespace, for everybody (unix(7)). A listening one has the flag
__SO_ACCEPTCON (0x10000).
"""

import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from octavo.host.kernel_text import lines

_SOCKET = re.compile(r"^(/.*)/\.s\.PGSQL\.(\d{1,5})$")
_LISTENS = 0x10000


@dataclass(frozen=True, slots=True)
class Listener:
    """A server's socket: its directory, the port in its name, and whose it is."""

    directory: str
    port: int
    owner: int

    def __str__(self) -> str:
        return f"host={self.directory} port={self.port}"


def listeners(proc: Path = Path("/proc")) -> list[Listener]:
    """Every server's first socket that can be seen from here, by port. None where the kernel does not say."""
    found: dict[tuple[int, int], Listener] = {}
    try:
        rows = lines(proc / "net/unix")[1:]
    except OSError:
        return []
    for row in rows:
        fields = row.split(maxsplit=7)
        if len(fields) < 8 or not int(fields[3], 16) & _LISTENS or not (match := _SOCKET.match(fields[7])):
            continue
        try:
            facts = Path(fields[7]).stat()
        except OSError:  # in another mount namespace
            continue
        if stat.S_ISSOCK(facts.st_mode):
            # A server may listen in several directories; the port and the user make it one.
            found.setdefault((int(match[2]), facts.st_uid), Listener(match[1], int(match[2]), facts.st_uid))
    return sorted(found.values(), key=lambda one: (one.port, one.owner))


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

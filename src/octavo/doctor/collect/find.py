"""The PostgreSQL servers of this host, by the Unix sockets on which they listen.

/proc/net/unix lists the sockets of a network namespace and is readable by everybody (unix(7)); /proc/PID/net/unix lists
those of another process's namespace. A listening socket has the flag __SO_ACCEPTCON (0x10000).
"""

import os
import re
import stat
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import HostError
from octavo.home import resolve_by_steps
from octavo.host.kernel_text import lines
from octavo.host.owner import mounted_by_users, owner_of
from octavo.host.process_table import read_table

# A comma in a directory's name would be parsed as two hosts.
_SOCKET = re.compile(r"^(/[^,]*)/\.s\.PGSQL\.(\d{1,5})$")
_LISTENS = 0x10000
_PROC = Path("/proc")
# Any user can create many processes called postgres, namespaces and sockets.
_MOST_LOOKED_AT = 100_000


@dataclass(frozen=True, slots=True)
class Listener:
    """A server's socket: its directory as seen from here, the port in its name, and its owner."""

    directory: str
    port: int
    owner: int

    def __str__(self) -> str:
        return f"host={self.directory} port={self.port}"


def listeners(proc: Path = Path("/proc")) -> list[Listener]:
    """The sockets of all servers that can be reached from here, by port. Empty if the kernel does not list them."""
    found: dict[tuple[int, int], Listener] = {}
    by_users = {mount.target for mount, _ in mounted_by_users()}
    looked_at = 0
    for table, root in _places(proc):
        for path, port in _sockets(table):
            if (looked_at := looked_at + 1) > _MOST_LOOKED_AT:
                break
            there = root / path.removeprefix("/")
            try:
                if not root.is_relative_to(proc):
                    _avoid(there, by_users)
                facts = there.stat()
            except (OSError, ValueError, HostError):  # in another mount namespace, or no access
                continue
            if stat.S_ISSOCK(facts.st_mode):
                found.setdefault((facts.st_dev, facts.st_ino), Listener(str(there.parent), port, owner_of(facts)))
    return sorted(found.values(), key=lambda one: (one.port, one.directory))


def avoid_users_mounts(path: Path, proc: Path = Path("/proc")) -> None:
    """Raises HostError for a path into a filesystem that a user mounted, where a system call may block forever.

    Of the paths below /proc only those below /proc/PID/root are accepted, in a namespace where no user has mounted
    anything: the server's user writes the path in postmaster.pid.
    """
    if not path.is_relative_to(proc):
        _avoid(path, {mount.target for mount, _ in mounted_by_users()})
        return
    parts = path.relative_to(proc).parts
    if len(parts) < 2 or parts[1] != "root" or not _may_enter(proc / parts[0], _users_of(proc / "self")):
        raise HostError(f"{path} may lead into a filesystem that a user mounted; name the server with --dsn")


def _may_enter(process: Path, our_users: str | None) -> bool:
    """Whether no user can have mounted a filesystem in the process's mount namespace."""
    return _users_of(process) == our_users and not _has_users_mounts(process)


def _avoid(path: Path, by_users: set[Path]) -> None:
    def look(step: Path) -> None:
        # Links there (/proc/PID/fd) lead to open files, whatever is read as their text: also of what is unmounted.
        if step in by_users or step == _PROC:
            raise HostError(f"{step} is, or leads to, a filesystem that a user mounted; name the server with --dsn")

    resolve_by_steps(path, look, str(path))


def _places(proc: Path) -> Generator[tuple[Path, Path], None, None]:
    """Pairs of a list of sockets and the root of its paths: first our own namespaces, then those of postmasters.

    Each pair is yielded once, however many processes share it. Those of users with few such processes come first.
    """
    own = proc / "net/unix"
    yield own, Path("/")
    table = read_table(proc)
    pids = [
        process.pid
        for process in table.values()
        if process.is_postgres and ((parent := table.get(process.parent)) is None or not parent.is_postgres)
    ]
    users = {pid: user for pid in pids if (user := _user(proc / str(pid))) is not None}
    by_user = Counter(users.values())
    ours, our_users = _namespace(proc / "self"), _users_of(proc / "self")
    # A file of /proc/net has the same inode number within a network namespace, and another one in each other namespace.
    seen = {(_number(own), ours, "/")}
    for pid in sorted(users, key=lambda pid: (by_user[users[pid]], pid)):
        process = proc / str(pid)
        sockets = process / "net/unix"
        for mounts, root in ((ours, "/"), (_namespace(process), _root(process))):
            if root is not None and (key := (_number(sockets), mounts, root)) not in seen:
                seen.add(key)
                if mounts == ours:
                    yield sockets, Path(root)
                elif _may_enter(process, our_users):
                    yield sockets, process / "root"


def _users_of(process: Path) -> str | None:
    """The process's user namespace, None if it is not readable. Whoever created a user namespace may mount anything
    there at any time: a filesystem below an overlay may not respond, and the kernel reports him as root
    (user_namespaces(7))."""
    try:
        return str((process / "ns/user").readlink())
    except OSError:
        return None


def _has_users_mounts(process: Path) -> bool:
    """Whether the process's mount namespace has a filesystem that a user mounted and that may block."""
    try:
        return bool(mounted_by_users(process / "mountinfo"))
    except OSError:
        return True


def _user(process: Path) -> int | None:
    try:
        return process.stat().st_uid
    except OSError:
        return None


def _number(file: Path) -> tuple[int, int] | None:
    try:
        facts = file.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _namespace(process: Path) -> str | None:
    """The process's mount namespace; None without access, and then its root is not accessible, either."""
    try:
        return str((process / "ns/mnt").readlink())
    except OSError:
        return None


def _root(process: Path) -> str | None:
    """The path of the process's root in its namespace. It is only read as text, because the target may not respond."""
    try:
        return str((process / "root").readlink())
    except OSError:
        return None


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
    """If root, runs the block as this user: peer authentication checks the effective user (SO_PEERCRED)."""
    if os.geteuid() != 0 or owner == 0:
        yield
        return
    os.seteuid(owner)
    try:
        yield
    finally:
        os.seteuid(0)

"""Shared memory that killed servers leave behind. Their next start would remove it, but their data directory no longer
exists.

A postmaster has a small System V segment, by which it detects another one on its data directory, and POSIX segments for
parallel workers and statistics (PostgreSQL's sources, src/backend/port/sysv_shmem.c and storage/ipc/dsm_impl.c). As
long as it lives it maps one of these: the control segment, which lists the numbers of the others (storage/ipc/dsm.c).
Segments that no process has mapped at the moment may thus belong to a living server.
"""

import os
import re
import stat
import subprocess
import sys
import time
from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import OctavoError
from octavo.host import children, confine
from octavo.host.careful_open import NO_LINK
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.host.kernel_text import lines, words
from octavo.host.process import identify
from octavo.host.undo import Entry, Undone

_SEGMENTS = Path("/proc/sysvipc/shm")
_DIRECTORY = Path("/dev/shm")  # noqa: S108 (where the C library has POSIX shared memory: shm_overview(7))
_NAME = re.compile(r"PostgreSQL\.(\d{1,10})", re.ASCII)
# The first bytes of a control segment (PG_DYNSHMEM_CONTROL_MAGIC). It has five times 40 bytes per connection.
_CONTROL, _MOST_BYTES = (0x9A503D32).to_bytes(4, sys.byteorder), 1024**2
# A postmaster's System V segment has a header of 56 bytes (PGShmemHeader, pg_shmem.h), and nothing more unless
# shared_memory_type is sysv; only its owner may attach it (IPCProtection, sysv_shmem.c).
_MOST_OF_HEADER, _LEAST_OF_WHOLE, _MODE = 64, 1024**2, "600"
_LEAVING_SECONDS = 2.0
# A segment that is just being created is not mapped yet.
_YOUNGEST_SECONDS = 1.0
# Times of files are those of the last tick of the kernel's clock.
_CLOCK_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class _Segment:
    """A System V segment. `made`: its creation, in seconds since 1970."""

    number: int
    creator: int
    attached: int
    owner: int
    made: int


def note(journal: Journal) -> None:
    """Makes the journal remove leftover shared memory when it ends or is replayed. Must be called before the first
    server.

    initdb's bootstrap server leaves its segments behind on any signal, because it has the default handlers
    (src/backend/bootstrap/bootstrap.c, bootstrap_signals).
    """
    if journal.shared_memory is None:
        journal.shared_memory = journal.record("shared_memory", since=time.time())


def undo(entry: Entry) -> Undone | None:
    """Removes segments that servers have left behind since the entry."""
    if not remove(float(entry["since"]), children.server_account()):
        return None
    return Undone("put back", "removed shared memory of servers that were killed")


def remove(since: float, account: Account) -> bool:
    """Removes, as the account, the shared memory of its killed servers that is no older than `since`, in seconds since
    1970. Returns whether there was any.

    These are System V segments of PostgreSQL's mode and sizes, whose creator has ended and to which no process is
    attached, and POSIX segments of that age that no process maps: control segments, whose postmasters have then ended,
    and the segments that they list.
    Otherwise they stay, about a megabyte. So does the control segment of a postmaster that was killed before it wrote
    to it, because its owner cannot be told.
    """
    deadline = time.monotonic() + _LEAVING_SECONDS
    while any(one.attached for one in _segments(since, account.uid)) and time.monotonic() < deadline:
        time.sleep(0.01)
    left = [one for one in _segments(since, account.uid) if not one.attached]
    if not left:
        return False
    time.sleep(_YOUNGEST_SECONDS + _CLOCK_SECONDS)  # so that no segment of a dead one is too young
    names = _left(account.uid, min(one.made for one in left))
    with suppress(OSError, OctavoError):
        if names:
            _as_account(["rm", "-f", "--", *names], account)
        _as_account(["ipcrm", *(word for one in left for word in ("--shmem-id", str(one.number)))], account)
    return True


def _as_account(command: list[str], account: Account) -> None:
    """Runs one of the system's programs in the directory of POSIX segments, where others may also write."""
    rights = confine.without_privileges(account.uid, account.gid, network=False)
    environment = {"PATH": children.PLAIN_PATH, "LC_ALL": "C.UTF-8"}
    subprocess.run([*rights, *command], cwd=_DIRECTORY, env=environment, capture_output=True, check=False)


def _segments(since: float, owner: int) -> list[_Segment]:
    """The user's System V segments that may be a server's, are no older, and whose creator has ended (proc_sysvipc(5):
    key, shmid, perms, size, cpid, lpid, nattch, uid, …, ctime).

    Without root the user's other programs have some, too, which may keep data there between their runs."""
    found: list[_Segment] = []
    with suppress(OSError):
        for line in lines(_SEGMENTS)[1:]:
            fields = words(line)
            one = _Segment(*(int(fields[place]) for place in (1, 4, 6, 7, 13)))
            size = int(fields[3])
            if fields[2] != _MODE or _MOST_OF_HEADER < size < _LEAST_OF_WHOLE:
                continue
            if one.owner == owner and one.made >= int(since) and identify(one.creator) is None:
                found.append(one)
    return found


def _left(owner: int, since: int) -> list[str]:
    """The names of the POSIX segments of the user's dead postmasters.

    The list of segments is read before the list of mappings, so the control segment of a server that starts meanwhile
    is never mistaken for a dead one's, however long the check of all processes takes. A control segment has its first
    bytes only once it is mapped.
    """
    found = {
        path.name: int(match[1])
        for path in _DIRECTORY.iterdir()
        if (match := _NAME.fullmatch(path.name)) and _is_left(path, owner, since)
    }
    controls = {name for name in found if _named_by(_DIRECTORY / name)}
    mapped = _mapped(owner)
    # The segments of dead postmasters, as they left them.
    theirs = {number for name in controls - mapped for number in _named_by(_DIRECTORY / name)}
    return [name for name, number in found.items() if name not in mapped and (name in controls or number in theirs)]


def _named_by(path: Path) -> Sequence[int]:
    """The numbers in a control segment, including those of other segments; empty for any other segment."""
    numbers = array("I")
    with suppress(OSError), os.fdopen(os.open(path, NO_LINK), "rb") as file:
        content = file.read(_MOST_BYTES if file.read(len(_CONTROL)) == _CONTROL else 0)
        numbers.frombytes(content[: len(content) // numbers.itemsize * numbers.itemsize])
    return numbers


def _is_left(path: Path, owner: int, since: int) -> bool:
    try:
        facts = path.lstat()
    except OSError:
        return False
    made = facts.st_ctime
    return stat.S_ISREG(facts.st_mode) and facts.st_uid == owner and since <= made <= time.time() - _YOUNGEST_SECONDS


def _mapped(owner: int) -> set[str]:
    """The names of the segments that a process of the user has mapped."""
    found: set[str] = set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                if process.stat().st_uid in (owner, os.geteuid()):
                    found |= {word.rpartition("/")[2] for word in words(" ".join(lines(process / "maps")))}
    return found

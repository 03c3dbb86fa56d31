"""Finds set-user-ID files that a program of the account has left in world-writable places, where they would outlive it.

Whoever runs one later has the account's rights. So the bits are cleared, and the user who brought the program gets an
error. `mode_filter` lets no program make one, wherever it may write, unless it had io_uring; then `made_below` lets it
make files only here, and where Octavo removes them.
"""

import os
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from octavo.errors import OctavoError
from octavo.host import mode_filter, mounts
from octavo.host.children import Account
from octavo.host.kernel_text import shown
from octavo.host.made_below import PLACES
from octavo.host.tree_walk import walk

_BITS = stat.S_ISUID | stat.S_ISGID
# More is no longer looked at: somebody else's millions of files must not hold a run up.
_MOST_ENTRIES = 1_000_000


@contextmanager
def none_left(account: Account, places: Sequence[Path] = PLACES) -> Generator[None, None, None]:
    """Clears the bits of the account's set-user-ID and set-group-ID files when the context ends, in whatever way.

    Raises OctavoError if there was one and there is no other error. Nothing is to be done without root, because the
    files are ours, or if none could be created.
    """
    before = mode_filter.with_rings()
    try:
        yield
    except BaseException:
        _strip_all(account, places, before)
        raise
    if found := _strip_all(account, places, before):
        raise OctavoError(
            f"{shown(found[0])} was made a set-user-ID file of {account.name}'s, which was undone; check what the "
            "archive and the scripts run"
        )


def _strip_all(account: Account, places: Sequence[Path], before: int) -> list[Path]:
    """`before`: how many children had io_uring until then."""
    if os.geteuid() == account.uid or (mode_filter.is_available() and mode_filter.with_rings() == before):
        return []
    return [path for place in places for path in _stripped(place, account)]


def _stripped(top: Path, account: Account) -> list[Path]:
    """The files below the directory whose bits were taken. No mount is entered: a user's might never answer.

    A subvolume of btrfs, which anybody can make, is none, though its files have another device number.
    """
    found: list[Path] = []
    seen = 0
    with suppress(OSError):
        real = top.resolve()
        mounted = [mount.target for mount in mounts.below(real)]
        for place in walk(top):
            here = {target.name for target in mounted if target.parent == real / place.path}
            for entries in (place.names, place.directories):
                seen += len(entries)
                entries[:] = [name for name in entries if name not in here]
            found += [top / place.path / name for name in place.names if _strip(place.descriptor, name, account)]
            if seen > _MOST_ENTRIES:
                raise OctavoError(f"{top} has over {_MOST_ENTRIES} files to look for set-user-ID ones in; clear it")
    return found


def _strip(directory: int, name: str, account: Account) -> bool:
    """Whether it was such a file; then it is none any more."""
    with suppress(OSError):
        if not _is_one(os.stat(name, dir_fd=directory, follow_symlinks=False), account):
            return False
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
        try:
            facts = os.fstat(descriptor)
            if _is_one(facts, account):
                os.fchmod(descriptor, stat.S_IMODE(facts.st_mode) & ~_BITS)
                return True
        finally:
            os.close(descriptor)
    return False


def _is_one(facts: os.stat_result, account: Account) -> bool:
    return facts.st_uid == account.uid and stat.S_ISREG(facts.st_mode) and bool(facts.st_mode & _BITS)

"""Trees of an account that are kept for later: they become root's, so that nobody can tamper with them meanwhile.

Everything is opened relative to a directory that is open, never through a link, and changed by its descriptor. The tree
is taken from the top down: once a directory is root's, its entries can no longer be changed while those below are
taken. (Giving a tree away works from the bottom up, for the same reason.)

An open descriptor survives the change of owner. A file that somebody still has open for writing is replaced by a copy.
"""

import errno
import fcntl
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from octavo.errors import OctavoError
from octavo.host import tree_walk, trees
from octavo.host.careful_open import NO_LINK
from octavo.host.children import Account
from octavo.host.kernel_text import shown

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY_MODE, _FILE_MODE = 0o750, 0o640
# Rights beside the mode, which a change of owner leaves (acl(5)).
_ACCESS_LISTS = ("system.posix_acl_access", "system.posix_acl_default")
_CHUNK_BYTES = 1024**2


def keep(tree: Path, account: Account) -> None:
    """Makes a tree of the account's root's, which the account can read and nobody but root can change.

    It holds directories and plain files with one name, as `trees.check_plain` has it, or OctavoError is raised. For a
    user of our own there is nothing to do: the files are ours. A copy (`trees.copy`) is the account's again.
    """
    if os.geteuid() != 0 or account.uid == 0:
        return
    path = Path(tree.name)
    try:
        for place in tree_walk.walk(tree, strict=True):
            path = Path(tree.name, place.path)
            _check(os.fstat(place.descriptor), path, account)
            _take(place.descriptor, account, _DIRECTORY_MODE)
            # What was found before may have been changed until now, and cannot be from now on.
            entries = _entries(place.descriptor)
            place.directories[:] = [name for name, is_directory in entries if is_directory]
            for name in (name for name, is_directory in entries if not is_directory):
                path = Path(tree.name, place.path, name)
                _keep_file(place.descriptor, name, path, account)
    except OSError as error:
        raise OctavoError(f"{shown(path)} cannot be kept: {error.strerror}") from error


def _check(facts: os.stat_result, path: Path, account: Account) -> None:
    if problem := trees.not_plain(facts, account):
        raise OctavoError(f"{shown(path)} is {problem}; it is not kept")


def _entries(directory: int) -> Sequence[tuple[str, bool]]:
    with os.scandir(directory) as entries:
        return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)


def _keep_file(directory: int, name: str, path: Path, account: Account) -> None:
    _check(os.stat(name, dir_fd=directory, follow_symlinks=False), path, account)
    descriptor = os.open(name, NO_LINK, dir_fd=directory)
    try:
        facts = os.fstat(descriptor)
        _check(facts, path, account)
        _take(descriptor, account, _FILE_MODE)
        if _may_be_written(descriptor):
            _replace(directory, name, descriptor, facts.st_size, account)
    finally:
        os.close(descriptor)


def _take(descriptor: int, account: Account, mode: int) -> None:
    """Owner first: who is no owner any more cannot give the rights back that go then."""
    os.fchown(descriptor, 0, account.gid)
    for name in _ACCESS_LISTS:
        try:
            os.removexattr(descriptor, name)
        except OSError as error:
            if error.errno not in (errno.ENODATA, errno.ENOTSUP, errno.EINVAL):
                raise
    os.fchmod(descriptor, mode)


def _may_be_written(descriptor: int) -> bool:
    """Whether somebody may have the file open, or mapped, for writing.

    The kernel gives a lease for reading on none that is (fcntl(2), F_SETLEASE). Where it knows no leases, perhaps.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError:
        return True
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _replace(directory: int, name: str, source: int, size: int, account: Account) -> None:
    """Puts a copy of the file, of so many bytes at most, in its place: only its writers have the old one."""
    beside = f".{secrets.token_hex(8)}.kept"
    copy = os.open(beside, _NEW, 0o600, dir_fd=directory)
    try:
        try:
            position = 0
            while position < size and (chunk := os.pread(source, min(_CHUNK_BYTES, size - position), position)):
                position += len(chunk)
                while chunk:
                    chunk = chunk[os.write(copy, chunk) :]
            _take(copy, account, _FILE_MODE)
        finally:
            os.close(copy)
        os.rename(beside, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside, dir_fd=directory)
        raise

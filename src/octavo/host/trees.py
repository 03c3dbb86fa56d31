"""Trees that an unprivileged account owns: root makes and removes them, and trusts no path inside.

Whoever runs as the account can put a link or a FIFO anywhere in such a tree, at any moment. So what is made, copied or
changed inside is done by a child that has the account's rights alone; root opens files one by one, relative to a
directory that it has open, and never through a link (openat(2), O_NOFOLLOW).
"""

import os
import stat
import subprocess
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

from octavo.errors import HostError, OctavoError
from octavo.host import children
from octavo.host.children import Account
from octavo.host.journal import Journal

# Without waiting for the other end of a FIFO, and without becoming anybody's terminal.
_CAREFULLY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_for(path: Path, account: Account, mode: int = 0o700) -> Path:
    """Makes a new directory that the account owns. Its parent must be one that only we may write.

    Raises HostError when it is there already, or the parent is not ours alone.
    """
    try:
        _check_ours(path.parent)
        path.mkdir(mode=0o700)
        descriptor = os.open(path, _DIRECTORY)
        try:
            if os.geteuid() == 0:
                os.fchown(descriptor, account.uid, account.gid)
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise HostError(
            f"cannot make {path}: {error.strerror}; set OCTAVO_HOME to a directory you may write"
        ) from error
    return path


def copy(source: Path, target: Path, journal: Journal, account: Account) -> None:
    """Copies a tree of the account's into a new directory of its own, as the account; no reflinks.

    Raises OctavoError when that fails.
    """
    make_for(target, account)
    arguments = ["cp", "-a", "-T", "--reflink=never", source, target]
    children.check(children.run(arguments, journal, role="copy", account=account), f"copying {source}")


def remove(path: Path) -> bool:
    """Removes a tree of any owner, and returns whether it is gone. Links in it are removed and not followed.

    rm(1) goes by open directories, however deep; it stops at what is mounted in the tree, which may be somebody's.
    In a session of its own, so that Ctrl-C does not end it halfway.
    """
    subprocess.run(
        ["rm", "-rf", "--one-file-system", "--", str(path)], check=False, capture_output=True, start_new_session=True
    )
    return not os.path.lexists(path)


def remove_inside(tree: Path, names: list[str], journal: Journal, account: Account) -> None:
    """Removes files and directories inside a tree of the account's, as the account. Raises OctavoError."""
    arguments = ["rm", "-rf", "--one-file-system", "--", *names]
    children.check(
        children.run(arguments, journal, role="rm", account=account, directory=tree), f"removing files in {tree}"
    )


def new_log(path: Path) -> int:
    """A descriptor of a new, empty file that only we may read, in the place of an old one. The parent must be ours.

    Raises HostError when the parent is not ours alone or cannot be written.
    """
    try:
        _check_ours(path.parent)
        path.unlink(missing_ok=True)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise HostError(f"cannot write {path}: {error.strerror}") from error


def open_files(tree: Path) -> Generator[int, None, None]:
    """A descriptor of each regular file below the directory, for reading, closed when the next one is asked for.

    Never through a link; what cannot be opened is left out. Raises OctavoError when directories nest too deeply.
    """
    for _, _, names, directory in _walk(tree):
        for name in names:
            with suppress(OSError):
                descriptor = os.open(name, os.O_RDONLY | _CAREFULLY, dir_fd=directory)
                try:
                    if stat.S_ISREG(os.fstat(descriptor).st_mode):
                        yield descriptor
                finally:
                    os.close(descriptor)


def sync(tree: Path) -> None:
    """Writes back every file and directory of the tree, so that no trial pays for it."""
    for descriptor in open_files(tree):
        os.fsync(descriptor)
    for *_, directory in _walk(tree):
        os.fsync(directory)


def _walk(tree: Path) -> Generator[tuple[str, list[str], list[str], int], None, None]:
    """Every directory of the tree: path, directories, files, and its descriptor (os.fwalk)."""
    try:
        yield from os.fwalk(tree, follow_symlinks=False)
    except RecursionError:
        raise OctavoError(f"the directories in {tree} nest too deeply") from None


def check_plain(tree: Path, account: Account) -> None:
    """Raises OctavoError unless the tree holds only directories and regular files with one name, all of the account's.

    What is published to be copied again and again must not lead anywhere else.
    """
    for place, directories, names, descriptor in _walk(tree):
        for name in (*directories, *names):
            facts = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if problem := _not_plain(facts, account):
                raise OctavoError(f"{Path(place) / name} is {problem}; a dataset may hold only its own files")


def _not_plain(facts: os.stat_result, account: Account) -> str | None:
    if facts.st_uid != account.uid:
        return f"not owned by {account.name}"
    if stat.S_ISLNK(facts.st_mode):
        return "a symbolic link"
    if stat.S_ISDIR(facts.st_mode):
        return None
    if not stat.S_ISREG(facts.st_mode):
        return "no regular file"
    if facts.st_mode & (stat.S_ISUID | stat.S_ISGID):
        return "a set-user-ID or set-group-ID file"
    return "a file with several names" if facts.st_nlink != 1 else None


def _check_ours(directory: Path) -> None:
    """Raises HostError unless the directory is ours (root's, or this user's) and nobody else may write it."""
    facts = directory.stat()
    if facts.st_uid not in {0, os.geteuid()} or (facts.st_mode & 0o022 and not facts.st_mode & stat.S_ISVTX):
        raise HostError(f"{directory} can be written by others; chown and chmod it, or set OCTAVO_HOME")

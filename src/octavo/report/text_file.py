"""A file for the user, written next to its destination and renamed: never visible in part, never written through a
link.

In a shared directory such as /tmp others can create a link or a file there before us.
"""

import errno
import os
import stat
from pathlib import Path

from octavo.errors import HostError
from octavo.home import replace_file
from octavo.host.owner import owner_of

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def make_directory_for_files(directory: Path) -> None:
    """Creates the directory with its parents, because a directory that the user names is meant to exist.

    Raises HostError if it cannot be created, or belongs to somebody else in a shared directory.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HostError(
            f"{directory} cannot be written: {error.strerror}; name a directory that you may write"
        ) from error
    refuse_planted(directory.absolute())


def write_text(text: str, path: Path) -> Path:
    """Writes the file and returns its absolute path. Raises HostError when it cannot be written."""
    return write_bytes(text.encode(), path)


def write_bytes(content: bytes, path: Path) -> Path:
    """Writes the file and returns its absolute path. Raises HostError when it cannot be written."""
    target = path.absolute()
    refuse_planted(target.parent)
    refuse_planted(target)
    try:
        replace_file(target, content)
    except OSError as error:
        way_out = "name a file where there is room" if error.errno in _NO_ROOM else "name a file that you may write"
        raise HostError(f"{target} cannot be written: {error.strerror}; {way_out}") from error
    return target


def refuse_planted(path: Path) -> None:
    """Raises HostError when this is somebody else's, or their link, in a directory that all may write, as /tmp.

    The rule is that of fs.protected_symlinks and protected_regular (kernel Documentation/admin-guide/sysctl/fs.rst).
    """
    try:
        facts, around = path.lstat(), path.parent.stat()
    except OSError:  # not there, or what is wrong with it is said when it is written
        return
    shared = around.st_mode & stat.S_ISVTX and around.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if shared and (owner := owner_of(facts)) not in (os.geteuid(), owner_of(around)):
        what = "a link" if stat.S_ISLNK(facts.st_mode) else "there already"
        raise HostError(f"{path} is {what} of user {owner} in a shared directory; name another place")

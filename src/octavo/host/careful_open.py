"""Opening files and directories where others may create links, without following their links."""

import errno
import os
import stat
from pathlib import Path

from octavo.host.owner import owner_of

# Without waiting for the other end of a FIFO, and without becoming anybody's terminal.
_CAREFULLY = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# For reading what is there itself, and nothing that a link leads to.
NO_LINK = os.O_RDONLY | os.O_NOFOLLOW | _CAREFULLY
_MOST_TEXT = 256 * 1024**2


def open_file(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file. Links on the way are followed only in directories that nobody else may write.

    Raises OSError for any other link, for what is not a regular file, and for what cannot be opened.
    """
    path = path.absolute()
    directory = _open_directory(path.parent, os.O_PATH)
    try:
        descriptor = os.open(path.name, flags | _CAREFULLY | _no_links_of_others(directory), dir_fd=directory)
    finally:
        os.close(directory)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor


def open_directory(path: Path) -> int:
    """A descriptor of a directory for reading; links as in `open_file`. Raises OSError."""
    return _open_directory(path, os.O_RDONLY)


def read_text(path: Path) -> str:
    """The text of a regular file, opened as `open_file` does.

    Raises OSError, with EFBIG for one of more than 256 MB: the log of all of PostgreSQL's own tests has a tenth of it.
    """
    return read_bytes(path, _MOST_TEXT).decode(errors="replace")


def read_bytes(path: Path, most: int) -> bytes:
    """The contents of a regular file, opened as by `open_file`. Raises OSError, with EFBIG for more than so many
    bytes."""
    with os.fdopen(open_file(path), "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most // 1024**2} MB", str(path))
    return content


def _open_directory(path: Path, flags: int) -> int:
    """A descriptor of a directory; links as in `open_file`. Raises OSError."""
    descriptor = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    parts = path.absolute().parts[1:]
    for number, part in enumerate(parts, 1):
        how = (flags if number == len(parts) else os.O_PATH) | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            below = os.open(part, how | _no_links_of_others(descriptor), dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _no_links_of_others(directory: int) -> int:
    """O_NOFOLLOW where somebody else may have put a link, else nothing."""
    facts = os.fstat(directory)
    # As root: what others can write. Else a user's own group is the user's affair.
    writable = 0o022 if os.geteuid() == 0 else 0o002
    return 0 if owner_of(facts) in {0, os.geteuid()} and not facts.st_mode & writable else os.O_NOFOLLOW

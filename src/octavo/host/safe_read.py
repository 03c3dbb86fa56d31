"""Reading small files that another account may have created: never blocks, never follows a link, never reads without a
limit."""

import errno
import os
import stat
import sys
from collections.abc import Generator
from pathlib import Path

_TAIL = 1024**2
_LONGEST_LINE = 64 * 1024


def read_text(path: Path, limit: int = 64 * 1024) -> str:
    """The text of a regular file of at most `limit` bytes, with U+FFFD for invalid UTF-8.

    Raises OSError if it cannot be opened, is a link or is not a regular file, ValueError if it is larger.
    """
    descriptor = _open(path)
    try:
        content = _read(descriptor, limit + 1)
    finally:
        os.close(descriptor)
    if len(content) > limit:
        raise ValueError(f"{path} has more than {limit} bytes")
    return content.decode(errors="replace")


def read_tail(path: Path, limit: int = _TAIL) -> str:
    """The last `limit` bytes of a regular file as text, from the first whole line on; all of a smaller one.

    Raises OSError when it cannot be opened, is a link or no regular file.
    """
    descriptor = _open(path)
    try:
        start = max(0, os.fstat(descriptor).st_size - limit)
        os.lseek(descriptor, start, os.SEEK_SET)
        text = _read(descriptor, limit).decode(errors="replace")
    finally:
        os.close(descriptor)
    # A single line that is longer than all that is read is better told in part than not at all.
    return text if start == 0 else text.partition("\n")[2] or text


def lines_of(descriptor: int, longest: int = _LONGEST_LINE, most: int | None = None) -> Generator[str, None, None]:
    """The lines of an open file, without their ends; a line longer than so many bytes is split into parts.

    With `most` only the lines of that many bytes, because a file that is being written may have no end.
    """
    left = sys.maxsize if most is None else most
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        while line := file.readline(min(longest, left)):
            left -= len(line)
            yield line.decode(errors="replace").rstrip("\n")


def _open(path: Path) -> int:
    # O_NONBLOCK, because opening a FIFO waits for its writer (open(2)).
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return descriptor


def _read(descriptor: int, limit: int) -> bytes:
    """Up to `limit` bytes; a single read(2) may give fewer than there are."""
    found = bytearray()
    while len(found) < limit and (more := os.read(descriptor, limit - len(found))):
        found += more
    return bytes(found)

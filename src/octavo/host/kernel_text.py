"""Text of /proc and /sys, read as bytes, because names of processes, files and mounts may contain any byte.

Python's own `splitlines()` and `split()` would also split at form feeds and other white space within a name.
"""

import os
from pathlib import Path


def read(path: Path) -> str:
    """The whole text; bytes that are no UTF-8 come as os.fsdecode() has them, so that a path stays the same path.

    Raises OSError.
    """
    return os.fsdecode(path.read_bytes())


def lines(path: Path) -> list[str]:
    """The lines of a file, cut at newlines only. Raises OSError."""
    return [line for line in read(path).split("\n") if line]


def words(line: str) -> list[str]:
    """The words of a line, cut at blanks and tabs only."""
    return [word for word in line.replace("\t", " ").split(" ") if word]


def chosen(text: str) -> str:
    """The word in brackets of a choice, or the text of one that has none.

    >>> chosen("always [madvise] never"), chosen("performance")
    ('madvise', 'performance')
    """
    return text.partition("[")[2].partition("]")[0] or text


def shown(text: str | os.PathLike[str]) -> str:
    r"""The text, or a path that others named, in one line that can be printed: characters that cannot are escaped.

    >>> shown(os.fsdecode(b"/mnt/\xff\x0c"))
    '/mnt/\\xff\\x0c'
    """
    plain = os.fsencode(text).decode(errors="backslashreplace")
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in plain
    )

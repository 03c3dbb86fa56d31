"""Files of /proc, read cheaply: the descriptor is kept, and a reading is one pread(2).

The kernel generates such a file anew for each read from its beginning. Opening and closing it costs more than reading
most of them.
"""

import os
import resource
from pathlib import Path

_BUFFER_BYTES = 16384  # hundreds of kB would cost more than what is read
# A file of many records is given out a page at a time (kernel fs/seq_file.c); none of the records is longer than a
# kB, so what is shorter than a small page by that much is whole.
_WHOLE_BYTES = 3072
# Of 2^64, with a sign.
_MOST_DIGITS = 21


class ProcFile:
    """One file, open until it is closed, or opened for each reading when not `kept`. Raises OSError where refused."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: Path | str, *, kept: bool = True) -> None:
        self._path = str(path)
        self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC) if kept else -1

    def read(self) -> bytes:
        """Its contents now. Raises ProcessLookupError when the process that it was about is gone."""
        if self._descriptor >= 0:
            return _read_all(self._descriptor)
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _read_all(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Gives the descriptor back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _read_all(descriptor: int) -> bytes:
    text = os.pread(descriptor, _BUFFER_BYTES, 0)
    if len(text) > _WHOLE_BYTES:
        while more := os.pread(descriptor, _BUFFER_BYTES, len(text)):
            text += more
    return text


def descriptors_to_spare() -> int:
    """The number of descriptors that an instrument may keep: half of the process's limit (getrlimit(2))."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2


def named_numbers(text: bytes) -> dict[bytes, int]:
    """Lines of a name and a number, as /proc/vmstat and /proc/meminfo have them; a unit after it is left to the reader.

    Raises ValueError where no number follows a name.

    >>> named_numbers(b"MemFree:    12 kB\\npgfault 7\\n")
    {b'MemFree': 12, b'pgfault': 7}
    """
    found: dict[bytes, int] = {}
    for line in text.splitlines():
        fields = line.split(None, 2)
        if len(fields) > 1:
            found[fields[0].rstrip(b":")] = _whole(fields[1])
    return found


def number_after(text: bytes, name: bytes) -> int:
    """The number that follows the name, 0 where the name does not occur. Raises ValueError when no number follows.

    >>> number_after(b"VmPTE:\\t     48 kB\\n", b"VmPTE:"), number_after(b"", b"VmPTE:")
    (48, 0)
    """
    start = text.find(name)
    if start < 0:
        return 0
    start += len(name)
    words = text[start : text.index(b"\n", start)].split(None, 1)
    return _whole(words[0] if words else b"")


def _whole(word: bytes) -> int:
    """The number. Raises ValueError when it is none that the kernel can count to."""
    if len(word) > _MOST_DIGITS:
        raise ValueError(f"{word[:40]!r} is not a number")
    return int(word)

"""A child's output, read while it runs: never more than a bound in memory, and no longer than the child lives.

Processes that it started may keep its pipe open, or write into it for ever; only what the pipe held when the child
ended counts.
"""

import codecs
import io
import os
import selectors
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO

from octavo.errors import OctavoError
from octavo.units import human_size

MOST_BYTES = 64 * 1024**2
# Of errors, and of lines that were seen as they came, as much of the beginning and as much of the end is kept.
_EACH_END = 4 * 1024**2
_LONGEST_LINE = 1024**2
# A pipe holds no more (pipe(7), /proc/sys/fs/pipe-max-size for whoever has no privileges).
_PIPE_BYTES = 1024**2
_LOOK_AGAIN_SECONDS = 0.2


def read(
    child: "subprocess.Popen[str]", role: str, on_line: Callable[[str], None] | None = None, most: int = MOST_BYTES
) -> tuple[str, str]:
    """Its standard output and standard error as text, when it has ended; `on_line` sees the lines of the output.

    Raises OctavoError when the output has more than `most` bytes. The middle of long errors, and of lines passed to
    `on_line`, is left out.
    """
    output = _Whole(role, most) if on_line is None else _Ends(on_line, role, most)
    errors = _Ends()
    with selectors.DefaultSelector() as selector:
        for pipe, kept in ((child.stdout, output), (child.stderr, errors)):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, kept)
        while selector.get_map():
            ended = child.poll() is not None
            for key, _ in selector.select(0 if ended else _LOOK_AGAIN_SECONDS):
                piece = os.read(key.fd, _PIPE_BYTES)
                key.data.add(piece)
                if not piece:
                    selector.unregister(key.fileobj)
            if ended:
                break
    child.wait()
    for pipe in (child.stdout, child.stderr):
        _close(pipe)
    return output.text(), errors.text()


def _close(pipe: IO[str] | None) -> None:
    if pipe is not None:
        pipe.close()


@dataclass(slots=True)
class _Whole:
    """All that was written, or an error."""

    role: str
    most: int
    pieces: list[bytes] = field(default_factory=list[bytes])
    size: int = 0

    def add(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self.size += len(piece)
        if self.size > self.most:
            raise _too_much(self.role, self.most)

    def text(self) -> str:
        return _decoder().decode(b"".join(self.pieces), final=True)


class _Ends:
    """The beginning and the end of what was written, and each line as it comes: who sees them may keep them."""

    def __init__(self, on_line: Callable[[str], None] | None = None, role: str = "", most: int = 0) -> None:
        self._on_line = on_line
        self._role, self._most, self._size = role, most, 0
        self._first, self._last = bytearray(), bytearray()
        self._left_out = False
        self._decoder = _decoder()
        self._line = ""

    def add(self, piece: bytes) -> None:
        self._keep(piece)
        if self._on_line is not None:
            if (size := self._size + len(piece)) > self._most:
                raise _too_much(self._role, self._most)
            self._size = size
            *lines, self._line = (self._line + self._decoder.decode(piece, final=not piece)).split("\n")
            if len(self._line) > _LONGEST_LINE:
                lines, self._line = [*lines, self._line], ""
            for line in lines:
                self._on_line(line)

    def text(self) -> str:
        if self._on_line is not None and self._line:
            self._on_line(self._line)
        between = b"\n[...]\n" if self._left_out else b""
        return _decoder().decode(bytes(self._first + between + self._last), final=True)

    def _keep(self, piece: bytes) -> None:
        room = _EACH_END - len(self._first)
        self._first += piece[:room]
        self._last += piece[room:]
        if len(self._last) > 2 * _EACH_END:
            del self._last[:-_EACH_END]
            self._left_out = True


def _too_much(role: str, most: int) -> OctavoError:
    return OctavoError(f"{role} wrote more than {human_size(most)} and was killed")


def _decoder() -> io.IncrementalNewlineDecoder:
    """As `Popen` reads with text=True: what is no UTF-8 is U+FFFD, and each kind of a line's end is a newline."""
    return io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)

"""Text from outside (names, levels, messages of servers and clients, queries) made safe for display."""

import io
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO, cast

# What a terminal obeys or what hides what is written: controls of C0 and C1, DEL, marks, embeddings, overrides and
# isolates of writing direction (Unicode Standard Annex 9), separators of lines, what is invisible (such as tags) but
# for the joiners that scripts and emoji need, what is no character at all.
_UNPRINTABLE = (
    "\x00-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f"
)
UNPRINTABLE = re.compile(f"[{_UNPRINTABLE}]")
_BUT_LINES = re.compile(rf"(?![\n\t])[{_UNPRINTABLE}]")
_INSTEAD = "\ufffd"
_NAMES = {"<stdout>": "standard output", "<stderr>": "standard error"}
# What a spreadsheet takes for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def printable(text: str) -> str:
    """The text with U+FFFD for each character that a terminal would obey; lines and tabs stay.

    >>> printable("a\\x1b[31mb\\u202ec\\n\\td")
    'a\ufffd[31mb\ufffdc\\n\\td'
    """
    return text if text.isascii() and text.isprintable() else _BUT_LINES.sub(_INSTEAD, text)


def one_line(text: object) -> str:
    """The same on one line, with single blanks.

    >>> one_line("a\\x1b[31mb\\n  c")
    'a\ufffd[31mb c'
    """
    return UNPRINTABLE.sub(_INSTEAD, " ".join(str(text).split()))


def csv_cell(value: Any) -> Any:
    """A value for CSV: an apostrophe before text that a spreadsheet would take for a formula; numbers stay.

    >>> csv_cell("=1+1"), csv_cell("-5"), csv_cell("8kB"), csv_cell(-0.5), csv_cell(None)
    ("'=1+1", '-5', '8kB', -0.5, None)
    """
    if not isinstance(value, str):
        return value
    if not value.startswith(_FORMULA) or _is_number(value):
        return printable(value)
    return f"'{printable(value)}"


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", text, re.ASCII) is not None


class Printable:
    """A stream to which only printable text gets through; all else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Writes it printable."""
        with self._named():
            return self.stream.write(printable(text))

    def flush(self) -> None:
        """Writes what is buffered."""
        with self._named():
            self.stream.flush()

    def writelines(self, lines: Any) -> None:
        """Writes each."""
        for line in lines:
            self.write(line)

    @contextmanager
    def _named(self) -> Generator[None]:
        """An OSError of writing names the stream as its file: a full disk is not one below our home."""
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            error.filename = error.filename or _NAMES.get(name := str(getattr(self.stream, "name", "the output")), name)
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def guarded(stream: TextIO) -> TextIO:
    """A stream that passes no control sequences to a terminal. Characters that its encoding lacks are escaped, as
    Python does on standard error."""
    wrapper: object = stream
    if isinstance(wrapper, io.TextIOWrapper):
        wrapper.reconfigure(errors="backslashreplace")
    return cast("TextIO", Printable(stream))


def unguarded(stream: TextIO) -> TextIO:
    """The stream itself, for callers that clean text before adding colours and cursor movements."""
    return stream.stream if isinstance(stream, Printable) else stream

"""Files of delimited rows: the readable rows, and a sentence with file and line for every other row."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from octavo.errors import UsageError
from octavo.host.careful_open import read_bytes
from octavo.units import format_size, parse_size

Parse = Callable[[str], object]

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MOST_BYTES = 256 * 1024**2
# Of no measurement is a number larger, or closer to zero; sums, products and ratios of these are finite.
_LARGEST, _SMALLEST = 1e100, 1e-100
# Beyond this a name is no name; what is stored and shown stays of a size.
_LONGEST_TEXT = 200
# What begins in a year that a calendar can show is to end in one.
_LONGEST_SECONDS = 1e9
_LAST_MOMENT = 253402300800 - _LONGEST_SECONDS  # the year 10000 cannot be written by datetime


@dataclass(frozen=True, slots=True)
class ImportedRow:
    """One row that could be read: its line, counted from 1, and its values in the order of the columns."""

    line: int
    values: tuple[object, ...]


@dataclass(slots=True)
class ImportSource:
    """A file: its name without directories, its digest, the number of accepted rows, and the problems of the others."""

    name: str
    sha256: str
    rows: int = 0
    problems: list[str] = field(default_factory=list[str])

    def refuse(self, line: int, why: str) -> None:
        """Notes a row that is left out."""
        self.problems.append(f"{self.name}:{line}: {why}")


def read_text(path: Path) -> tuple[ImportSource, str]:
    """The file as text, with U+FFFD for invalid UTF-8; opened as `careful_open.open_file` does.

    Raises UsageError when it cannot be read, or has more than 256 MB.
    """
    try:
        content = read_bytes(path, _MOST_BYTES)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; name what holds the results") from error
    return ImportSource(path.name, hashlib.sha256(content).hexdigest()), content.decode("utf-8-sig", "replace")


def read_rows(path: Path, columns: Sequence[tuple[str, Parse]]) -> tuple[ImportSource, list[ImportedRow]]:
    """The rows of a file of semicolons without quotes and header; `columns` are names and the functions that parse
    their text.

    A row with another number of fields, or a field that its column cannot read, is left out and reported. Raises
    UsageError if the file, or every row of it, cannot be read.
    """
    source, text = read_text(path)
    split = ((line, content.split(";")) for line, content in enumerate(text.splitlines(), 1) if content.strip())
    rows = list(take(source, split, columns))
    if not rows:
        names = ";".join(name for name, _ in columns)
        problem = f" ({source.problems[0]})" if source.problems else ""
        raise UsageError(f"{path} has no row of the form {names}{problem}")
    return source, rows


def take(
    source: ImportSource, split: Iterable[tuple[int, Sequence[str]]], columns: Sequence[tuple[str, Parse]]
) -> Iterator[ImportedRow]:
    """The rows whose fields can all be parsed; the others are reported."""
    for line, fields in split:
        if len(fields) != len(columns):
            source.refuse(line, f"{len(fields)} fields instead of {len(columns)}; left out")
            continue
        values: list[object] = []
        for (name, parse), text in zip(columns, fields, strict=True):
            try:
                values.append(parse(text.strip()))
            except (ValueError, UsageError) as error:
                source.refuse(line, f"{name} is {_shown(text)}, {error}; left out")
                break
        else:
            source.rows += 1
            yield ImportedRow(line, tuple(values))


def unique(source: ImportSource, rows: Iterable[ImportedRow], width: int) -> dict[tuple[object, ...], ImportedRow]:
    """The rows by their first values; what repeats one is left out, as there is no telling which is right."""
    found: dict[tuple[object, ...], ImportedRow] = {}
    for row in rows:
        key = row.values[:width]
        if key in found:
            source.refuse(row.line, f"the same trial as line {found[key].line}; left out")
            source.rows -= 1
        else:
            found[key] = row
    return found


def read_settings(path: Path) -> dict[str, str]:
    """The `name = value` lines of a server's configuration; none where there is no such file."""
    if not path.exists():
        return {}
    lines = (line.partition("#")[0].partition("=") for line in read_text(path)[1].splitlines())
    return {name.strip(): value.strip().strip("'") for name, sign, value in lines if sign}


def number(text: str) -> float:
    """A number that something may have been measured as. Raises ValueError.

    >>> number("12.5"), number("1e3")
    (12.5, 1000.0)
    """
    value = float(text) if _NUMBER.fullmatch(text) else float("inf")
    underflowed = value == 0 and re.match(r"[+-]?[0.]*[1-9]", text)
    if abs(value) > _LARGEST or 0 < abs(value) < _SMALLEST or underflowed:
        raise ValueError("not a number")
    return value


def positive(text: str) -> float:
    """A finite number above zero. Raises ValueError."""
    value = number(text)
    if value <= 0:
        raise ValueError("not above zero")
    return value


def not_negative(text: str) -> float:
    """A finite number, zero or more. Raises ValueError."""
    value = number(text)
    if value < 0:
        raise ValueError("below zero")
    return value


def moment(text: str) -> float:
    """Seconds since the epoch that a calendar can show. Raises ValueError."""
    value = positive(text)
    if value >= _LAST_MOMENT:
        raise ValueError("not a time; seconds since 1970 are expected")
    return value


def seconds(text: str) -> float:
    """How long something took, in seconds: zero or more, less than decades. Raises ValueError."""
    value = not_negative(text)
    if value >= _LONGEST_SECONDS:
        raise ValueError("not a duration; seconds are expected")
    return value


def positive_seconds(text: str) -> float:
    """The same, above zero. Raises ValueError."""
    positive(text)
    return seconds(text)


def whole(low: int, high: int) -> Callable[[str], int]:
    """Whole numbers in a range. They raise ValueError."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= 20) or not low <= int(text) <= high:
            raise ValueError(f"not a whole number from {low} to {high}")
        return int(text)

    return parse


def size_of(unit: str, allowed: Sequence[str]) -> Callable[[str], str]:
    """Levels that are sizes, written as bare numbers of a unit. They raise ValueError.

    >>> size_of("kB", ["4kB", "8kB"])("8")
    '8kB'
    """

    def parse(text: str) -> str:
        level = format_size(parse_size(f"{text}{unit}")) if text.isascii() and text.isdecimal() else text
        if level not in allowed:
            raise ValueError(f"in {unit} it must be one of {', '.join(allowed)}")
        return level

    return parse


def one_of(**words: str) -> Callable[[str], str]:
    """Levels by the words that stand for them. They raise ValueError."""

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"allowed: {', '.join(words)}")
        return words[text]

    return parse


def name(text: str) -> str:
    """Any text that is short enough for a name; empty where nothing is known. Raises ValueError."""
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"longer than {_LONGEST_TEXT} characters")
    return text


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")

"""The file of differences that pg_regress writes: `diff -U3` of each test's expected and actual output."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_RANGES = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class FileDiff:
    """The two files that were compared, and the lines that one of them alone has."""

    expected: Path
    actual: Path
    removed: tuple[str, ...]
    added: tuple[str, ...]

    @property
    def test(self) -> str:
        """The test's name."""
        return self.actual.stem


@dataclass(frozen=True, slots=True)
class _Lines:
    """A FileDiff whose hunks are still being read: there can be as many of them as lines."""

    expected: Path
    actual: Path
    removed: list[str]
    added: list[str]


def parse_diffs(text: str) -> list[FileDiff]:
    """The compared files with their differences. Raises ValueError when the text is no unified diff.

    Hunks are read by the line counts that they announce: a test's output may look like a header.
    """
    found: list[_Lines] = []
    lines = iter(text.split("\n"))
    for line in lines:
        if line.startswith("--- "):
            before = _path(line)
            after = next(lines, "")
            if not after.startswith("+++ "):
                raise ValueError(f"no file is compared with {before}")
            found.append(_Lines(before, _path(after), [], []))
        elif match := _RANGES.match(line):
            if not found:
                raise ValueError("a hunk without files")
            _read_hunk(lines, int(match[1] or 1), int(match[2] or 1), found[-1])
        elif line and not line.startswith(("diff ", "\\")):
            raise ValueError(f"{line!r} is outside a hunk")
    return [FileDiff(one.expected, one.actual, tuple(one.removed), tuple(one.added)) for one in found]


def _path(line: str) -> Path:
    """The path of a header line; a time follows it after a tab."""
    return Path(line[4:].split("\t")[0])


def _read_hunk(lines: Iterator[str], before: int, after: int, found: _Lines) -> None:
    while before > 0 or after > 0:
        line = next(lines, None)
        if line is None:
            raise ValueError("the last hunk is cut off")
        match line[:1]:
            case "-":
                found.removed.append(line[1:])
                before -= 1
            case "+":
                found.added.append(line[1:])
                after -= 1
            case " ":
                before -= 1
                after -= 1
            case "\\":  # No newline at end of file
                pass
            case _:
                raise ValueError(f"{line!r} is not a line of a hunk")

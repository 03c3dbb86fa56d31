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


def parse_diffs(text: str) -> list[FileDiff]:
    """The compared files with their differences. Raises ValueError when the text is no unified diff.

    Hunks are read by the line counts that they announce: a test's output may look like a header.
    """
    found: list[FileDiff] = []
    lines = iter(text.split("\n"))
    for line in lines:
        if line.startswith("--- "):
            before = _path(line)
            after = next(lines, "")
            if not after.startswith("+++ "):
                raise ValueError(f"no file is compared with {before}")
            found.append(FileDiff(before, _path(after), (), ()))
        elif match := _RANGES.match(line):
            if not found:
                raise ValueError("a hunk without files")
            last = found[-1]
            removed, added = _hunk(lines, int(match[1] or 1), int(match[2] or 1))
            found[-1] = FileDiff(last.expected, last.actual, last.removed + removed, last.added + added)
        elif line and not line.startswith(("diff ", "\\")):
            raise ValueError(f"{line!r} is outside a hunk")
    return found


def _path(line: str) -> Path:
    """The path of a header line; a time follows it after a tab."""
    return Path(line[4:].split("\t")[0])


def _hunk(lines: Iterator[str], before: int, after: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    removed: list[str] = []
    added: list[str] = []
    while before > 0 or after > 0:
        line = next(lines, None)
        if line is None:
            raise ValueError("the last hunk is cut off")
        match line[:1]:
            case "-":
                removed.append(line[1:])
                before -= 1
            case "+":
                added.append(line[1:])
                after -= 1
            case " ":
                before -= 1
                after -= 1
            case "\\":  # No newline at end of file
                pass
            case _:
                raise ValueError(f"{line!r} is not a line of a hunk")
    return tuple(removed), tuple(added)

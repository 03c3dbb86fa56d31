"""A test's output against the expected one, statement by statement.

A line-by-line diff does not know where a result begins and ends. psql echoes the script (`--echo-all`), isolationtester
names each step: these lines are in both outputs, so each statement's whole output can be compared with the expected
one.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

_COPY = re.compile(r"\bcopy\b[^;]*?\bfrom\s+p?std(?:in|out)\b", re.IGNORECASE)
_STEP = re.compile(r"(?:starting permutation: |step \w+: |Parsed test spec |\w+: NOTICE: )")


@dataclass(frozen=True, slots=True)
class Difference:
    """One statement whose output is not the expected one. `line` counts in the expected file from 1."""

    test: str
    line: int
    statement: str
    expected: tuple[str, ...]
    actual: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """What one line of the script, or one step, printed; and where that begins in the file."""

    line: int
    output: tuple[str, ...]


def compare_regression(
    test: str, script: Sequence[str], expected: Sequence[str], actual: Sequence[str]
) -> list[Difference]:
    """The statements of a psql script whose outputs differ."""
    script = [line for line in script if line]  # psql reads an empty line without an echo (mainloop.c)
    left, right = _along_script(script, expected), _along_script(script, actual)
    if left is None or right is None:
        return _whole(test, expected, actual)
    return [
        Difference(test, left[number].line, _statement(script, number), left[number].output, right[number].output)
        for number in range(-1, len(script))
        if left[number].output != right[number].output
    ]


def compare_isolation(test: str, expected: Sequence[str], actual: Sequence[str]) -> list[Difference]:
    """The steps of an isolation test whose outputs differ, each under its permutation's name."""
    left, right = _by_step(expected), _by_step(actual)
    if [name for name, _ in left] != [name for name, _ in right]:
        return _whole(test, expected, actual)
    return [
        Difference(test, before.line, name, before.output, after.output)
        for (name, before), (_, after) in zip(left, right, strict=True)
        if before.output != after.output
    ]


def _whole(test: str, expected: Sequence[str], actual: Sequence[str]) -> list[Difference]:
    """Outputs that cannot be set side by side are one difference, which nothing explains."""
    if list(expected) == list(actual):
        return []
    return [Difference(test, 1, "", tuple(expected), tuple(actual))]


def _along_script(script: Sequence[str], output: Sequence[str]) -> dict[int, _Piece] | None:
    """For each line of the script what was printed after it (-1: before all), or None when an echo is missing.

    An output line that is the script's next line is its echo. What `_skips` names is read without one, or
    with one when a COPY failed.
    """
    printed: dict[int, list[str]] = {number: [] for number in range(-1, len(script))}
    begins: dict[int, int] = {-1: 1}
    current = -1
    skips = _skips(script)
    for place, line in enumerate(output, start=1):
        if current >= 0 and script[current].startswith("\\echo -n "):  # what it prints runs into the next echo
            line = line.removeprefix(script[current].removeprefix("\\echo -n "))
        following = {current + 1, skips.get(current, current) + 1} - {len(script)}
        echoed = next((number for number in sorted(following) if script[number] == line), None)
        if echoed is None:
            printed[current].append(line)
        else:
            current = echoed
            begins[current] = place + 1
    if skips.get(current, current) != len(script) - 1:
        return None
    return {number: _Piece(begins.get(number, 1), tuple(lines)) for number, lines in printed.items()}


def _skips(script: Sequence[str]) -> dict[int, int]:
    """From lines after which psql echoes nothing to the last line without an echo.

    These are the data of a COPY FROM STDIN, up to its end-of-data mark (one for each COPY of the line), and what
    stands between another `\\set ECHO` and `\\set ECHO all`.
    """
    skips: dict[int, int] = {}
    copies = 0
    for number, line in enumerate(script):
        copies += len(_COPY.findall(_without_comment(line)))
        if line.startswith("\\set ECHO ") and line != "\\set ECHO all":
            ends, times = "\\set ECHO all", 1
        elif _ends_statement(line):
            ends, times, copies = "\\.", copies, 0
        else:
            continue
        marks = (place for place in range(number + 1, len(script)) if script[place].rstrip() == ends)
        for mark in itertools.islice(marks, times):
            skips[number] = mark
    return skips


def _statement(script: Sequence[str], last: int) -> str:
    """The statement that ends on this line: back to the line after the last one that ended another."""
    first = last
    while first > 0 and not _ends_statement(script[first - 1]):
        first -= 1
    lines = [line for line in script[max(first, 0) : last + 1] if not line.startswith("--")]
    return "\n".join(lines).strip()


def _without_comment(line: str) -> str:
    return re.sub(r"--.*", "", line)


def _ends_statement(line: str) -> bool:
    bare = _without_comment(line).rstrip()
    ends = bare.endswith(";") and not bare.endswith("\\;")  # psql sends what is joined by \; together
    return not bare or ends or bare.startswith("\\") or re.search(r"\\g\w*(?: .*)?$", bare) is not None


def _by_step(output: Sequence[str]) -> list[tuple[str, _Piece]]:
    pieces: list[tuple[str, _Piece]] = []
    permutation, name, begin = "", "", 1
    lines: list[str] = []
    for place, line in enumerate([*output, None], start=1):
        if line is None or _STEP.match(line):
            pieces.append((f"{permutation}\n{name}".strip(), _Piece(begin, tuple(lines))))
            if line is None:
                break
            permutation = line if line.startswith("starting permutation") else permutation
            name, begin, lines = line, place + 1, []
        else:
            lines.append(line)
    return pieces

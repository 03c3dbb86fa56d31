"""`script/fuzz MINUTES [NAME…]`: every parser's property for MINUTES minutes, and a table of what was found."""

import importlib
import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.fuzzing import Parser, check_for

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
# The number of examples that a Rust property runs before the time is checked again.
_RUST_CASES = 20_000
_RUST_PROPERTY = re.compile(r"^(\S*::(?:any_\w+|no_\w*text\w*)): test$", re.MULTILINE)


def main() -> int:
    """Returns the exit code: 1 if something was found, 2 for unknown names."""
    try:
        seconds = float(sys.argv[1]) * 60
    except (IndexError, ValueError):
        print(
            "usage: script/fuzz MINUTES [NAME…]    minutes for each parser; all parsers whose names have one of these"
        )
        return 2
    wanted = sys.argv[2:]
    failures = 0
    print(f"{'parser':<56} {'examples':>10}  failures", flush=True)
    for parser in parsers():
        if is_wanted(str(parser), wanted):
            examples, found = check_for(parser, seconds)
            _print(str(parser), examples, len(found))
            failures += len(found)
            for error in found:
                print("".join(traceback.format_exception(error)), file=sys.stderr, flush=True)
    for name in _rust_properties():
        if is_wanted(name, wanted):
            examples, said = _rust(name, seconds)
            _print(name, examples, int(bool(said)))
            failures += bool(said)
            print(said, file=sys.stderr, end="", flush=True)
    return int(failures > 0)


def is_wanted(name: str, wanted: list[str]) -> bool:
    """Whether the name contains one of these words, if there are any."""
    return not wanted or any(word in name for word in wanted)


def _print(name: str, examples: int, failures: int) -> None:
    print(f"{name:<56} {examples:>10,}  {failures}", flush=True)


def parsers() -> Iterator[Parser]:
    """All parsers, by the files of their tests."""
    for file in sorted(_HERE.glob("test_*.py")):
        yield from importlib.import_module(f"tests.fuzz.{file.stem}").PARSERS


def _cargo(*arguments: str, cases: int = 256) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["cargo", "test", "--quiet", "--locked", "--package", "octavo-core", "--lib", "--", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=_ROOT,
        env={**os.environ, "PROPTEST_CASES": str(cases)},
    )


def _rust_properties() -> list[str]:
    """The properties of the Rust parsers: tests named any_… and no_…text…"""
    listed = _cargo("--list")
    if listed.returncode != 0:
        print(listed.stderr, file=sys.stderr)
    return _RUST_PROPERTY.findall(listed.stdout)


def _rust(name: str, seconds: float) -> tuple[int, str]:
    """The number of examples, and cargo's output if one fails. proptest draws another sequence in each process."""
    deadline = time.monotonic() + seconds
    examples = 0
    while time.monotonic() < deadline:
        finished = _cargo("--exact", name, cases=_RUST_CASES)
        examples += _RUST_CASES
        if finished.returncode != 0:
            return examples, finished.stdout + finished.stderr
    return examples, ""


if __name__ == "__main__":
    sys.exit(main())

"""The contract of every parser of external text: it returns, or raises what it documents, in bounded time."""

import signal
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from tests.fuzz.mutations import texts_like

from octavo.errors import OctavoError

# In the tests, where a failure would be found again; `script/fuzz` continues for minutes.
_EXAMPLES = 25
_BATCH = 200
# The CPU time of one example, which does not depend on the load of the machine.
_MOST_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Parser:
    """A parser: `read` gets the text and an empty directory, and may raise one of `refusals`.

    `samples` are real examples.
    """

    name: str
    read: Callable[[bytes, Path], object]
    samples: Sequence[bytes]
    refusals: tuple[type[Exception], ...] = (OctavoError,)

    def __str__(self) -> str:
        return self.name


class TookTooLong(BaseException):  # hypothesis does not try to shrink it, which would take hours
    """An example that uses more CPU time than any text may."""


def parametrized(parsers: Sequence[Parser]) -> pytest.MarkDecorator:
    """The parsers as parameters of a test."""
    return pytest.mark.parametrize("parser", parsers, ids=str)


def attempt(parser: Parser, text: bytes, place: Path) -> None:
    """Gives a parser a text. Raises errors that the parser must not raise, and TookTooLong."""
    with _bounded(text):
        try:
            parser.read(text, place)
        except UnicodeDecodeError:  # a ValueError, but not a refusal: the encoding is not the parser's concern
            raise
        except parser.refusals:
            pass


def check(parser: Parser, *, examples: int = _EXAMPLES, number: int | None = None) -> int:
    """Runs this many examples (a random sequence by `number`, otherwise always the same). Returns the number run.

    Raises errors that the parser must not raise, with the example in their notes.
    """
    count = 0
    with tempfile.TemporaryDirectory(prefix="octavo-fuzz-") as scratch:
        place = Path(scratch)

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            derandomize=number is None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
            phases=[Phase.generate, Phase.shrink],
        )
        @given(texts_like(parser.samples))
        def any_text(text: bytes) -> None:
            nonlocal count
            count += 1
            attempt(parser, text, place)

        if number is not None:
            any_text = seed(number)(any_text)
        try:
            any_text()
        except TookTooLong as error:
            raise AssertionError(str(error)) from None
    return count


def check_for(parser: Parser, seconds: float) -> tuple[int, list[Exception]]:
    """Runs examples for this time. Returns their number, and what was found."""
    deadline = time.monotonic() + seconds
    count, found = 0, dict[tuple[str, str], Exception]()
    number = time.time_ns()
    while time.monotonic() < deadline:
        number += 1
        counted: list[int] = []
        watched = Parser(parser.name, _counting(parser, counted), parser.samples, parser.refusals)
        try:
            check(watched, examples=_BATCH, number=number)
        except Exception as error:
            found.setdefault((type(error).__name__, where(error)), error)
            if len(found) >= 20:
                break
        count += len(counted)
    return count, list(found.values())


def _counting(parser: Parser, counted: list[int]) -> Callable[[bytes, Path], object]:
    def read(text: bytes, place: Path) -> object:
        counted.append(1)
        return parser.read(text, place)

    return read


def where(error: BaseException) -> str:
    """The line of the innermost frame, so that one defect is reported once."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else ""


@contextmanager
def _bounded(text: bytes) -> Generator[None, None, None]:
    """Ends code that uses too much CPU time, also within a regular expression (setitimer(2), ITIMER_VIRTUAL)."""

    def too_long(_number: int, _frame: FrameType | None) -> None:
        shown = text if len(text) < 1000 else text[:500] + b" ... " + text[-500:]
        raise TookTooLong(f"{len(text)} bytes took more than {_MOST_SECONDS:.0f} s of CPU time: {shown!r}")

    before = signal.signal(signal.SIGVTALRM, too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, _MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)

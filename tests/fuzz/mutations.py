"""Unexpected texts: any bytes, and real examples with some of their bytes deleted, doubled or replaced."""

import re
from collections.abc import Callable, Sequence

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[int]], int]
_Span = tuple[int, int]

# Common causes of errors in parsers: ends of lines that only str.splitlines knows, bytes that are not UTF-8, digits
# that are not ASCII, numbers that are too large for something, brackets, and syntax of formats.
TOKENS = (
    b"", b"\n", b"\r", b"\r\n", b"\0", b"\t", b" ", b"\x0c", b"\x1c", b"\x85", b"\xff", b"\xc3", b"\xed\xa0\x80",
    "\u2028".encode(), "٣".encode(), "²".encode(), b"-", b"-1", b"0", b"1", b"1.5", b"1e999", b"nan", b"inf",
    b"4294967296", b"9223372036854775808", b"9" * 400, b"9" * 5000, b"0x10", b"1_000", b"[", b"]", b"{", b"}", b"(",
    b")", b'"', b"'", b"\\", b"\\777", b"\\u0000", b":", b";", b",", b".", b"/", b"..", b"=", b"%", b"%n", b"#",
    b"null", b"true", b"[]", b"{}", b"5", b'"x"', b"\x1b[31m", "\u202e".encode(), b"\xef\xbb\xbf", b"x" * 3000,
)  # fmt: skip
_MOST_REPEATED = 3000
_MOST_BYTES = 200_000
_WORD = re.compile(rb"\w+|[^\w\s]")


def texts_like(samples: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Mostly one of the samples with a few mutations, sometimes any bytes."""
    return st.one_of(mutated(samples), mutated(samples), mutated(samples), st.binary(max_size=300))


@st.composite
def mutated(draw: st.DrawFn, samples: Sequence[bytes]) -> bytes:
    """One of the samples with none to four mutations."""
    content = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(0, 4))):
        change = draw(st.sampled_from(_MUTATIONS))
        content = change(draw, content)[:_MOST_BYTES]
    return content


def _span(draw: st.DrawFn, whole: int) -> _Span:
    begin = draw(st.integers(0, whole))
    return begin, min(whole, begin + draw(st.one_of(st.integers(0, 8), st.integers(0, whole))))


def _delete(draw: st.DrawFn, content: bytes) -> bytes:
    begin, end = _span(draw, len(content))
    return content[:begin] + content[end:]


def _double(draw: st.DrawFn, content: bytes) -> bytes:
    begin, end = _span(draw, len(content))
    return content[:end] + content[begin:]


def _repeat(draw: st.DrawFn, content: bytes) -> bytes:
    """A few bytes many times over, as in texts that are nested deeply or never end."""
    begin = draw(st.integers(0, len(content)))
    end = min(len(content), begin + draw(st.integers(1, 8)))
    times = draw(st.one_of(st.integers(2, 20), st.just(_MOST_REPEATED)))
    return content[:begin] + content[begin:end] * times + content[end:]


def _insert(draw: st.DrawFn, content: bytes) -> bytes:
    begin = draw(st.integers(0, len(content)))
    return content[:begin] + draw(st.sampled_from(TOKENS)) + content[begin:]


def _nest(draw: st.DrawFn, content: bytes) -> bytes:
    begin = draw(st.integers(0, len(content)))
    opening = draw(st.sampled_from((b"[", b"{", b"(", b'{"a":', b"a.", b'[{"Plans":')))
    return content[:begin] + opening * draw(st.sampled_from((3, 500, _MOST_REPEATED))) + content[begin:]


def _replace_word(draw: st.DrawFn, content: bytes) -> bytes:
    words = [match.span() for match in _WORD.finditer(content)]
    if not words:
        return content
    begin, end = words[draw(st.integers(0, len(words) - 1))]
    return content[:begin] + draw(st.sampled_from(TOKENS)) + content[end:]


def _flip(draw: st.DrawFn, content: bytes) -> bytes:
    if not content:
        return content
    place = draw(st.integers(0, len(content) - 1))
    return content[:place] + bytes([draw(st.integers(0, 255))]) + content[place + 1 :]


def _of_lines(change: Callable[[list[bytes], int, int], list[bytes]]) -> Callable[[st.DrawFn, bytes], bytes]:
    def mutate(draw: st.DrawFn, content: bytes) -> bytes:
        lines = content.splitlines(keepends=True)
        if not lines:
            return content
        places = st.integers(0, len(lines) - 1)
        return b"".join(change(lines, draw(places), draw(places)))

    return mutate


def _without(lines: list[bytes], one: int, _: int) -> list[bytes]:
    return lines[:one] + lines[one + 1 :]


def _twice(lines: list[bytes], one: int, other: int) -> list[bytes]:
    return [*lines[:other], lines[one], *lines[other:]]


def _cut(lines: list[bytes], one: int, other: int) -> list[bytes]:
    """Ends within a line, as when the power fails during a write."""
    return [*lines[:one], lines[one][: other + 1]]


_MUTATIONS: tuple[Callable[[st.DrawFn, bytes], bytes], ...] = (
    _delete, _double, _repeat, _insert, _nest, _replace_word, _replace_word, _flip,
    _of_lines(_without), _of_lines(_twice), _of_lines(_cut),
)  # fmt: skip

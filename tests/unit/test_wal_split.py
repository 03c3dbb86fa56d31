"""Windows of WAL for reading, and the page headers in them."""

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from octavo.host import children
from octavo.postgres.wal_contents import MOST_BYTES, Position, WalContents, Window, contents, header_bytes, windows


@given(
    st.integers(0, 1 << 40),
    st.integers(1, 1 << 36),
    st.sampled_from([1 << 20, 1 << 24, 1 << 30]),
    st.sampled_from([1 << 22, 1 << 26, MOST_BYTES, 1 << 32]),
)
@example(600 << 20, 700 << 20, 1 << 30, MOST_BYTES)  # it has a border of segments, and no whole one
def test_windows_lie_within_the_trial_and_apart(start: int, length: int, segment: int, most: int) -> None:
    whole = Window(start, start + length)
    found = list(windows(whole, segment, most))
    assert 0 < sum(window.end - window.start for window in found) <= most
    assert all(whole.start <= window.start < window.end <= whole.end for window in found)
    assert all(one.end <= other.start for one, other in pairwise(found))


@given(st.integers(0, 1 << 30), st.integers(0, 1 << 24), st.sampled_from([1024, 8192, 65536]))
def test_page_headers_add_up_over_windows(start: int, length: int, block: int) -> None:
    segment = 1 << 24
    middle = start + length // 2
    apart = header_bytes(Window(start, middle), block, segment) + header_bytes(
        Window(middle, start + length), block, segment
    )
    assert apart == header_bytes(Window(start, start + length), block, segment)


_STATS = "Total   12   600 [75.00%]   200 [25.00%]   800 [100%]\n"


@pytest.mark.parametrize(
    ("code", "output", "found"),
    [
        (0, _STATS, WalContents(600, 200, 1000, 0)),
        (1, _STATS, WalContents(0, 0, 0, 0)),  # an invalid record, of which the sums before it are a part
        (1, "", WalContents(0, 0, 0, 0)),
    ],
)
def test_a_window_that_is_not_read_to_its_end_is_not_inspected(
    code: int, output: str, found: WalContents, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object, **__: object) -> children.Finished:
        return children.Finished(code, output, "", 0.0)

    def segments(directory: Path) -> set[str]:
        return {"000000010000000000000001"}

    monkeypatch.setattr("octavo.postgres.wal_contents.children.run", run)
    monkeypatch.setattr("octavo.postgres.wal_contents.segments", segments)
    build = SimpleNamespace(program=Path)
    server: Any = SimpleNamespace(build=build, directory=Path("/data"), journal=None, account=None)
    start = (1 << 24) + 100
    assert contents(server, start, Position(start + 1000, "00000001", 8192, 1 << 24)) == found

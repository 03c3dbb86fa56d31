"""Windows of WAL for reading, and the page headers in them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from octavo.postgres.wal_contents import Window, header_bytes, windows


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 36), st.sampled_from([1 << 20, 1 << 24, 1 << 30]))
def test_windows_lie_within_the_trial_and_apart(start: int, length: int, segment: int) -> None:
    whole = Window(start, start + length)
    most = 4 * segment
    found = list(windows(whole, segment, most))
    assert sum(window.end - window.start for window in found) <= max(most, length if length <= most else 0)
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

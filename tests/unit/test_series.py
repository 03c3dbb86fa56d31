"""Stored series: small, and unchanged when they are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.series import pack_seconds, pack_values, unpack_seconds, unpack_values


@given(st.lists(st.floats(0, 1e6, allow_nan=False), max_size=50).map(sorted), st.lists(st.floats(), max_size=50))
def test_packed_series_come_back(seconds: list[float], values: list[float]) -> None:
    unpacked = unpack_seconds(pack_seconds(tuple(seconds)))
    assert unpacked == pytest.approx(seconds, abs=0.0005000001)
    assert [v.hex() for v in unpack_values(pack_values(tuple(values)))] == [v.hex() for v in values]


def test_a_series_at_a_steady_period_is_small() -> None:
    seconds = tuple(float(n) for n in range(1, 1801))
    assert len(pack_seconds(seconds)) < 100
    assert len(pack_values((0.0,) * 1800)) < 100


@pytest.mark.parametrize("count", [0, 1, 64, 65, 10_000])
def test_a_series_of_any_length_comes_back(count: int) -> None:
    """Up to 512 bytes zlib packs them with a small window."""
    values = tuple(number / 3 for number in range(count))
    assert unpack_values(pack_values(values)) == values
    assert unpack_seconds(pack_seconds(tuple(map(float, range(count))))) == tuple(map(float, range(count)))

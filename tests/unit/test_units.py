import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import UsageError
from octavo.units import format_size, parse_duration, parse_percentage, parse_size


@given(st.integers(min_value=0, max_value=2**60))
def test_a_size_survives_being_written(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.text(max_size=12))
def test_no_text_breaks_the_parsers(text: str) -> None:
    for parse in (parse_size, parse_duration, parse_percentage):
        try:
            assert parse(text) >= 0
        except UsageError as error:
            assert repr(text) in str(error)


@pytest.mark.parametrize("text", ["8 kb", "8KB", "-8kB", "8.5kB", "kB", "", "0x10kB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        parse_size(text)

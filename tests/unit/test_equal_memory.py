import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import OctavoError
from octavo.lab.equal_memory import buffers_within

MB = 1024**2


@given(
    memory=st.integers(32, 4096), block=st.sampled_from([1024, 8192, 32768]), overhead=st.floats(1.0, 1.5),
    fixed=st.integers(1, 20),
)  # fmt: skip
def test_the_most_buffers_that_fit(memory: int, block: int, overhead: float, fixed: int) -> None:
    def needed(buffers: int) -> int:
        return int(-(-(buffers * overhead + fixed * MB) // MB)) * MB

    found = buffers_within(memory * MB, block, needed)
    assert needed(found) <= memory * MB
    assert needed(found + MB) > memory * MB


def test_too_little_memory_is_an_error() -> None:
    with pytest.raises(OctavoError, match="no room for 16 buffers of 32 kB"):
        buffers_within(4 * MB, 32768, lambda buffers: buffers + 10 * MB)

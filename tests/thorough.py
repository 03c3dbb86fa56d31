"""How much campaigns do: a short form each time, all of it under `script/test thorough`."""

import os

import pytest

THOROUGH = os.environ.get("OCTAVO_THOROUGH", "") not in ("", "0")

in_thorough_tests = pytest.mark.skipif(not THOROUGH, reason="script/test thorough runs it")


def times(whole: int, short: int) -> int:
    """How many times a campaign tries: `whole` when the tests are thorough, else `short`."""
    return whole if THOROUGH else short

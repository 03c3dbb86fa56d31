"""The length of campaigns: short by default, in full under `script/test thorough`."""

import os

import pytest

THOROUGH = os.environ.get("OCTAVO_THOROUGH", "") not in ("", "0")

in_thorough_tests = pytest.mark.skipif(not THOROUGH, reason="script/test thorough runs it")


def times(whole: int, short: int) -> int:
    """The number of tries of a campaign: `whole` if the tests are thorough, otherwise `short`."""
    return whole if THOROUGH else short

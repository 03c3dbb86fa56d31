"""The root is scipy's, to the last bits."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from octavo.analysis.root import root


@given(st.floats(-20, 20), st.floats(0.01, 30), st.floats(0.01, 30), st.sampled_from([1e-4, 1e-7, 1e-9, 1e-12]))
def test_the_root_is_that_of_scipy(place: float, below: float, above: float, tolerance: float) -> None:
    functions: tuple[Callable[[float], float], ...] = (
        lambda x: x - place,
        lambda x: (x - place) ** 3 + (x - place),
        lambda x: math.tanh(x - place) + (x - place) / 50,
        lambda x: math.exp(min(50.0, x - place)) - 1,
    )
    for function in functions:
        expected = brentq(function, place - below, place + above, xtol=tolerance)
        assert root(function, place - below, place + above, tolerance) == pytest.approx(expected, abs=1e-14, rel=1e-13)


def test_ends_of_one_sign_are_an_error() -> None:
    with pytest.raises(ValueError, match="one sign"):
        root(lambda x: x * x + 1, -1, 1, 1e-9)
    assert root(lambda x: x, 0, 1, 1e-9) == 0
    assert root(lambda x: x - 1, 0, 1, 1e-9) == 1

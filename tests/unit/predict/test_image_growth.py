"""Full-page images of more transactions than were recorded, compared with pages whose rates are known."""

import math
import random
from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.predict.image_growth import bounds, total
from octavo.predict.rates import Rates


def _rates(points: list[tuple[float, float]]) -> Rates:
    return Rates("merged", {}, 0.0, True, 0.0, 0.0, tuple(points))


def _mixture(rates: dict[float, float], transactions: float) -> float:
    """Images of pages that are changed at these rates; `rates`: the number of pages, by rate."""
    return sum(pages * -math.expm1(-rate * transactions) for rate, pages in rates.items())


_RATES = st.dictionaries(st.floats(1e-4, 10.0), st.floats(1.0, 1e4), min_size=1, max_size=5)


@given(_RATES, st.floats(1.0, 20.0))
def test_bounds_hold_for_every_mixture_of_rates(rates: dict[float, float], more: float) -> None:
    one, two, three, then = (_mixture(rates, parts) for parts in (1.0, 2.0, 3.0, 3.0 + more))
    least, most = bounds((one, two - one, three - two), more)
    slack = 1e-6 * three
    assert least - slack <= then - three <= most + slack


@given(_RATES, st.floats(1.0, 20.0))
def test_the_likely_number_is_within_its_bounds_and_not_below_the_recorded(
    rates: dict[float, float], times: float
) -> None:
    one = _rates([(float(step), _mixture(rates, step / 8)) for step in range(1, 25)])
    low, likely, high = (total(one, 24 * times, 24.0, beyond) for beyond in (-1.0, 0.0, 1.0))
    assert total(one, 24.0, 24.0) <= low + 1e-6 <= likely + 2e-6 <= high + 3e-6


@pytest.mark.parametrize("times", [1.5, 3.0, 10.0])
def test_pages_that_are_changed_equally_often_are_counted_exactly(times: float) -> None:
    one = _rates([(100.0 * step, 5_000 * -math.expm1(-step / 16)) for step in range(1, 25)])
    expected = 5_000 * -math.expm1(-times * 24 / 16)
    for beyond in (-1.0, 0.0, 1.0):
        assert total(one, 2_400 * times, 2_400.0, beyond) == pytest.approx(expected, rel=0.01)


def test_of_skewed_pages_more_follow_than_if_rates_were_equal() -> None:
    """Rates with a gamma distribution of shape a half, and items as in TPC-C: NURand(8191, 1, 100000)."""
    exact = _rates([(100.0 * step, 1_000 * (1 - (1 + step / 3) ** -0.5)) for step in range(1, 25)])
    assert total(exact, 24_000, 2_400.0) == pytest.approx(1_000 * (1 - 81**-0.5), rel=0.01)
    source = random.Random(4)
    first: dict[int, int] = {}
    for number in range(150_000):
        page = (source.randint(0, 8191) | source.randint(1, 100_000)) % 100_000 * 4_608 // 100_000
        first.setdefault(page, number)
    seen = sorted(first.values())
    items = _rates([(625.0 * step, float(bisect_right(seen, 625 * step))) for step in range(1, 25)])
    assert total(items, 60_000, 15_000.0) == pytest.approx(bisect_right(seen, 60_000), rel=0.1)
    assert total(items, 150_000, 15_000.0) == pytest.approx(len(seen), rel=0.25)
    least, most = (total(items, 150_000, 15_000.0, beyond) for beyond in (-1.0, 1.0))
    assert least < 0.9 * len(seen) < len(seen) < most

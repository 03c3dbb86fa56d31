"""Ratios and after-effects, recovered from planted ones."""

import math
import random
from itertools import islice

import pytest

from octavo.lab.slices.effects import after_effects, ratio_of, total_ratio_of
from octavo.lab.slices.order import turns


def planted(carry: tuple[float, ...], scatter: float, number: int = 240) -> tuple[list[list[float]], list[list[int]]]:
    """Rates by turn: cells 1, 1.1 and 0.9 times as fast, common drift, and the effect of each on its successor."""
    chance = random.Random(3)
    orders = list(islice(turns(3, "planted"), number))
    rates: list[list[float]] = []
    before = 0
    for turn, order in enumerate(orders):
        row = [0.0] * 3
        for cell in order:
            common = 1000 * math.exp(math.sin(turn / 20))
            row[cell] = common * (1, 1.1, 0.9)[cell] * math.exp(carry[before] + chance.gauss(0, scatter))
            before = cell
        rates.append(row)
    return rates, orders


def test_slow_noise_cancels_in_the_ratio() -> None:
    rates, _ = planted((0, 0, 0), 0.05)
    found = ratio_of(rates, 1, 0)
    assert found is not None
    assert found.error == pytest.approx(0.05 * math.sqrt(2 / 240), rel=0.35)
    assert found.interval[0] < 1.1 < found.interval[1]


def test_the_ratio_of_few_turns_is_not_told() -> None:
    assert ratio_of([[1.0, 2.0]] * 2, 1, 0) is None
    assert ratio_of([[0.0, 2.0]] * 9, 1, 0) is None


def test_carry_over_that_was_planted_is_found() -> None:
    rates, orders = planted((0, 0.06, 0), 0.02)
    found = after_effects(rates, orders, range(len(rates)))
    assert found is not None
    assert found.carry_over == pytest.approx(0.06, abs=3 * found.error)
    assert 0 < found.error < 0.01


def test_without_carry_over_none_is_found_for_certain() -> None:
    rates, orders = planted((0, 0, 0), 0.02)
    found = after_effects(rates, orders, range(len(rates)))
    assert found is not None
    assert found.carry_over < 3 * found.error
    assert abs(found.autocorrelation) < 0.2


def test_turns_that_were_dropped_still_were_predecessors() -> None:
    rates, orders = planted((0, 0.06, 0), 0.0001)
    kept = [turn for turn in range(len(rates)) if turn % 3]
    found = after_effects([rates[turn] for turn in kept], orders, kept)
    assert found is not None
    assert found.carry_over == pytest.approx(0.06, abs=0.001)


def test_too_few_turns_tell_nothing() -> None:
    rates, orders = planted((0, 0, 0), 0.02, 8)
    assert after_effects(rates, orders, range(8)) is None


def test_the_ratio_of_pieces_is_that_of_their_sum() -> None:
    """A short query that is three times as slow has less weight than a long one."""
    found = total_ratio_of([10.2, 10.1], 0, 1)
    assert found is not None
    assert (found.ratio, found.interval) == (10.2 / 10.1, (10.2 / 10.1, 10.2 / 10.1))
    assert total_ratio_of([], 0, 1) is None
    assert total_ratio_of([1.0, 0.0], 0, 1) is None

"""Figures from two readings of counters: rates, totals, ratios, shares."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.instruments.figures import (
    ClientShare,
    PerTransaction,
    Rate,
    Ratio,
    Reading,
    Total,
    TrialWork,
    points,
    totals,
)
from octavo.observation import Metric

READS = Metric("reads", "reads", "1")

numbers = st.floats(0, 1e15, allow_nan=False)


@given(numbers, numbers, st.floats(1e-3, 1e6))
def test_a_counter_gives_its_growth_or_nothing(before: float, after: float, seconds: float) -> None:
    figures = (Rate(READS, "n"), Total(READS, "n"), PerTransaction(READS, "n"), Ratio(READS, "n", "n"))
    first: Reading = {None: {"n": before}}
    last: Reading = {None: {"n": after}}
    found = [value for _, _, value in totals(figures, first, last, seconds, TrialWork(transactions=4))]
    if after < before:
        assert found == []
    elif after == before:
        assert found == [0.0, 0.0, 0.0]  # a ratio to zero is not a number
    else:
        assert found == [(after - before) / seconds, 1.0, after - before, (after - before) / 4]


def test_a_ratio_and_a_share_need_something_below() -> None:
    share = ClientShare(READS, "busy")
    assert [v for *_, v in totals([share], {None: {"busy": 1.0}}, {None: {"busy": 5.0}}, 1.0, TrialWork(0, 2.0))] == [
        0.5
    ]
    assert not list(totals([share], {None: {"busy": 1.0}}, {None: {"busy": 1.0}}, 1.0, TrialWork(0, 2.0)))
    assert not list(points([Ratio(READS, "a", "b")], {None: {"a": 1, "b": 1}}, {None: {"a": 2, "b": 1}}, 1.0))


@pytest.mark.parametrize(("grown", "seen"), [(9, []), (10, [2.0])])
def test_a_ratio_to_almost_nothing_is_none(grown: int, seen: list[float]) -> None:
    after: Reading = {None: {"a": 2.0 * grown, "b": float(grown)}}
    assert [v for _, _, v in points([Ratio(READS, "a", "b", least=5)], {None: {"a": 0, "b": 0}}, after, 2.0)] == seen


def test_items_come_and_go() -> None:
    rate = [Rate(READS, "n")]
    new = list(points(rate, {"old": {"n": 5.0}}, {"new": {"n": 3.0}}, 1.0))
    assert new == [(READS, "new", 3.0)]
    assert list(totals(rate, {"idle": {"n": 5.0}}, {"idle": {"n": 5.0}}, 1.0, TrialWork())) == []

"""Cells compared with their baseline: examples computed by hand, and irrelevant changes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.analysis.contrasts import contrasts
from octavo.analysis.interim import analyse, single_analysis
from octavo.analysis.ratios import Contrasts

from .making import compared, layout, simulated


def same(one: Contrasts, other: Contrasts) -> bool:
    return all(
        np.allclose(getattr(one, name), getattr(other, name), equal_nan=True)
        for name in ("centre", "variance", "freedom", "of_loads", "loads", "rounds", "conditional", "own")
    )


def test_one_load_is_the_textbook_interval_of_paired_differences() -> None:
    # differences 0.01, 0.02, 0.03: mean 0.02, deviation 0.01; t for 2 degrees of freedom is 4.30265
    now = analyse(contrasts(layout([[0, 0, 0], [0.01, 0.02, 0.03]], [1, 1, 1])), compared(1, once=True), 3, 3, 0)
    found = now.estimate(1)
    assert found is not None
    assert found.log_ratio == pytest.approx(0.02)
    assert found.half_width == pytest.approx(4.30265 * 0.01 / math.sqrt(3), rel=1e-5)
    assert (found.degrees_of_freedom, found.loads, found.rounds, found.conditional) == (2, 1, 3, True)


def test_two_loads_weigh_the_same_however_many_rounds_they_have() -> None:
    # load means 0.02 and 0.06; sums of squares around them 0.0002 and 0.0002, 3 degrees of freedom
    found = contrasts(layout([[0] * 5, [0.01, 0.02, 0.03, 0.05, 0.07]], [1, 1, 1, 2, 2]))
    assert found.centre[1] == pytest.approx(0.04)
    assert found.variance[1] == pytest.approx((0.0004 / 3) * (1 / 3 + 1 / 2) / 4)
    assert (found.freedom[1], found.loads[1], bool(found.conditional[1])) == (3, 2, True)


def test_with_loads_enough_theirs_is_the_scatter_that_counts() -> None:
    # Rounds of a load agree perfectly: the load's means are the only data, and the interval is that of their mean.
    means = np.repeat([0.0, 0.02, 0.04, 0.06, 0.08, 0.10], 2)
    found = contrasts(layout(np.array([np.zeros(12), means]), np.repeat([1, 2, 3, 4, 5, 6], 2).tolist()))
    assert found.centre[1] == pytest.approx(0.05)
    assert found.variance[1] == pytest.approx(np.var(np.unique(means), ddof=1) / 6)
    assert (found.freedom[1], bool(found.conditional[1])) == (5, False)


def test_cells_of_the_baselines_dataset_are_paired_on_its_loads() -> None:
    source = np.random.default_rng(1)
    of_load = source.normal(0, 1, 4)
    values = of_load + source.normal(0, 0.01, (2, 4))
    found = contrasts(layout(values, [1, 2, 3, 4], [0, 0]))
    differences = values[1] - values[0]
    assert found.variance[1] == pytest.approx(np.var(differences, ddof=1) / 4)
    assert (found.freedom[1], bool(found.conditional[1]), found.of_loads[1]) == (3, False, 0)


def test_a_cell_that_scatters_more_is_judged_by_its_own_scatter() -> None:
    source = np.random.default_rng(1)
    values = source.normal(0, 0.01, (8, 12))
    values[3] += source.normal(0, 0.2, 12)
    found = contrasts(layout(values, [1] * 12))
    assert found.own.tolist() == [row == 3 for row in range(8)]
    assert found.variance[3] == pytest.approx(np.var(values[3] - values[0], ddof=1) / 12)
    assert found.freedom[3] == 11


def test_a_cell_that_scatters_a_little_more_has_its_scatter_weighed_in() -> None:
    source = np.random.default_rng(1)
    values = source.normal(0, 0.01, (8, 12))
    usual = contrasts(layout(values, [1] * 12))
    values[3] = 1.8 * values[3]
    found = contrasts(layout(values, [1] * 12))
    assert not found.own.any()
    pooled = float(np.min(found.variance[1:]))
    itself = float(np.var(values[3] - values[0], ddof=1)) / 12
    assert found.variance[3] == pytest.approx((2 * pooled + 11 * itself) / 13)
    assert found.variance[3] > usual.variance[3]
    assert found.freedom[3] == found.freedom[1]


def test_one_round_has_a_ratio_and_no_interval() -> None:
    estimate = single_analysis(layout([[0.0], [0.5]], [1]), compared(1, once=True)).estimate(1)
    assert estimate is not None
    assert (estimate.log_ratio, estimate.half_width, estimate.low, estimate.high) == (0.5, None, None, None)


@given(seed=st.integers(0, 1000), drift=st.lists(st.floats(-5, 5), min_size=8, max_size=8))
def test_what_a_whole_round_has_in_common_changes_nothing(seed: int, drift: list[float]) -> None:
    quiet = simulated(np.random.default_rng(seed), 4, [1, 2, 3, 4] * 2, of_load=0.1, of_trial=0.1)
    drifting = layout(quiet.values + np.array(drift), quiet.loads[0].tolist())
    assert same(contrasts(quiet), contrasts(drifting))


@given(seed=st.integers(0, 1000), names=st.permutations([1, 2, 3, 4]), row=st.integers(0, 3))
def test_what_the_loads_of_a_dataset_are_called_changes_nothing(seed: int, names: list[int], row: int) -> None:
    made = simulated(np.random.default_rng(seed), 4, [1, 2, 3, 4] * 2, of_load=0.1, of_trial=0.1)
    renamed = made.loads.copy()
    renamed[row] = [names[load - 1] for load in renamed[row]]
    assert same(contrasts(made), contrasts(layout(made.values, renamed.tolist())))


@given(seed=st.integers(0, 1000), order=st.permutations(range(8)))
def test_the_order_of_rounds_changes_nothing(seed: int, order: list[int]) -> None:
    made = simulated(np.random.default_rng(seed), 4, [1, 2, 3, 4] * 2, of_load=0.1, of_trial=0.1)
    moved = layout(made.values[:, order], made.loads[0][order].tolist())
    assert same(contrasts(made), contrasts(moved))


def test_intervals_of_loads_in_general_hold_as_often_as_they_say() -> None:
    source = np.random.default_rng(1)
    covered = 0
    for _ in range(1000):
        at = single_analysis(
            simulated(source, 5, [1, 2, 3, 4] * 2, of_load=0.02, of_trial=0.01), compared(4, once=True)
        )
        covered += int((np.abs(at.contrasts.centre[1:]) <= at.half_widths[1:]).all())
    assert 930 <= covered <= 975

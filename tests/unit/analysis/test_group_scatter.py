"""Pooled variances by group: the result for equal cells, when one pool is used, and coverage of the intervals."""

from dataclasses import replace

import numpy as np
import pytest

from octavo.analysis.contrasts import contrasts
from octavo.analysis.group_scatter import group_squares
from octavo.analysis.interim import single_analysis
from octavo.analysis.layout import Floats, Layout
from octavo.analysis.variance_components import variance_components

from .making import compared, layout

GROUPS = np.repeat(range(4), 6)


def grouped(values: Floats, groups: np.ndarray[tuple[int], np.dtype[np.int64]] = GROUPS) -> Layout:
    return replace(layout(values, list(range(1, values.shape[1] + 1))), groups=groups)


def test_the_pools_together_are_the_one_pool_where_groups_scatter_alike() -> None:
    values = np.random.default_rng(1).normal(0, 0.01, (24, 4))
    made = grouped(values)
    components = variance_components(made)
    found = group_squares(made, components)
    assert found is not None
    squares, freedom = found
    assert float(squares[::6] @ freedom[::6]) / freedom[::6].sum() == pytest.approx(components.load_square, rel=0.1)
    assert freedom[::6].sum() == pytest.approx(components.load_freedom)


def test_each_group_has_its_own_scatter() -> None:
    deviations = np.repeat([0.01, 0.01, 0.1, 1.0], 6)
    made = grouped(deviations[:, None] * np.random.default_rng(2).normal(size=(24, 12)))
    found = group_squares(made, variance_components(made))
    assert found is not None
    assert np.sqrt(found[0]) == pytest.approx(deviations, rel=0.3)
    # The noisy groups contribute almost nothing to the estimates of the rounds, and lose almost no degrees of freedom
    # to them.
    assert found[1][-1] == pytest.approx(6 * 11, rel=0.01)


def test_one_pool_serves_where_groups_are_small_or_loads_gave_several_trials() -> None:
    values = np.random.default_rng(3).normal(0, 0.01, (24, 3))
    each = grouped(values, np.arange(24))
    assert group_squares(each, variance_components(each)) is None
    whole = grouped(values, np.zeros(24, dtype=np.int64))
    assert group_squares(whole, variance_components(whole)) is None
    twice = replace(layout(np.hstack([values, values + 0.001]), [1, 2, 3, 1, 2, 3]), groups=GROUPS)
    assert group_squares(twice, variance_components(twice)) is None


@pytest.mark.parametrize("bimodal", [False, True])
def test_intervals_hold_for_quiet_and_noisy_groups(*, bimodal: bool) -> None:
    source = np.random.default_rng(4)
    quiet: list[bool] = []
    noisy: list[bool] = []
    for _ in range(150):
        values = source.normal(0, 0.01, (24, 3))
        values[18:] *= 80
        if bimodal:
            values[18:] = 1.6 * ((source.random((6, 3)) < 1 / 3) - 1 / 3)
        look = single_analysis(grouped(values), compared(23, once=True))
        held = np.abs(contrasts(grouped(values)).centre) <= look.half_widths
        quiet += held[1:18].tolist()
        noisy += held[18:].tolist()
        assert np.median(look.half_widths[1:18]) < 0.06
    assert np.mean(quiet) >= 0.97
    assert np.mean(noisy) >= 0.97

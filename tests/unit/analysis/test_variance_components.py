"""Variance components of layouts that can be computed by hand, and of simulated ones."""

import numpy as np
import pytest

from octavo.analysis.variance_components import variance_components

from .making import layout, simulated

# D. C. Montgomery, Design and Analysis of Experiments, ch. 4: vascular grafts, four pressures in six batches of resin;
# error mean square 7.33 with 15 degrees of freedom.
GRAFTS = (
    (90.3, 89.2, 98.2, 93.9, 87.4, 97.9),
    (92.5, 89.5, 90.6, 94.7, 87.0, 95.8),
    (85.5, 90.8, 89.6, 86.2, 88.0, 93.4),
    (82.5, 89.5, 85.6, 87.4, 78.9, 90.7),
)


def test_one_load_is_the_randomised_complete_block_of_textbooks() -> None:
    found = variance_components(layout(GRAFTS, [1] * 6))
    assert found.residual_freedom == 15
    assert found.residual_square == pytest.approx(7.33, abs=0.005)
    assert (found.load_square, found.load_freedom, found.general) == (None, 0, False)


def test_a_load_for_every_round_leaves_nothing_to_tell_apart() -> None:
    found = variance_components(layout(GRAFTS, [1, 2, 3, 4, 5, 6]))
    assert (found.residual_square, found.residual_freedom) == (None, 0)
    assert found.load_square == pytest.approx(7.33, abs=0.005)
    assert (found.load_freedom, found.trials_per_load, found.load_variance) == (15, pytest.approx(1), None)


def test_a_balanced_nested_layout_by_hand() -> None:
    # The differences of two cells are 1, 3 on load 1 and 5, 9 on load 2. Around their loads' means 2 and 7 their
    # squares sum to 10, half of it is each cell's: 5, 2 degrees of freedom. The means' squares around 4.5 sum to
    # 12.5, twice for the two rounds, halved: 12.5, 1 degree of freedom; and 12.5 = σ² + 2 σ²_load.
    found = variance_components(layout([[0, 0, 0, 0], [1, 3, 5, 9]], [1, 1, 2, 2]))
    assert (found.residual_square, found.residual_freedom) == (pytest.approx(2.5), 2)
    assert (found.load_square, found.load_freedom) == (pytest.approx(12.5), 1)
    assert found.trials_per_load == pytest.approx(2)
    assert found.load_variance == pytest.approx(5)
    assert not found.general


def test_cells_that_share_a_dataset_do_not_tell_loads_apart() -> None:
    # What their loads have in common cancels within rounds: all variance is that of trials.
    source = np.random.default_rng(1)
    of_load = source.normal(0, 5, 3)[[0, 1, 2, 0, 1, 2]]
    found = variance_components(layout(of_load + source.normal(0, 1, (3, 6)), [1, 2, 3, 1, 2, 3], [0, 0, 0]))
    assert found.load_freedom == 0
    assert found.residual_freedom == 10
    assert found.residual_square is not None
    assert found.residual_square < 5


def test_less_between_loads_than_within_is_no_negative_variance() -> None:
    found = variance_components(layout([[0, 0, 0, 0], [0, 4, 0, 4]], [1, 1, 2, 2]))
    assert found.load_square == pytest.approx(0)
    assert found.load_variance == 0


def test_what_was_simulated_is_found_again_though_trials_are_missing() -> None:
    source = np.random.default_rng(1)
    loads: list[float] = []
    residuals: list[float] = []
    for _ in range(300):
        made = simulated(source, 6, [1, 2, 3, 4] * 3, of_load=2.0, of_trial=1.0)
        made.values[source.random(made.values.shape) < 0.15] = np.nan
        found = variance_components(made)
        assert found.load_variance is not None
        assert found.residual_square is not None
        loads.append(found.load_variance)
        residuals.append(found.residual_square)
    assert np.mean(loads) == pytest.approx(4.0, rel=0.06)
    assert np.mean(residuals) == pytest.approx(1.0, rel=0.03)


def test_no_trial_at_all_says_nothing() -> None:
    found = variance_components(layout([[np.nan, np.nan], [np.nan, np.nan]], [1, 1]))
    assert (found.residual_square, found.load_square, found.general) == (None, None, False)

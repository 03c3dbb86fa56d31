"""Scatter that differs between the levels of a factor: a pool for each level instead of one for all cells.

Model of a logarithm: cell + round + residual, whose variance is that of the cell's group. It is for plans that are
analysed once and whose loads gave one trial each, so that loads and trials have one variance (docs/method.md).
"""

import numpy as np

from octavo.analysis.layout import Floats, Layout
from octavo.analysis.variance_components import FEWEST_BETWEEN_LOADS, Components

_PASSES = 20
_CLOSE = 1e-6


def group_squares(layout: Layout, components: Components) -> tuple[Floats, Floats] | None:
    """For every row the mean square of its group's trials, and its degrees of freedom.

    None where one pool serves: no groups are named, there is only one, a load gave several trials, or a group has
    fewer than FEWEST_BETWEEN_LOADS degrees of freedom. Rounds are estimated with each group's weight, 1 / its mean
    square, and the degrees of freedom that they cost are shared out by that weight (the fixed point of iteratively
    reweighted least squares; R. J. Carroll, D. Ruppert, Transformation and Weighting in Regression, 1988, ch. 2).
    """
    if layout.groups is None or components.residual_square is not None or not components.general:
        return None
    present = ~np.isnan(layout.values)
    trials = present.sum(axis=1)
    names, groups = np.unique(layout.groups, return_inverse=True)
    if len(names) < 2:
        return None
    squares = np.ones(len(names))
    freedom = np.zeros(len(names))
    for _ in range(_PASSES):
        weights = np.where(present, (1 / squares)[groups][:, None], 0.0)
        rest = _residuals(np.where(present, layout.values, 0.0), weights)
        cost = _shares(weights, groups, len(names))
        freedom = np.bincount(groups, np.maximum(trials - 1, 0), len(names)) - cost
        if (freedom < FEWEST_BETWEEN_LOADS).any():
            return None
        before, squares = squares, np.bincount(groups, (rest**2 * present).sum(axis=1), len(names)) / freedom
        if (squares <= 0).any():
            return None
        if np.allclose(before, squares, rtol=_CLOSE):
            break
    return squares[groups], freedom[groups]


def _residuals(values: Floats, weights: Floats) -> Floats:
    """What is left of the values once cells and rounds are taken out in turns, rounds by their weights."""
    rest = values.copy()
    used = weights > 0
    for _ in range(_PASSES):
        shift = (rest * weights).sum(axis=0) / np.maximum(weights.sum(axis=0), 1e-300)
        rest -= np.where(used, shift, 0.0)
        mean = (rest * used).sum(axis=1) / np.maximum(used.sum(axis=1), 1)
        rest -= np.where(used, mean[:, None], 0.0)
        if max(np.abs(shift).max(), np.abs(mean).max()) < 1e-12:
            break
    return rest


def _shares(weights: Floats, groups: np.ndarray[tuple[int], np.dtype[np.int64]], count: int) -> Floats:
    """The rounds' degrees of freedom, one less than there are, shared out by the weight of each group in a round."""
    of_round = weights / np.maximum(weights.sum(axis=0), 1e-300)
    rounds = weights.shape[1]
    return np.bincount(groups, of_round.sum(axis=1), count) * (rounds - 1) / rounds

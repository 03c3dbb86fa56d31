"""Every cell against the baseline: the mean log ratio, its variance and degrees of freedom."""

from dataclasses import dataclass

import numpy as np

from octavo.analysis.components import Components, satterthwaite, variance_components
from octavo.analysis.layout import Flags, Floats, Integers, Layout

# A cell whose own scatter is above the pooled one by a chance smaller than this is judged by its own.
OWN_SCATTER = 0.01


@dataclass(frozen=True, slots=True)
class Contrasts:
    """By cell, on the log scale; NaN where there is no ratio, or no way to know its variance.

    `freedom` are degrees of freedom, rounded down. `of_loads`: the part of the variance that only more loads
    reduce. `conditional`: speaks of these loads only. `own`: judged by its own scatter.
    """

    centre: Floats
    variance: Floats
    freedom: Integers
    of_loads: Floats
    loads: Integers
    rounds: Integers
    conditional: Flags
    own: Flags
    components: Components


@dataclass(frozen=True, slots=True)
class _Ratios:
    """By cell: the mean over its loads of the loads' means of log ratios, and what scatters around them."""

    centre: Floats
    loads: Integers
    rounds: Integers
    squared_weights: Floats  # Σ over loads of 1/n(l), over L²
    within: Floats  # sum of squares of ratios around their load's mean
    between: Floats  # sum of squares of the loads' means around the centre


def contrasts(layout: Layout) -> Contrasts:
    """D = mean over a cell's loads of the mean of its log ratios to the baseline within rounds, for every cell.

    Var(D) = [datasets differ] 2 σ²_load / L + 2 σ² Σ 1/n(l) / L², with n(l) ratios on load l, L loads, and the
    variance components pooled over the condition.
    """
    components = variance_components(layout)
    ratios = _ratios(layout)
    foreign = layout.datasets != layout.datasets[layout.baseline]
    general = (ratios.loads >= 2) & (components.general | ~foreign)
    weight_of_loads = np.where(foreign & general, 2 / np.maximum(ratios.loads, 1), 0.0)
    of_loads = weight_of_loads * (components.load_variance or 0.0)
    pooled = components.variance(weight_of_loads, 2 * ratios.squared_weights)
    variance, freedom, own = _guarded(ratios, components, of_loads, general, *pooled)
    known = (ratios.rounds > 0) & (freedom >= 1)
    return Contrasts(
        centre=np.where(ratios.rounds > 0, ratios.centre, np.nan),
        variance=np.where(known, variance, np.nan),
        freedom=np.where(known, np.floor(freedom + 1e-9), 0).astype(np.int64),
        of_loads=of_loads,
        loads=ratios.loads,
        rounds=ratios.rounds,
        conditional=~general,
        own=own & known,
        components=components,
    )


def _ratios(layout: Layout) -> _Ratios:
    difference = layout.values - layout.values[layout.baseline]
    difference[layout.baseline] = np.nan
    cells, columns = np.nonzero(~np.isnan(difference))
    d, used = difference[cells, columns], layout.loads[cells, columns]
    count, width = len(layout.datasets), int(used.max(initial=0)) + 1
    place = cells * width + used

    def table(weights: Floats) -> Floats:
        return np.bincount(place, weights, minlength=count * width).astype(np.float64)

    sizes = table(np.ones(len(d)))
    present = (sizes > 0).reshape(count, width)
    loads = present.sum(axis=1)
    divisor = np.maximum(loads, 1)
    means = table(d) / np.maximum(sizes, 1)
    centre = means.reshape(count, width).sum(axis=1) / divisor
    around = np.where(present, means.reshape(count, width) - centre[:, None], 0.0)
    inverse = np.where(sizes > 0, 1 / np.maximum(sizes, 1), 0.0)
    return _Ratios(
        centre=centre,
        loads=loads,
        rounds=np.bincount(cells, minlength=count),
        squared_weights=inverse.reshape(count, width).sum(axis=1) / divisor**2,
        within=table((d - means[place]) ** 2).reshape(count, width).sum(axis=1),
        between=(around**2).sum(axis=1),
    )


def _guarded(
    ratios: _Ratios, components: Components, of_loads: Floats, general: Flags, variance: Floats, freedom: Floats
) -> tuple[Floats, Floats, Flags]:
    """The pooled variances, but those of cells that scatter more, within loads or between them, by their own."""
    freedom_within = ratios.rounds - ratios.loads
    freedom_between = ratios.loads - 1
    own = np.zeros(general.shape, dtype=bool)
    if components.residual_square is not None:
        mean_square = ratios.within / np.maximum(freedom_within, 1)
        pooled = np.full(mean_square.shape, 2 * components.residual_square)
        own = _beyond(mean_square, freedom_within, pooled, np.full(mean_square.shape, components.residual_freedom))
        itself, its_freedom = satterthwaite(
            of_loads,
            max(components.load_freedom, 1),
            mean_square * ratios.squared_weights,
            np.maximum(freedom_within, 1).astype(np.float64),
        )
        variance, freedom = np.where(own, itself, variance), np.where(own, its_freedom, freedom)
    mean_square = ratios.between / np.maximum(freedom_between, 1)
    apart = general & _beyond(mean_square, freedom_between, variance * ratios.loads, freedom)
    variance = np.where(apart, mean_square / np.maximum(ratios.loads, 1), variance)
    freedom = np.where(apart, freedom_between, freedom)
    return variance, freedom, own | apart


def _beyond(mean_square: Floats, freedom: Integers, pooled: Floats, pooled_freedom: Floats) -> Flags:
    """Whether a mean square is larger than the pooled variance allows (F test)."""
    from scipy.special import fdtri

    limit = fdtri(np.maximum(freedom, 1), np.maximum(pooled_freedom, 1), 1 - OWN_SCATTER)
    return (freedom >= 1) & (mean_square > limit * pooled)

"""Ratios to the baseline by cell and the scatter around them: the parts of which contrasts are made."""

from dataclasses import dataclass

import numpy as np

from octavo.analysis.layout import Flags, Floats, Integers, Layout
from octavo.analysis.variance_components import Components

# A cell whose own scatter is above the pooled one by a chance smaller than this is judged by its own.
OWN_SCATTER = 0.01
# How much the pooled scatter weighs against a larger one of the cell's own: a compromise, by simulation, between trials
# for cells that are alike and false verdicts on one that is not.
_PRIOR_FREEDOM = 2


@dataclass(frozen=True, slots=True)
class Contrasts:
    """By cell, on the log scale; NaN where there is no ratio, or no way to know its variance.

    `freedom` are degrees of freedom, rounded down. `of_loads`: the part of the variance that only more loads
    reduce. `conditional`: speaks of these loads only. `own`: judged by its own scatter. `by_group`: the mean square and
    degrees of freedom of each cell's group, where groups have pools of their own. Of a fleet (`host_contrasts`):
    on how many `hosts`, the variance of the ratio between them (`of_hosts`), and whether the interval speaks of hosts
    in general; there `loads` and `rounds` are the most of any host.
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
    by_group: tuple[Floats, Floats] | None = None
    hosts: Integers | None = None
    of_hosts: Floats | None = None
    hosts_in_general: Flags | None = None


@dataclass(frozen=True, slots=True)
class Ratios:
    """By cell: the mean over its loads of the loads' means of log ratios, and what scatters around them."""

    centre: Floats
    loads: Integers
    rounds: Integers
    squared_weights: Floats  # Σ over loads of 1/n(l), over L²
    within: Floats  # sum of squares of ratios around their load's mean
    between: Floats  # sum of squares of the loads' means around the centre


def ratios_of(layout: Layout) -> Ratios:
    """The ratios to the baseline within columns, summed up by cell."""
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
    return Ratios(
        centre=centre,
        loads=loads,
        rounds=np.bincount(cells, minlength=count),
        squared_weights=inverse.reshape(count, width).sum(axis=1) / divisor**2,
        within=table((d - means[place]) ** 2).reshape(count, width).sum(axis=1),
        between=(around**2).sum(axis=1),
    )


def guarded(itself: Floats, own_freedom: Integers, variance: Floats, freedom: Floats) -> tuple[Floats, Floats, Flags]:
    """Pooled variances and their degrees of freedom, or the cell's own if it scatters more; and whether the cell's own
    is used alone.

    A little more scatter is combined by weights (as in G. K. Smyth, Linear models and empirical Bayes methods for
    assessing differential expression in microarray experiments, Stat. Appl. Genet. Mol. Biol. 3, 2004, with the prior
    degrees of freedom fixed, and never downwards); significantly more of it (F test) is used alone, with its own
    degrees of freedom.
    """
    from scipy.special import fdtri

    known = (own_freedom >= 1) & (freedom >= 1)
    weighed = (_PRIOR_FREEDOM * variance + own_freedom * itself) / (_PRIOR_FREEDOM + own_freedom)
    limit = fdtri(np.maximum(own_freedom, 1), np.maximum(freedom, 1), 1 - OWN_SCATTER)
    own = known & (itself > limit * variance)
    variance = np.where(known & (itself > variance), np.where(own, itself, weighed), variance)
    return variance, np.where(own, own_freedom, freedom), own

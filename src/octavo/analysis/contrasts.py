"""Every cell against the baseline: the mean log ratio, its variance and degrees of freedom."""

import numpy as np

from octavo.analysis.group_scatter import group_squares
from octavo.analysis.host_contrasts import host_contrasts
from octavo.analysis.layout import Flags, Floats, Layout
from octavo.analysis.ratios import Contrasts, Ratios, guarded, ratios_of
from octavo.analysis.variance_components import satterthwaite, variance_components


def contrasts(layout: Layout) -> Contrasts:
    """D = mean over a cell's loads of the mean of its log ratios to the baseline within rounds, for every cell.

    Var(D) = [datasets differ] 2 σ²_load / L + 2 σ² Σ 1/n(l) / L², with n(l) ratios on load l, L loads, and the
    variance components pooled over the condition. Trials of several hosts: see `host_contrasts`.
    """
    if layout.hosts is not None:
        return host_contrasts(layout)
    components = variance_components(layout)
    ratios = ratios_of(layout)
    foreign = layout.datasets != layout.datasets[layout.baseline]
    general = (ratios.loads >= 2) & (components.general | ~foreign)
    weight_of_loads = np.where(foreign & general, 2 / np.maximum(ratios.loads, 1), 0.0)
    of_loads = weight_of_loads * (components.load_variance or 0.0)
    pooled = components.variance(weight_of_loads, 2 * ratios.squared_weights)
    by_group = group_squares(layout, components)
    if by_group is not None:
        pooled = _of_groups(layout, ratios, *by_group)
    variance, freedom, own = _guarded(ratios, foreign, general, *pooled)
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
        by_group=by_group,
    )


def _of_groups(layout: Layout, ratios: Ratios, squares: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """Variances where every load gave one trial: the cell's group's and the baseline's group's scatter."""
    here, there = squares * ratios.squared_weights, squares[layout.baseline] * ratios.squared_weights
    assert layout.groups is not None
    both = satterthwaite(here, freedom, there, freedom[layout.baseline])
    alike = layout.groups == layout.groups[layout.baseline]
    return here + there, np.where(alike, freedom, both[1])


def _guarded(
    ratios: Ratios, foreign: Flags, general: Flags, variance: Floats, freedom: Floats
) -> tuple[Floats, Floats, Flags]:
    """The variances, but larger for cells whose own scatter is: that of their loads' means where these differ, else
    of the ratios within loads."""
    of_means = general & (foreign | (ratios.rounds == ratios.loads))
    own_freedom = np.where(of_means, ratios.loads - 1, ratios.rounds - ratios.loads)
    squares = np.where(of_means, ratios.between / np.maximum(ratios.loads, 1), ratios.within * ratios.squared_weights)
    return guarded(squares / np.maximum(own_freedom, 1), own_freedom, variance, freedom)

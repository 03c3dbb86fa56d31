"""Every cell against the baseline where several hosts measured: ratios within hosts, means over hosts.

The model of a logarithm: cell × host + column + load of a dataset on a host (random) + residual (random); a column is a
part of a round, on one host. The speed of a host cancels within its columns. What remains is that a ratio may differ
between hosts: the cell × host interaction, the hosts' random effect on a contrast.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from octavo.analysis.layout import Floats, Integers, Layout
from octavo.analysis.ratios import Contrasts, guarded, ratios_of
from octavo.analysis.variance_components import pooled, variance_components

Numbers = TypeVar("Numbers", Floats, Integers)

# Fewer hosts do not tell what hosts in general do: four degrees of freedom, as for loads.
FEWEST_HOSTS = 5


def host_contrasts(layout: Layout) -> Contrasts:
    """D for every cell: the mean of its values on each of its hosts.

    On these hosts: Var(D) = Σ over hosts of Var(D on the host) / H², with variance components pooled over all hosts.
    With `FEWEST_HOSTS` or more it is s² / H, with s² the scatter of the hosts' ratios around D and H − 1 degrees of
    freedom, which includes hosts, loads and trials, separately for each cell. It is never taken to be smaller than that
    of these hosts.
    """
    tables = layout.by_host()
    components = pooled([variance_components(table) for table in tables])
    ratios = [ratios_of(table) for table in tables]
    centres = np.array([np.where(one.rounds > 0, one.centre, np.nan) for one in ratios])
    present = ~np.isnan(centres)
    hosts = present.sum(axis=0)
    share = 1 / np.maximum(hosts, 1) ** 2
    centre = np.nansum(centres, axis=0) / np.maximum(hosts, 1)
    foreign = layout.datasets != layout.datasets[layout.baseline]
    loads = _total([one.loads for one in ratios])
    general = (loads >= 2) & (components.general | ~foreign)
    inverse = _total([np.where(one.loads > 0, 1 / np.maximum(one.loads, 1), 0.0) for one in ratios])
    weight_of_loads = np.where(foreign & general, 2 * inverse * share, 0.0)
    squared = _total([one.squared_weights for one in ratios]) * share
    variance, freedom = components.variance(weight_of_loads, 2 * squared)

    of_means = general & (foreign | (_total([one.rounds for one in ratios]) == loads))
    between_freedom = loads - _total([np.minimum(one.loads, 1) for one in ratios])
    within_freedom = _total([one.rounds for one in ratios]) - loads
    own_freedom = np.where(of_means, between_freedom, within_freedom)
    between = _total([one.between for one in ratios]) * inverse * share
    within = _total([one.within for one in ratios]) * squared
    squares = between * of_means + within * ~of_means
    variance, freedom, own = guarded(squares / np.maximum(own_freedom, 1), own_freedom, variance, freedom)

    known = (hosts > 0) & (freedom >= 1)
    variance = np.where(known, variance, np.nan)
    scatter = np.nansum((centres - centre) ** 2, axis=0) / np.maximum(hosts - 1, 1)
    of_hosts = np.where(hosts > 1, np.maximum(0.0, scatter - hosts * np.nan_to_num(variance)), np.nan)
    in_general = hosts >= FEWEST_HOSTS
    variance = np.where(in_general, np.fmax(variance, scatter / np.maximum(hosts, 1)), variance)
    freedom = np.where(in_general, hosts - 1, freedom)
    return Contrasts(
        centre=np.where(hosts > 0, centre, np.nan),
        variance=variance,
        freedom=np.where(known | in_general, np.floor(freedom + 1e-9), 0).astype(np.int64),
        of_loads=weight_of_loads * (components.load_variance or 0.0),
        loads=np.array([one.loads for one in ratios]).max(axis=0),
        rounds=np.array([one.rounds for one in ratios]).max(axis=0),
        conditional=~general & ~in_general,
        own=own & known & ~in_general,
        components=components,
        hosts=hosts,
        of_hosts=of_hosts,
        hosts_in_general=in_general,
    )


def _total(of_hosts: Sequence[Numbers]) -> Numbers:
    return np.sum(of_hosts, axis=0)

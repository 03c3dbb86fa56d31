"""Every cell's own value with its variance, for comparisons of runs, which share no round that would cancel drift.

Within a run, cells are divided by the baseline of their round. Two runs share no round, so what the rounds of each had
in common (the state of the machine at that time) counts as scatter.
"""

from dataclasses import dataclass

import numpy as np

from octavo.analysis.group_scatter import group_squares
from octavo.analysis.layout import Flags, Floats, Integers, Layout
from octavo.analysis.ratios import guarded
from octavo.analysis.variance_components import pooled, satterthwaite, variance_components


@dataclass(frozen=True, slots=True)
class CellMeans:
    """By cell, on the log scale: the mean over its loads of the loads' means; NaN and 0 where nothing is known.

    `conditional`: the loads were too few to speak of others.
    """

    centre: Floats
    variance: Floats
    freedom: Floats
    conditional: Flags


@dataclass(frozen=True, slots=True)
class _OnHost:
    """By cell, of one host: the mean, what its variance has of each component, and sums of squares; zeros without a
    trial."""

    count: Integers
    centre: Floats
    of_loads: Floats  # 1 / L
    of_trials: Floats  # Σ over loads of 1/n(l), over L²
    of_rounds: Floats  # 1 / R
    own: Floats  # squares of the trials, without what their rounds had in common
    rounds: float  # squares of what the rounds had in common, and their degrees of freedom
    rounds_freedom: int


def cell_means(layout: Layout) -> CellMeans:
    """Var(M) = σ²_load / L + σ² Σ 1/n(l) / L² + s²_round / R: scatter of loads and trials as within the run, pooled
    over its cells or by group, and that of the rounds' means over all cells, with R rounds. Degrees of freedom are
    Satterthwaite's. A cell that scatters more than its pool is judged by its own scatter, as within the run.

    Of a fleet it is the mean over the cell's H hosts, however many rounds each of them measured, with Σ Var(M) / H².
    """
    tables = layout.by_host()
    components = pooled([variance_components(table) for table in tables])
    by_group = group_squares(layout, components) if layout.hosts is None else None
    each = [_on_host(table, 1 / by_group[0] if by_group else np.ones(len(table.values))) for table in tables]
    count = np.sum([one.count for one in each], axis=0)
    hosts = np.maximum(np.sum([one.count > 0 for one in each], axis=0), 1)
    general = components.general & (count > 0)
    of_loads, of_trials, of_rounds = (
        np.sum(weights, axis=0) / hosts**2
        for weights in zip(*((one.of_loads, one.of_trials, one.of_rounds) for one in each), strict=True)
    )
    variance, freedom = components.variance(np.where(general, of_loads, 0.0), of_trials)
    if by_group:
        variance, freedom = by_group[0] * of_trials, by_group[1]
    rounds_freedom = sum(one.rounds_freedom for one in each)
    if int((count > 0).sum()) == 1:  # a single cell: its trials are its rounds, and one alone tells no scatter
        variance, freedom = np.full(count.shape, 0.0 if rounds_freedom else np.nan), np.ones(count.shape)
    else:
        own_freedom = np.sum([np.maximum(one.count - 1, 0) for one in each], axis=0)
        own = np.sum([one.own for one in each], axis=0) / np.maximum(own_freedom, 1)
        variance, freedom, _ = guarded(own * of_rounds, own_freedom, variance, freedom)
    if rounds_freedom:
        common = sum(one.rounds for one in each) / rounds_freedom * of_rounds
        variance, freedom = satterthwaite(common, rounds_freedom, variance, np.maximum(freedom, 1e-9))
    known = (count > 0) & np.isfinite(variance) & (freedom >= 1)
    centre = np.sum([one.centre for one in each], axis=0) / hosts
    return CellMeans(
        np.where(count > 0, centre, np.nan), np.where(known, variance, np.nan), np.where(known, freedom, 0), ~general
    )


def _on_host(layout: Layout, weights: Floats) -> _OnHost:
    """`weights`: of the cells, for what a round had in common."""
    present = ~np.isnan(layout.values)
    count = present.sum(axis=1)
    centre, of_loads, of_trials = _means(layout, present)
    shifts, rounds, freedom = _rounds(layout, present, present * weights[:, None])
    rest = np.where(present, layout.values - shifts, 0.0)
    mean = rest.sum(axis=1) / np.maximum(count, 1)
    own = np.where(present, (rest - mean[:, None]) ** 2, 0.0).sum(axis=1)
    of_rounds = (count > 0) / np.maximum(count, 1)
    return _OnHost(count, centre, of_loads, of_trials, of_rounds, own, rounds, freedom)


def _means(layout: Layout, present: Flags) -> tuple[Floats, Floats, Floats]:
    """By cell: the mean of its L loads' means, 1 / L, and Σ 1/n(l) / L²; zeros without a trial."""
    rows = len(layout.values)
    centre, of_loads, of_trials = np.zeros(rows), np.zeros(rows), np.zeros(rows)
    for row in range(rows):
        mine = present[row]
        if mine.any():
            numbers, sizes = np.unique(layout.loads[row, mine], return_counts=True)
            means = [float(layout.values[row, mine & (layout.loads[row] == number)].mean()) for number in numbers]
            centre[row], of_loads[row] = float(np.mean(means)), 1 / len(numbers)
            of_trials[row] = float((1 / sizes).sum()) / len(numbers) ** 2
    return centre, of_loads, of_trials


def _rounds(layout: Layout, present: Flags, weights: Floats) -> tuple[Floats, float, int]:
    """By column what all cells had in common, the sum of squares of it, and its degrees of freedom.

    Around the mean of the rounds of a load, where loads have several: what loads differ by is counted as such.
    """
    means = np.where(present, layout.values, 0.0).sum(axis=1) / np.maximum(present.sum(axis=1), 1)
    cells = np.where(present, layout.values - means[:, None], 0.0)
    used = present.any(axis=0)
    shifts = (cells * weights).sum(axis=0) / np.where(used, weights.sum(axis=0), 1.0)
    base = layout.loads[layout.baseline]
    groups = [used & (base == number) for number in np.unique(base[used])]
    freedom = int(used.sum()) - len(groups)
    if freedom < 1:
        groups, freedom = [used], int(used.sum()) - 1
    square = sum(float(((shifts[group] - shifts[group].mean()) ** 2).sum()) for group in groups if group.any())
    return shifts, square, max(freedom, 0)

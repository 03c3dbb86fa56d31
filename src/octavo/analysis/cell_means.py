"""Every cell's own value with its variance, for comparisons of runs, which share no round that would cancel drift.

Within a run, cells are divided by the baseline of their round. Two runs share no round, so what the rounds of each had
in common (the state of the machine at that time) counts as scatter.
"""

from dataclasses import dataclass

import numpy as np

from octavo.analysis.group_scatter import group_squares
from octavo.analysis.layout import Flags, Floats, Layout
from octavo.analysis.ratios import guarded
from octavo.analysis.variance_components import satterthwaite, variance_components


@dataclass(frozen=True, slots=True)
class CellMeans:
    """By cell, on the log scale: the mean over its loads of the loads' means; NaN and 0 where nothing is known.

    `conditional`: the loads were too few to speak of others.
    """

    centre: Floats
    variance: Floats
    freedom: Floats
    conditional: Flags


def cell_means(layout: Layout) -> CellMeans:
    """Var(M) = σ²_load / L + σ² Σ 1/n(l) / L² + s²_round / R: scatter of loads and trials as within the run, pooled
    over its cells or by group, and that of the rounds' means over all cells, with R rounds. Degrees of freedom are
    Satterthwaite's. A cell that scatters more than its pool is judged by its own scatter, as within the run."""
    present = ~np.isnan(layout.values)
    count = present.sum(axis=1)
    centre, loads, squared = _means(layout, present)
    components = variance_components(layout)
    by_group = group_squares(layout, components)
    weights = present / (by_group[0][:, None] if by_group else 1.0)
    shifts, shift_square, shift_freedom = _rounds(layout, present, weights)
    general = components.general & (loads > 0)
    variance, freedom = components.variance(np.where(general, 1 / np.maximum(loads, 1), 0.0), squared)
    if by_group:
        variance, freedom = by_group[0] * squared, by_group[1]
    if int((count > 0).sum()) == 1:  # a single cell: its trials are its rounds, and one alone tells no scatter
        variance, freedom = np.full(count.shape, 0.0 if shift_freedom else np.nan), np.ones(count.shape)
    else:
        own = _own_square(layout, present, shifts) / np.maximum(count, 1)
        variance, freedom, _ = guarded(own, count - 1, variance, freedom)
    if shift_freedom:
        common = shift_square / np.maximum(count, 1)
        variance, freedom = satterthwaite(common, shift_freedom, variance, np.maximum(freedom, 1e-9))
    known = (count > 0) & np.isfinite(variance) & (freedom >= 1)
    return CellMeans(
        np.where(count > 0, centre, np.nan), np.where(known, variance, np.nan), np.where(known, freedom, 0), ~general
    )


def _means(layout: Layout, present: Flags) -> tuple[Floats, Floats, Floats]:
    """By cell: the mean of its loads' means, how many loads, and Σ 1/n(l) / L²."""
    rows = len(layout.values)
    centre, loads, squared = np.full(rows, np.nan), np.zeros(rows), np.zeros(rows)
    for row in range(rows):
        mine = present[row]
        if mine.any():
            numbers, sizes = np.unique(layout.loads[row, mine], return_counts=True)
            means = [float(layout.values[row, mine & (layout.loads[row] == number)].mean()) for number in numbers]
            centre[row], loads[row] = float(np.mean(means)), len(numbers)
            squared[row] = float((1 / sizes).sum()) / len(numbers) ** 2
    return centre, loads, squared


def _rounds(layout: Layout, present: Flags, weights: Floats) -> tuple[Floats, float, int]:
    """By column what all cells had in common, the mean square of it, and its degrees of freedom.

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
    square = sum(float(((shifts[group] - shifts[group].mean()) ** 2).sum()) for group in groups)
    return shifts, square / max(freedom, 1), max(freedom, 0)


def _own_square(layout: Layout, present: Flags, shifts: Floats) -> Floats:
    """The mean square of each cell's trials, without what their rounds had in common."""
    rest = np.where(present, layout.values - shifts, np.nan)
    count = present.sum(axis=1)
    mean = np.nansum(rest, axis=1) / np.maximum(count, 1)
    squares: Floats = np.nansum((rest - mean[:, None]) ** 2, axis=1) / np.maximum(count - 1, 1)
    return squares

"""Every cell's own value with its variance, for comparisons of runs: there, no round is shared that would cancel drift.

Within a run, cells are divided by the baseline of their round. Two runs share no round, so that what the rounds of each
had in common (the state of the machine at that time) counts as scatter.
"""

from dataclasses import dataclass, replace

import numpy as np

from octavo.analysis.components import Components, satterthwaite, variance_components
from octavo.analysis.contrasts import OWN_SCATTER
from octavo.analysis.layout import Flags, Floats, Layout


@dataclass(frozen=True, slots=True)
class Standing:
    """By cell, on the log scale: the mean over its loads of the loads' means; NaN and 0 where nothing is known.

    `conditional`: the loads were too few to speak of others.
    """

    centre: Floats
    variance: Floats
    freedom: Floats
    conditional: Flags


def standing(layout: Layout) -> Standing:
    """Var(M) = σ²_load / L + σ² Σ 1/n(l) / L² + s²_round / R: scatter of loads and trials as within the run, pooled
    over its cells, and that of the rounds' means over all cells, with R rounds. Degrees of freedom are Satterthwaite's.
    A cell that scatters more than the others (F test at 1 %) is judged by its own scatter, and left out of theirs."""
    present = ~np.isnan(layout.values)
    count = present.sum(axis=1)
    centre, loads, squared = _means(layout, present)
    components, scattered = _pool(layout, present)
    alike = present & ~scattered[:, None]
    shifts, shift_square, shift_freedom = _rounds(layout, alike)
    own_square = _own_square(layout, present, shifts)
    general = components.general & (loads > 0)
    variance, freedom = components.variance(np.where(general, 1 / np.maximum(loads, 1), 0.0), squared)
    if int((count > 0).sum()) == 1:  # a single cell: its trials are its rounds
        variance, freedom = np.zeros(count.shape), np.ones(count.shape)
    variance = np.where(scattered, own_square / np.maximum(count, 1), variance)
    freedom = np.where(scattered, count - 1, freedom)
    if shift_freedom:
        common = shift_square / np.maximum(count, 1)
        variance, freedom = satterthwaite(common, shift_freedom, variance, np.maximum(freedom, 1e-9))
    known = (count > 0) & np.isfinite(variance) & (freedom >= 1)
    return Standing(
        np.where(count > 0, centre, np.nan), np.where(known, variance, np.nan), np.where(known, freedom, 0), ~general
    )


def _pool(layout: Layout, present: Flags) -> tuple[Components, Flags]:
    """The components of the cells that scatter alike, and which cells scatter more than these."""
    count = present.sum(axis=1)
    scattered = np.zeros(count.shape, dtype=bool)
    while True:
        alike = present & ~scattered[:, None]
        components = variance_components(replace(layout, values=np.where(alike, layout.values, np.nan)))
        pooled = _pooled_square(components)
        if pooled is None:
            return components, scattered
        shifts, _, _ = _rounds(layout, alike)
        more = scattered | _beyond(_own_square(layout, present, shifts), count - 1, *pooled)
        if (more == scattered).all() or more.sum() > len(count) // 2:  # most cells cannot be the exception
            return components, scattered
        scattered = more


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


def _rounds(layout: Layout, present: Flags) -> tuple[Floats, float, int]:
    """By column what all cells had in common, the mean square of it, and its degrees of freedom.

    Around the mean of the rounds of a load, where loads have several: what loads differ by is counted as such.
    """
    means = np.where(present, layout.values, 0.0).sum(axis=1) / np.maximum(present.sum(axis=1), 1)
    cells = np.where(present, layout.values - means[:, None], 0.0)
    size = present.sum(axis=0)
    shifts = cells.sum(axis=0) / np.maximum(size, 1)
    used = size > 0
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


def _pooled_square(components: Components) -> tuple[float, int] | None:
    """The variance of a trial, loads included, and its degrees of freedom."""
    if components.residual_square is None:
        return None if components.load_square is None else (components.load_square, components.load_freedom)
    total = components.residual_square + (components.load_variance or 0.0)
    return total, components.residual_freedom


def _beyond(square: Floats, freedom: Floats, pooled: float, pooled_freedom: int) -> Flags:
    from scipy.special import fdtri

    limit = fdtri(np.maximum(freedom, 1), max(pooled_freedom, 1), 1 - OWN_SCATTER)
    return (freedom >= 1) & (square > limit * pooled)

"""How much of the scatter comes from loads and how much from trials: variance components of a condition.

The model of a logarithm: cell + round + load of a dataset (random) + residual (random). The two components are
separated by the residual sums of squares of two least-squares fits, with the loads as fixed effects and without them
(Henderson's method 3; S. R. Searle, G. Casella, C. E. McCulloch, Variance Components, 1992, ch. 5). Least squares,
because trials may be missing and cells may have stopped being measured.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from octavo.analysis.layout import Floats, Integers, Layout

# Fewer degrees of freedom between loads than these do not tell what loads in general do: at the levels of repeated
# looks Student's t would make intervals that never decide. A cell, its baseline and the control have four after three
# loads.
FEWEST_BETWEEN_LOADS = 4
_RANK_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Components:
    """Mean squares on the log scale.

    `residual_square` estimates σ², `load_square` σ² + `trials_per_load` · σ²_load. Either is None without degrees of
    freedom. Where every load of a dataset gave one trial only, all is between loads and nothing is residual.
    """

    residual_square: float | None
    residual_freedom: int
    load_square: float | None
    load_freedom: int
    trials_per_load: float

    @property
    def general(self) -> bool:
        """Whether the scatter between loads is known well enough to speak of loads in general."""
        return self.load_freedom >= FEWEST_BETWEEN_LOADS

    @property
    def load_variance(self) -> float | None:
        """σ²_load, not below zero; None if it cannot be separated from σ²."""
        if self.load_square is None or self.residual_square is None:
            return None
        return max(0.0, (self.load_square - self.residual_square) / self.trials_per_load)

    def variance(self, of_loads: Floats, of_trials: Floats) -> tuple[Floats, Floats]:
        """Var = of_loads · σ²_load + of_trials · σ² and its degrees of freedom, elementwise; NaN and 0 where unknown.

        Degrees of freedom of the sum are F. E. Satterthwaite's (Biometrics Bulletin 2, 1946). A between-load mean
        square below the residual one, which would make σ²_load negative, is raised to it but keeps its degrees of
        freedom. As long as loads are too few, σ² alone counts.
        """
        unknown = np.full(of_loads.shape, np.nan), np.zeros(of_loads.shape)
        only_trials = unknown
        if self.residual_square is not None:
            only_trials = of_trials * self.residual_square, np.full(of_loads.shape, float(self.residual_freedom))
        if not self.general or self.load_square is None:
            return only_trials
        share = of_loads / self.trials_per_load
        if self.residual_square is None:
            both = np.maximum(share, of_trials) * self.load_square, np.full(of_loads.shape, float(self.load_freedom))
        else:
            between = share * max(self.load_square, self.residual_square)
            within = (of_trials - share) * self.residual_square
            both = satterthwaite(between, self.load_freedom, within, self.residual_freedom)
        involved = of_loads > 0
        return np.where(involved, both[0], only_trials[0]), np.where(involved, both[1], only_trials[1])


def satterthwaite(
    first: Floats, first_freedom: Floats | float, second: Floats, second_freedom: Floats | float
) -> tuple[Floats, Floats]:
    """The sum of two independent estimates of variance, and its approximate degrees of freedom."""
    total = first + second
    uncertainty = first**2 / first_freedom + second**2 / second_freedom
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = np.where(uncertainty > 0, total**2 / uncertainty, np.minimum(first_freedom, second_freedom))
    return total, freedom


def variance_components(layout: Layout) -> Components:
    """The components from all cells of the layout, its baseline and control among them."""
    cells, columns = np.nonzero(~np.isnan(layout.values))
    y = layout.values[cells, columns]
    if len(y) == 0:
        return Components(None, 0, None, 0, 0.0)
    y = y - y.mean()
    datasets = layout.datasets[cells]
    used = layout.loads[cells, columns]
    _, loads = np.unique(datasets * (used.max() + 1) + used, return_inverse=True)
    # A cell that has its dataset to itself meets its loads in no other cell's trials: its effect and theirs are
    # the means of its trials by load. Loads that cells share are columns of the design like the rounds.
    alone = np.bincount(layout.datasets)[layout.datasets][cells] == 1
    groups = np.where(alone, loads, loads.max() + 1 + cells)

    without = _fit(y, cells, columns)
    with_loads = _fit(y, groups, columns, None if alone.all() else np.where(alone, 0, loads + 1))
    freedom = without.freedom - with_loads.freedom
    residual = with_loads.squares / with_loads.freedom if with_loads.freedom else None
    if freedom == 0:
        return Components(residual, with_loads.freedom, None, 0, 0.0)
    square = max(0.0, without.squares - with_loads.squares) / freedom
    return Components(residual, with_loads.freedom, square, freedom, _trace(without, cells, columns, loads) / freedom)


def pooled(of_hosts: Sequence[Components]) -> Components:
    """The components of all hosts together, which share no column, load or cell × host: sums of squares add up."""
    residual_freedom = sum(one.residual_freedom for one in of_hosts)
    load_freedom = sum(one.load_freedom for one in of_hosts)
    residual = sum((one.residual_square or 0.0) * one.residual_freedom for one in of_hosts)
    load = sum((one.load_square or 0.0) * one.load_freedom for one in of_hosts)
    weight = sum(one.trials_per_load * one.load_freedom for one in of_hosts)
    return Components(
        residual / residual_freedom if residual_freedom else None,
        residual_freedom,
        load / load_freedom if load_freedom else None,
        load_freedom,
        weight / load_freedom if load_freedom else 0.0,
    )


@dataclass(frozen=True, slots=True)
class _Design:
    """What of a fit does not depend on the numbers."""

    groups: Integers  # of each trial, numbered without gaps
    sizes: Floats  # trials of each group
    means: Floats  # share of each round, and of each shared load, in each group
    inverse: Floats  # of the normal equations after the groups are eliminated
    rank: int


@dataclass(frozen=True, slots=True)
class _Fit:
    squares: float
    freedom: int
    design: _Design


def _fit(y: Floats, groups: Integers, columns: Integers, shared: Integers | None = None) -> _Fit:
    """Least squares of y on groups, columns and shared loads (0 is none)."""
    design = _design(groups.tobytes(), columns.tobytes(), None if shared is None else shared.tobytes())
    groups = design.groups
    y = y - (np.bincount(groups, y) / design.sizes)[groups]
    moments = np.bincount(columns, y)
    if shared is not None:
        moments = np.concatenate([moments, np.bincount(shared, y)[1:]])
    effects = design.inverse @ moments
    rest = y - effects[columns] + (design.means @ effects)[groups]
    if shared is not None:
        rest -= np.concatenate([[0.0], effects[int(columns.max()) + 1 :]])[shared]
    return _Fit(float(rest @ rest), len(y) - len(design.sizes) - design.rank, design)


@functools.lru_cache(maxsize=512)  # the metrics of a run were mostly observed in the same trials
def _design(groups_of: bytes, columns_of: bytes, shared_of: bytes | None) -> _Design:
    """The groups are eliminated and the rest is tables of counts, so that little is to solve."""
    columns = np.frombuffer(columns_of, np.int64)
    _, groups = np.unique(np.frombuffer(groups_of, np.int64), return_inverse=True)
    sizes = np.bincount(groups).astype(np.float64)
    means = _counts(groups, columns) / sizes[:, None]
    normal = np.diag(np.bincount(columns).astype(np.float64))
    if shared_of is not None:
        shared = np.frombuffer(shared_of, np.int64)
        crossed = _counts(columns, shared)[:, 1:]
        normal = np.block([[normal, crossed], [crossed.T, np.diag(np.bincount(shared)[1:].astype(np.float64))]])
        means = np.hstack([means, _counts(groups, shared)[:, 1:] / sizes[:, None]])
    normal -= means.T @ (means * sizes[:, None])
    eigenvalues, vectors = np.linalg.eigh(normal)
    kept = eigenvalues > _RANK_TOLERANCE * max(1.0, float(eigenvalues[-1]))
    vectors, eigenvalues = vectors[:, kept], eigenvalues[kept]
    return _Design(groups, sizes, means, (vectors / eigenvalues) @ vectors.T, int(kept.sum()))


def _trace(fit: _Fit, cells: Integers, columns: Integers, loads: Integers) -> float:
    """tr(Z'MZ) for the loads' indicators Z and the projection M off cells and rounds: Σ weight of σ²_load."""
    _, cells = np.unique(cells, return_inverse=True)
    by_cell = _counts(cells, loads)
    crossed = _counts(columns, loads) - fit.design.means.T @ by_cell
    off_cells = len(cells) - float((by_cell**2 / by_cell.sum(1, keepdims=True)).sum())
    return off_cells - float(np.sum(crossed * (fit.design.inverse @ crossed)))


def _counts(rows: Integers, columns: Integers) -> Floats:
    """How many trials have each pair."""
    height, width = int(rows.max()) + 1, int(columns.max()) + 1
    return np.bincount(rows * width + columns, minlength=height * width).reshape(height, width).astype(np.float64)

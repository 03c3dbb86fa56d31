"""Which cells are compared: the conditions of a plan, and their numbers as tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from octavo.analysis.interim import Question, Role
from octavo.analysis.layout import Layout
from octavo.analysis.trials import TrialKey
from octavo.analysis.variance_components import FEWEST_BETWEEN_LOADS
from octavo.plan.cells import Cell, by_condition
from octavo.plan.model import Plan
from octavo.plan.negative import negative_in
from octavo.plan.parts import host_of_part
from octavo.store.records import TrialRecord


@dataclass(frozen=True, slots=True)
class Condition:
    """The cells that are divided by one baseline, in the order of the plan, and the questions about them.

    `groups`: the level by which cells are assumed to scatter alike; None if all are assumed to.
    """

    name: str
    cells: tuple[Cell, ...]
    question: Question
    groups: tuple[str, ...] | None = None

    def cells_of(self, role: Role) -> list[Cell]:
        """The cells with that role."""
        return [self.cells[row] for row in self.question.rows(role)]


def conditions_of(plan: Plan, cells: Sequence[Cell], trials: Iterable[TrialRecord]) -> list[Condition]:
    """The conditions that have a baseline, without cells that were skipped because they cannot run here."""
    skipped = {trial.cell for trial in trials if trial.status == "skipped"}
    groups = by_condition([cell for cell in cells if cell.id not in skipped])
    groups = {name: group for name, group in groups.items() if any(cell.baseline for cell in group)}
    # With interim analyses there is one pool: groups were simulated for a single analysis only.
    by = grouping_factor(plan) if plan.stopping == "fixed" else None
    return [
        Condition(
            name,
            tuple(group),
            _question(plan, group, len(groups)),
            tuple(cell.levels[by] for cell in group) if by else None,
        )
        for name, group in groups.items()
    ]


def grouping_factor(plan: Plan) -> str:
    """The factor by which cells are grouped if groups have pools of their own: the data block, else the first compared
    factor."""
    return "data_block" if "data_block" in plan.baseline else next(iter(plan.baseline))


def values_by_condition(values: Mapping[TrialKey, float], cells: Sequence[Cell]) -> dict[str, dict[TrialKey, float]]:
    """One number of each condition, so that `layout_of` does not search for it among those of all others."""
    condition_of = {cell.id: cell.condition for cell in cells}
    found: dict[str, dict[TrialKey, float]] = {}
    for place, value in values.items():
        found.setdefault(condition_of[place[2]], {})[place] = value
    return found


def layout_of(
    condition: Condition, used: Mapping[TrialKey, TrialRecord], values: Mapping[TrialKey, float]
) -> Layout | None:
    """One number of a condition as a table; None without any trial of the baseline.

    A cell whose number is zero in any trial has no ratio at all, and where the baseline's is, no cell has one: those
    of the other trials would be a selection.
    """
    rows = {cell.id: row for row, cell in enumerate(condition.cells)}
    places = [place for place in values if place[2] in rows]
    columns = {part: column for column, part in enumerate(sorted({place[:2] for place in places}))}
    table = np.full((len(rows), len(columns)), np.nan)
    loads = np.zeros(table.shape, dtype=np.int64)
    for place in places:
        at = rows[place[2]], columns[place[:2]]
        table[at] = values[place]
        loads[at] = used[place].load
    (baseline,) = condition.question.rows(Role.BASELINE)
    table[(table <= 0).any(axis=1)] = np.nan
    if np.isnan(table[baseline]).all():
        return None
    hosts = np.array([host_of_part(part) for _, part in columns])
    if int(hosts.max()) > 0:  # each host has made its own
        loads = np.unique(loads + (1 + int(loads.max())) * hosts, return_inverse=True)[1].reshape(loads.shape)
    datasets = {name: number for number, name in enumerate(dict.fromkeys(cell.dataset for cell in condition.cells))}
    return Layout(
        values=np.log(table),
        loads=loads,
        datasets=np.array([datasets[cell.dataset] for cell in condition.cells]),
        rounds=np.array([number for number, _ in columns]),
        baseline=baseline,
        groups=None if condition.groups is None else np.unique(np.array(condition.groups), return_inverse=True)[1],
        hosts=hosts if len(set(hosts.tolist())) > 1 else None,
    )


def _question(plan: Plan, cells: Sequence[Cell], conditions: int) -> Question:
    baseline = next(cell for cell in cells if cell.baseline)
    roles = tuple(_role(cell, baseline, negative_in(plan.negative, cell.levels)) for cell in cells)
    loads = plan.loads if plan.last_round is None else min(plan.loads, plan.last_round)  # a round uses one load
    between = (len({cell.dataset for cell in cells}) - 1) * (loads - 1)
    foreign = any(
        role is Role.COMPARED and cell.dataset != baseline.dataset for cell, role in zip(cells, roles, strict=True)
    )
    return Question(
        roles,
        plan.threshold_fraction,
        plan.precision_fraction,
        conditions,
        has_floor=plan.control or Role.NEGATIVE in roles,
        once=plan.stopping == "fixed",
        first_look=plan.first_analysis,
        loads=plan.loads,
        waits_for_loads=foreign and between >= FEWEST_BETWEEN_LOADS,
    )


def _role(cell: Cell, baseline: Cell, negative: Sequence[str]) -> Role:
    if cell.baseline:
        return Role.BASELINE
    if cell.control:
        return Role.CONTROL
    differing = {name for name, level in cell.levels.items() if level != baseline.levels.get(name)}
    return Role.NEGATIVE if differing <= set(negative) else Role.COMPARED

"""From a plan to its cells, and from cells to the order in which a round runs them."""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from octavo import workloads
from octavo.plan.design import combinations, compared_factors, condition_factors, is_baseline, levels_of
from octavo.plan.model import Plan, factors_of
from octavo.plan.server_settings import PREFIX


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of levels. The control is the baseline under a second name, with loads of its own.

    Cells with the same `dataset` are measured on the same loads: sizes, plans and layouts are theirs in common.
    """

    id: str
    label: str
    levels: Mapping[str, str]
    condition: str
    baseline: bool
    control: bool
    dataset: str


def make_cells(plan: Plan) -> list[Cell]:
    """The cells of the plan's design, and a control for each condition's baseline.

    Raises UsageError when the design is at odds with itself, which a plan that was parsed is not.
    """
    known = factors_of(plan)
    levels = levels_of(plan, known)
    compared = compared_factors(plan, levels)
    conditions = condition_factors(plan, levels)
    contents = workloads.find(plan.workload).contents
    cells: list[Cell] = []
    for chosen in combinations(plan, known):
        baseline = is_baseline(plan, chosen)
        identifier = " ".join(f"{name}={chosen[name]}" for name in (*compared, *conditions))
        label = _label(plan, compared, chosen)
        condition = ", ".join(condition_label(name, chosen[name]) for name in conditions)
        dataset = " ".join(f"{name}={value}" for name, value in (*_made_by(chosen), *contents(chosen)))
        cells.append(Cell(identifier, label, chosen, condition, baseline, control=False, dataset=dataset))
        if baseline and plan.control:
            again = f"{identifier} (again)"
            loads = f"{dataset} (again)"
            cells.append(Cell(again, f"{label} again", chosen, condition, baseline=False, control=True, dataset=loads))
    return cells


# With more factors than these, a name that has the levels of all of them cannot be told from the next one.
MOST_NAMED = 2


def names_what_differs(plan: Plan, compared: Sequence[str]) -> bool:
    """Whether the name of a cell has only the levels that are not the baseline's."""
    return len(compared) > (1 if plan.design == "one-at-a-time" else MOST_NAMED)


def _label(plan: Plan, compared: Sequence[str], chosen: Mapping[str, str]) -> str:
    """What a report calls the cell: its levels of the compared factors, or those that are not the baseline's."""
    if len(compared) == 1:
        return chosen[compared[0]]
    if not names_what_differs(plan, compared):
        return "/".join(short_label(name, chosen[name]) for name in compared)
    other = [name for name in compared if chosen[name] != plan.baseline.get(name, chosen[name])]
    return ", ".join(condition_label(name, chosen[name]) for name in other) or "baseline"


def with_defaults(cells: Sequence[Cell], plan: Plan) -> list[Cell]:
    """The cells of a run that an earlier Octavo began: factors that it did not know are at their defaults."""
    defaults = {factor.name: factor.default for factor in factors_of(plan).values()}
    return [replace(cell, levels={**defaults, **cell.levels}) for cell in cells]


# What a load depends on beside its contents. The WAL's geometry is no part of it, nor is the compiler: a load is
# grafted into the cluster of any build that reads its pages.
_LOAD_FACTORS = ("version", "data_block", "data_segment", "checksums")


def _made_by(levels: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, levels[name]) for name in _LOAD_FACTORS]


# Levels that need their factor's name: an advice of "random" is not a random pattern.
_NAMED_FACTORS = ("advice", "equal", "holds")
_NAMED_LEVELS = ("on", "off", "yes", "no", "none", "as-found")


def condition_label(name: str, level: str) -> str:
    """A level that speaks for itself stands alone; a number needs its factor's name."""
    return f"{name.removeprefix(PREFIX)} {level}" if level[:1].isdigit() else short_label(name, level)


def short_label(name: str, level: str) -> str:
    """A level among others: sizes and words stand alone; switches, bare numbers and settings need a name.

    >>> short_label("device", "native"), short_label("filesystem", "native"), short_label("filesystem", "xfs/4kB")
    ('native', 'filesystem native', 'xfs/4kB')
    """
    named = name.startswith(PREFIX) or name in _NAMED_FACTORS or level in _NAMED_LEVELS or level.isdigit()
    # "native" alone is a device without limits (`condition_text`).
    named = named or (name, level) == ("filesystem", "native")
    return f"{name.removeprefix(PREFIX)} {level}" if named else level


def load_of(cell: Cell, round_number: int, loads: int) -> int:
    """The load that a cell uses in a round, counted from 1: rounds take the loads in turn; the control has its own."""
    load = 1 + (round_number - 1) % loads
    return load + loads if cell.control else load


def order_of_round(cells: Sequence[Cell], round_number: int, attempt: int, seed: int) -> list[Cell]:
    """The cells in this round's random order. It depends on nothing but the seed, so a resumed run keeps it."""
    order = list(cells)
    random.Random(f"{seed}/{round_number}/{attempt}").shuffle(order)
    return order


def by_condition(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """The cells of each condition, in their order."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.condition, []).append(cell)
    return found


def with_their_baselines(cells: Sequence[Cell], open_cells: Collection[str]) -> list[Cell]:
    """The open cells with the baselines and controls of their conditions, in the order of the plan."""
    conditions = {cell.condition for cell in cells if cell.id in open_cells}
    return [
        cell
        for cell in cells
        if cell.id in open_cells or ((cell.baseline or cell.control) and cell.condition in conditions)
    ]

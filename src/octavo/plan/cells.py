"""From a plan to its cells, and from cells to the order in which a round runs them."""

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from octavo import workloads
from octavo.plan.model import Plan, known_factors


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
    """Every combination of the plan's levels, and a control for each condition's baseline."""
    known = known_factors(plan.workload)
    levels = {name: plan.factors.get(name, [factor.default]) for name, factor in known.items()}
    varying = [name for name in levels if len(levels[name]) > 1]
    compared = [name for name in varying if name in plan.baseline] or list(plan.baseline)
    conditions = [name for name in varying if name not in plan.baseline]
    cells: list[Cell] = []
    for combination in itertools.product(*levels.values()):
        chosen = dict(zip(levels, combination, strict=True))
        is_baseline = all(chosen[name] == level for name, level in plan.baseline.items())
        identifier = " ".join(f"{name}={chosen[name]}" for name in (*compared, *conditions))
        label = "/".join(chosen[name] for name in compared)
        condition = ", ".join(_condition_word(name, chosen[name]) for name in conditions)
        dataset = _dataset_of(plan.workload, chosen)
        cells.append(Cell(identifier, label, chosen, condition, is_baseline, control=False, dataset=dataset))
        if is_baseline and plan.control:
            cells.append(
                Cell(
                    f"{identifier} (again)",
                    f"{label} again",
                    chosen,
                    condition,
                    baseline=False,
                    control=True,
                    dataset=f"{dataset} (again)",
                )
            )
    return cells


def _dataset_of(workload: str, levels: Mapping[str, str]) -> str:
    """What a load depends on. The WAL's geometry is no part of it: a load is grafted into another one."""
    facts = [(name, levels[name]) for name in ("version", "data_block", "checksums")]
    return " ".join(f"{name}={value}" for name, value in (*facts, *workloads.find(workload).contents(levels)))


def _condition_word(name: str, level: str) -> str:
    """A level that speaks for itself stands alone; a number needs its factor's name."""
    return f"{name} {level}" if level[0].isdigit() or level in ("on", "off", "none") else level


def load_of(cell: Cell, round_number: int, loads: int) -> int:
    """The load that a cell uses in a round, counted from 1: rounds take the loads in turn; the control has its own."""
    load = 1 + (round_number - 1) % loads
    return load + loads if cell.control else load


def order_of_round(cells: Sequence[Cell], round_number: int, attempt: int, seed: int) -> list[Cell]:
    """The cells in this round's random order. It depends on nothing but the seed, so a resumed run keeps it."""
    order = list(cells)
    random.Random(f"{seed}/{round_number}/{attempt}").shuffle(order)
    return order

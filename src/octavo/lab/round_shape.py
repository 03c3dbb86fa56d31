"""How often a round measures each cell: baselines and controls are repeated if the cells do not fit at once."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from octavo.errors import HostError
from octavo.lab.loads import bytes_of_load, room_for_loads
from octavo.lab.slices import eligibility
from octavo.plan.cells import Cell, by_condition
from octavo.plan.model import Plan
from octavo.plan.parts import groups_at_once, parts_of_round
from octavo.workloads.base import Workload


@dataclass(frozen=True, slots=True)
class RoundShape:
    """`times`: by cell, how often a round measures it. `uncounted`: cells with huge pages may run in groups that are
    only known once their servers are built; the baselines of these groups are not in `times`."""

    times: Mapping[str, int]
    uncounted: bool


def round_shape(plan: Plan, cells: Sequence[Cell], workload: Workload) -> RoundShape:
    """The shape for this host's present memory and disk, before anything is built."""
    sizes = {cell.dataset: bytes_of_load(workload, cell.levels) for cell in cells}
    try:
        parts = parts_of_round(cells, sizes, room_for_loads(workload, cells) if cells else 0)
    except HostError:  # a cell that does not fit: the run will end with this error
        parts = [list(cells)]
    times: Counter[str] = Counter()
    uncounted = False
    for part in parts:
        for its in by_condition(part).values():
            groups, known = _groups(plan, its, workload)
            uncounted = uncounted or not known
            times.update(cell.id for group in groups for cell in group)
    return RoundShape(times, uncounted)


def _groups(plan: Plan, cells: list[Cell], workload: Workload) -> tuple[list[list[Cell]], bool]:
    """A condition's cells in groups that run at the same time, and whether these groups are known."""
    if (
        plan.interleave == "trials"
        or eligibility.why_not(plan, workload, cells)
        or eligibility.not_here(workload, cells, plan.instruments)
    ):
        return [cells], True
    if any(cell.levels.get("huge_pages", "off") != "off" for cell in cells):
        return [cells], False
    if eligibility.not_at_once(plan, workload, cells) is None:
        return [cells], True
    return groups_at_once(cells, lambda some: eligibility.not_at_once(plan, workload, some) is None), True

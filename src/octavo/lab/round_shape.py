"""How often a round measures each cell, and the disk space of copies that are there at once: baselines and controls
are repeated if the cells do not fit at once."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from octavo.errors import HostError
from octavo.lab.loads import bytes_of_copy, bytes_of_load, room_for_loads
from octavo.lab.slices import eligibility
from octavo.plan.cells import Cell, by_condition
from octavo.plan.model import Plan
from octavo.plan.parts import groups_at_once, parts_of_round
from octavo.workloads.base import Workload


@dataclass(frozen=True, slots=True)
class RoundShape:
    """`times`: by cell, how often a round measures it. `uncounted`: cells with huge pages may run in groups that are
    only known once their servers are built; the baselines of these groups are not in `times`. `copy_bytes`: the most
    that the copies of trials take at the same time, in slices one of each cell."""

    times: Mapping[str, int]
    uncounted: bool
    copy_bytes: int


def round_shape(plan: Plan, cells: Sequence[Cell], workload: Workload) -> RoundShape:
    """The shape for this host's present memory and disk, before anything is built."""
    sizes = {cell.dataset: bytes_of_load(workload, cell.levels) for cell in cells}
    try:
        parts = parts_of_round(cells, sizes, room_for_loads(workload, cells) if cells else 0)
    except HostError:  # a cell that does not fit: the run will end with this error
        parts = [list(cells)]
    times: Counter[str] = Counter()
    uncounted, copied = False, 0
    for part in parts:
        for its in by_condition(part).values():
            groups, known, sliced = _groups(plan, its, workload)
            uncounted = uncounted or not known
            for group in groups:
                times.update(cell.id for cell in group)
                copies = [bytes_of_copy(workload, cell.levels) for cell in group]
                copied = max(copied, sum(copies) if sliced else max(copies))
    return RoundShape(times, uncounted, copied)


def _groups(plan: Plan, cells: list[Cell], workload: Workload) -> tuple[list[list[Cell]], bool, bool]:
    """A condition's cells in groups that are measured together, whether these groups are known, and whether the cells
    of a group run at the same time."""
    if (
        plan.interleave == "trials"
        or eligibility.why_not(plan, workload, cells)
        or eligibility.not_here(workload, cells, plan.instruments)
    ):
        return [cells], True, False
    if any(cell.levels.get("huge_pages", "off") != "off" for cell in cells):
        return [cells], False, True
    if eligibility.not_at_once(plan, workload, cells) is None:
        return [cells], True, True
    groups = groups_at_once(cells, lambda some: eligibility.not_at_once(plan, workload, some) is None)
    return groups, True, len(groups) > 1

"""Incomplete rounds: where not all datasets fit the disk at once, a round runs in parts, each with its baselines."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from octavo.errors import HostError
from octavo.plan.cells import Cell
from octavo.units import human_size

# In a fleet the parts of host n, counted from 1, are numbered from n times so many; on a single host there are fewer.
PARTS_OF_A_HOST = 1000

# With more groups of cells than these, parts are filled greedily, without looking for fewer of them.
_MOST_SEARCHED = 10


@dataclass(frozen=True, slots=True)
class _Group:
    """Cells that need the same datasets: their own, and those of their baselines and controls."""

    datasets: frozenset[str]
    cells: frozenset[str]
    conditions: frozenset[str]


def host_of_part(part: int) -> int:
    """The number of the host in its run that a part was measured on; 0 where the run has one host.

    >>> host_of_part(2), host_of_part(3001)
    (0, 3)
    """
    return part // PARTS_OF_A_HOST


def parts_of_round(
    cells: Sequence[Cell],
    bytes_by_dataset: Mapping[str, int],
    room: int,
    way_out: Callable[[int], str] = lambda needed: "; make room",
) -> list[list[Cell]]:
    """The round's cells in parts whose datasets fit `room`, in bytes, at once; one part when all do.

    Every part has the baseline and the control of each condition in it, every other cell is in one part, and cells keep
    their order. As few parts as possible, found by search; with many datasets, by first-fit decreasing (D. S. Johnson,
    *Near-optimal bin packing algorithms*, 1973). The same arguments give the same parts. `room` is for datasets alone:
    the caller subtracts the space of a trial's copy.

    Raises HostError if a cell does not fit even alone with its baseline and control; `way_out` gets the bytes that its
    datasets need, and returns the end of the message: what limits them, and how to change that.
    """
    if _bytes({cell.dataset for cell in cells}, bytes_by_dataset) <= room:
        return [list(cells)]
    groups = _groups(cells)
    for group in groups:
        if (needed := _bytes(group.datasets, bytes_by_dataset)) > room:
            first = next(cell for cell in cells if cell.id in group.cells)
            raise HostError(
                f"{first.id} needs {human_size(needed)} for its dataset and its baseline's, and there is room for "
                f"{human_size(max(room, 0))}{way_out(needed)}, or choose smaller datasets"
            )
    # The largest first; a group whose datasets another one has anyway goes where that one is, at no cost.
    groups.sort(key=lambda group: -_bytes(group.datasets, bytes_by_dataset))
    leading = [group for group in groups if not any(group.datasets < other.datasets for other in groups)]
    parts = _pack(leading, bytes_by_dataset, room, len(leading), greedy=True)
    if len(leading) <= _MOST_SEARCHED:
        for fewer in range(2, len(parts)):
            if found := _pack(leading, bytes_by_dataset, room, fewer, greedy=False):
                parts = found
                break
    for group in groups:
        if group not in leading:
            next(part for part in parts if group.datasets <= _datasets(part)).append(group)
    return [_cells_of(part, cells) for part in parts]


def groups_at_once(cells: Sequence[Cell], fits: Callable[[Sequence[Cell]], bool]) -> list[list[Cell]]:
    """A condition's cells in groups that fit at once, each with the baseline and the control; cells keep their order.

    One group of all where a cell does not even fit with its baseline and control.
    """
    leading = [cell for cell in cells if cell.baseline or cell.control]
    groups: list[list[Cell]] = []
    for cell in cells:
        if cell in leading:
            continue
        if groups and fits([*leading, *groups[-1], cell]):
            groups[-1].append(cell)
        elif fits([*leading, cell]):
            groups.append([cell])
        else:
            return [list(cells)]
    return [[cell for cell in cells if cell in leading or cell in group] for group in groups] or [list(cells)]


def _groups(cells: Sequence[Cell]) -> list[_Group]:
    fixed: dict[str, set[str]] = {}
    for cell in cells:
        if cell.baseline or cell.control:
            fixed.setdefault(cell.condition, set()).add(cell.dataset)
    compared = {cell.condition for cell in cells if not cell.baseline and not cell.control}
    members: dict[frozenset[str], list[Cell]] = {}
    for cell in cells:
        # Baselines and controls go where their condition is; a condition that has nothing else is a group itself.
        if not (cell.baseline or cell.control) or cell.condition not in compared:
            members.setdefault(frozenset({cell.dataset} | fixed.get(cell.condition, set())), []).append(cell)
    return [
        _Group(datasets, frozenset(cell.id for cell in group), frozenset(cell.condition for cell in group))
        for datasets, group in members.items()
    ]


def _pack(
    groups: Sequence[_Group], bytes_by_dataset: Mapping[str, int], room: int, most: int, *, greedy: bool
) -> list[list[_Group]]:
    """The groups in at most so many parts, or nothing; greedy takes the first place that fits and stays with it."""
    parts: list[list[_Group]] = []

    def place(index: int) -> bool:
        if index == len(groups):
            return True
        for part in parts:
            if _bytes(_datasets(part) | groups[index].datasets, bytes_by_dataset) <= room:
                part.append(groups[index])
                if place(index + 1):
                    return True
                part.pop()
                if greedy:
                    return False
        if len(parts) < most:
            parts.append([groups[index]])
            if place(index + 1):
                return True
            parts.pop()
        return False

    return parts if place(0) else []


def _datasets(part: Sequence[_Group]) -> set[str]:
    return {dataset for group in part for dataset in group.datasets}


def _bytes(datasets: Collection[str], bytes_by_dataset: Mapping[str, int]) -> int:
    return sum(bytes_by_dataset[dataset] for dataset in datasets)


def _cells_of(part: Sequence[_Group], cells: Sequence[Cell]) -> list[Cell]:
    members = {cell for group in part for cell in group.cells}
    conditions = {condition for group in part for condition in group.conditions}
    return [
        cell
        for cell in cells
        if cell.id in members or ((cell.baseline or cell.control) and cell.condition in conditions)
    ]

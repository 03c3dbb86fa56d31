from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.plans import changed_plan

from octavo.errors import HostError
from octavo.plan.cells import Cell, make_cells
from octavo.plan.parts import groups_at_once, parts_of_round

BLOCKS = ["1kB", "2kB", "4kB", "8kB", "16kB", "32kB"]


def cells_of(blocks: list[str], *, scales: int = 1, wal_blocks: int = 1) -> list[Cell]:
    """Cells that compare data blocks (a dataset each) and WAL blocks (on the same dataset), by mode and scale."""
    compared = {'[baseline]\ndata_block = "8kB"': '[baseline]\ndata_block = "8kB"\nwal_block = "8kB"'}
    changes = {"data_block": blocks, "scale": [str(scale) for scale in range(1, scales + 1)]}
    return make_cells(changed_plan(compared, **changes, wal_block=["8kB", "16kB"][:wal_blocks]))


def read_only(cells: list[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.condition == "read-only"]


def with_datasets(number: int) -> list[Cell]:
    """A baseline, its control, and this number of cells that each have their own dataset."""
    (baseline, control) = read_only(cells_of(["8kB"]))
    others = [replace(baseline, id=f"cell {n}", baseline=False, dataset=f"dataset {n}") for n in range(number)]
    return [baseline, control, *others]


def bytes_of(part: list[Cell], sizes: dict[str, int]) -> int:
    return sum(sizes[dataset] for dataset in {cell.dataset for cell in part})


@st.composite
def rounds(draw: st.DrawFn) -> tuple[list[Cell], dict[str, int], int]:
    others = draw(st.lists(st.sampled_from([b for b in BLOCKS if b != "8kB"]), unique=True, max_size=5))
    cells = cells_of(["8kB", *others], scales=draw(st.integers(1, 3)), wal_blocks=draw(st.integers(1, 2)))
    active = [cell for cell in cells if cell.baseline or cell.control or draw(st.booleans())]
    sizes = {dataset: draw(st.integers(1, 20)) for dataset in dict.fromkeys(cell.dataset for cell in active)}
    return draw(st.permutations(active)), sizes, draw(st.integers(1, 120))


@settings(deadline=None)
@given(rounds())
def test_every_part_fits_with_its_baselines_and_every_cell_is_in_one(
    case: tuple[list[Cell], dict[str, int], int],
) -> None:
    cells, sizes, room = case
    try:
        parts = parts_of_round(cells, sizes, room)
    except HostError as error:
        assert "\n" not in str(error)
        assert bytes_of(cells, sizes) > room
        return
    again = parts_of_round(cells, sizes, room)
    assert [[cell.id for cell in part] for part in again] == [[cell.id for cell in part] for part in parts]
    compared = [cell.id for part in parts for cell in part if not cell.baseline and not cell.control]
    assert sorted(compared) == sorted(cell.id for cell in cells if not cell.baseline and not cell.control)
    assert {cell.id for part in parts for cell in part} == {cell.id for cell in cells}
    for part in parts:
        assert bytes_of(part, sizes) <= room
        here = {cell.condition for cell in part}
        fixed = [cell.id for cell in cells if (cell.baseline or cell.control) and cell.condition in here]
        assert [cell.id for cell in part if cell.baseline or cell.control] == fixed
        assert [cell for cell in cells if cell.id in {each.id for each in part}] == part
    assert (len(parts) == 1) == (bytes_of(cells, sizes) <= room)


def fewest_by_trying_everything(sizes: list[int], room: int) -> int:
    """The fewest parts for datasets of these sizes in addition to a fixed one, by trying every assignment."""
    best = len(sizes)

    def place(index: int, parts: list[int]) -> None:
        nonlocal best
        if len(parts) >= best and index < len(sizes):
            return
        if index == len(sizes):
            best = min(best, len(parts))
            return
        for number in range(len(parts)):
            if parts[number] + sizes[index] <= room:
                place(index + 1, [*parts[:number], parts[number] + sizes[index], *parts[number + 1 :]])
        place(index + 1, [*parts, sizes[index]])

    place(0, [])
    return best


@given(st.lists(st.integers(1, 12), min_size=5, max_size=5), st.integers(12, 40))
def test_there_are_as_few_parts_as_possible(own: list[int], room: int) -> None:
    cells = read_only(cells_of(BLOCKS))
    fixed = {cell.dataset for cell in cells if cell.baseline or cell.control}
    others = [cell.dataset for cell in cells if cell.dataset not in fixed]
    sizes = {**dict.fromkeys(fixed, 3), **dict(zip(others, own, strict=True))}
    assert len(parts_of_round(cells, sizes, room + 6)) == fewest_by_trying_everything(own, room)


def test_fewer_parts_than_first_fit_decreasing_finds() -> None:
    cells = with_datasets(6)
    sizes = dict(zip((cell.dataset for cell in cells), [0, 0, 4, 4, 3, 3, 3, 3], strict=True))
    assert len(parts_of_round(cells, sizes, 10)) == 2  # 4 + 3 + 3 twice, and not 4 + 4, 3 + 3 + 3, 3


def test_cells_on_the_baseline_s_own_dataset_cost_nothing() -> None:
    cells = read_only(cells_of(["8kB", "4kB"], wal_blocks=2))
    sizes = {cell.dataset: 10 for cell in cells}
    assert (len(cells), len(sizes)) == (5, 3)
    assert parts_of_round(cells, sizes, 30) == [cells]
    with pytest.raises(HostError, match="make room, or choose smaller datasets"):
        parts_of_round(cells, sizes, 29)
    with pytest.raises(HostError, match=r"room for 29 B \(why\); do that for 30, or choose smaller datasets"):
        parts_of_round(cells, sizes, 29, lambda needed: f" (why); do that for {needed}")


def test_forty_two_datasets_are_parted_quickly() -> None:
    cells = with_datasets(42)
    parts = parts_of_round(cells, {cell.dataset: 7 for cell in cells}, 14 + 10 * 7)
    assert [len(part) - 2 for part in parts] == [10, 10, 10, 10, 2]


@given(st.integers(0, 12), st.integers(2, 14))
def test_groups_that_are_up_at_once_have_the_baseline_and_every_cell_is_in_one(others: int, most: int) -> None:
    cells = with_datasets(others)
    groups = groups_at_once(cells, lambda some: len(some) <= most)
    if most < 3 or others == 0:
        assert groups == [cells]
        return
    assert all(group[:2] == cells[:2] and len(group) <= most for group in groups)
    assert [cell for group in groups for cell in group[2:]] == cells[2:]
    assert len(groups) == -(-others // (most - 2))

"""The order of cells is balanced by predecessor, and determined by the seed alone."""

from collections import Counter
from itertools import islice, pairwise, permutations

import pytest

from octavo.lab.slices.order import preparation, turns, williams


@pytest.mark.parametrize("cells", range(2, 12))
def test_every_cell_has_every_place_and_every_predecessor_equally_often(cells: int) -> None:
    rows = williams(cells)
    times = 1 if cells % 2 == 0 else 2
    assert len(rows) == times * cells
    assert all(sorted(row) == list(range(cells)) for row in rows)
    places = Counter((place, cell) for row in rows for place, cell in enumerate(row))
    assert set(places.values()) == {times}
    followed = Counter(pair for row in rows for pair in pairwise(row))
    assert len(followed) == cells * (cells - 1)
    assert set(followed.values()) == {times}


def test_turns_follow_from_the_seed_and_are_whole_designs() -> None:
    first = list(islice(turns(3, "7/1"), 24))
    assert first == list(islice(turns(3, "7/1"), 24))
    assert first != list(islice(turns(3, "7/2"), 24))
    for begin in range(0, 24, 6):
        followed = Counter(pair for row in first[begin : begin + 6] for pair in pairwise(row))
        assert set(followed.values()) == {2}


def test_no_cell_is_prepared_first_in_every_round() -> None:
    orders = [preparation(3, f"7/{number}") for number in range(60)]
    assert all(sorted(order) == [0, 1, 2] for order in orders)
    assert {tuple(order) for order in orders} == set(permutations(range(3)))
    assert orders == [preparation(3, f"7/{number}") for number in range(60)]

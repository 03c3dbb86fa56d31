"""The order of slices: each cell follows every other equally often, so that carry-over affects all cells equally.

E. J. Williams, *Australian J. Scientific Research* A 2 (1949): a square for an even number of cells, in which each
runs once in every place and once right after every other; for an odd number a square and its mirror image.
"""

import random
from collections.abc import Generator


def williams(cells: int) -> list[list[int]]:
    """The rows of the design: orders of `cells` numbers; as many rows as cells, or twice as many when that is odd.

    >>> williams(2), williams(3)[:2]
    ([[0, 1], [1, 0]], [[0, 2, 1], [1, 0, 2]])
    """
    first = [0]
    low, high = 1, cells - 1
    while len(first) < cells:
        first.append(high if len(first) % 2 else low)
        if len(first) % 2 == 0:
            high -= 1
        else:
            low += 1
    rows = [[(entry + row) % cells for entry in first] for row in range(cells)]
    return rows if cells % 2 == 0 else rows + [row[::-1] for row in rows]


def turns(cells: int, seed: str) -> Generator[list[int], None, None]:
    """Yields turn after turn without end: whole designs, with cells and rows shuffled by the seed."""
    chance = random.Random(f"turns/{seed}")
    while True:
        names = list(range(cells))
        chance.shuffle(names)
        rows = williams(cells)
        chance.shuffle(rows)
        for row in rows:
            yield [names[entry] for entry in row]


def preparation(cells: int, seed: str) -> list[int]:
    """The order in which cells are prepared, drawn anew for each round.

    In a fixed order the baseline, as the first, would get its memory before the others and be paused the longest before
    its first slice, and what this costs would look like an effect of the others.
    """
    names = list(range(cells))
    random.Random(f"preparation/{seed}").shuffle(names)
    return names

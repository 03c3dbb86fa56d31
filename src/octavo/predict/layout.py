"""How many rows a page of another size holds, and which rows or keys would not fit.

A heap page has a header of 24 bytes, and for each row an item pointer of 4 bytes and the row, aligned to 8; a page of a
B-tree has 16 bytes more (PostgreSQL's manual, "Database Page Layout"; bufpage.h, nbtree.h). A trace has the rows and
blocks of each relation, so the rows per page are known, and the size of a row within bounds.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from octavo.trace.core_types import Relation

_HEADER = 24
_SPECIAL = 16
_POINTER = 4
_ALIGNED = 8
_HEAP_FILL, _INDEX_FILL = 100, 90
# TOAST_TUPLES_PER_PAGE and BTMaxItemSize: a page has room for at least so many rows, or keys.
_TOAST_ROWS = 4
_KEYS = 3
# Bytes of an index tuple: its header and a text's length. Beside the longest tuple a page has room for a row's pointer.
_KEY_HEADER = 12
_ROW_POINTER = 8
# No index tuple exceeds 8,191 bytes (INDEX_SIZE_MASK), and they are aligned.
_MOST_INDEX_TUPLE = 8184
# Fewer pages do not show how many rows a full one holds: a table of one row, or a sequence, has one page.
_FEWEST_BLOCKS = 8


@dataclass(frozen=True, slots=True)
class Growth:
    """A relation's size in bytes at another block over that at the recorded one; `low` and `high` are bounds."""

    likely: float
    low: float
    high: float


def usable(block: int, kind: str) -> int:
    """Bytes of a page that are available for rows and their pointers."""
    return block - _HEADER - (_SPECIAL if kind == "i" else 0)


def row_bytes(relation: Relation, block: int) -> tuple[float, float, float] | None:
    """Bytes of a row with its pointer: likely, least, most. None where the trace does not have the number of rows, or
    the relation has too few pages to show it.

    pgbench_accounts has 61 rows a page of 8 kB, which only rows of 128 bytes do:

    >>> accounts = Relation(tablespace=0, database=0, relation=0, kind="r", blocks=1640, tuples=100000, tuple_bytes=0,
    ...                     fillfactor=0, name=None)
    >>> row_bytes(accounts, 8192)
    (132.0, 132.0, 132.0)
    """
    if not relation["tuples"] or relation["blocks"] < _FEWEST_BLOCKS:
        return None
    kind = "i" if relation["kind"] == "i" else "r"
    fill = (relation["fillfactor"] or (_INDEX_FILL if kind == "i" else _HEAP_FILL)) / 100
    room = usable(block, kind) * fill
    density = relation["tuples"] / relation["blocks"]
    if density < 1:  # mostly empty: most pages have no row
        return None
    rows = max(1, round(density + 0.3) if density > 4 else math.ceil(density))
    most, least = room / rows, room / (rows + 1)
    aligned = [
        size
        for size in range(_ALIGNED + _POINTER, math.floor(most) + 1, _ALIGNED)
        if least < size <= most and abs(density - rows) < 0.6
    ]
    if len(aligned) == 1:
        return float(aligned[0]), float(aligned[0]), float(aligned[0])
    return room / density, least, most


def growth(relation: Relation, own: int, block: int) -> Growth:
    """The relation's size at another block relative to the recorded one.

    Rows of 132 bytes: 30 in a page of 4 kB are 60 in 8 kB, where 61 are in one of 8 kB.

    >>> accounts = Relation(tablespace=0, database=0, relation=0, kind="r", blocks=1640, tuples=100000, tuple_bytes=0,
    ...                     fillfactor=0, name=None)
    >>> [round(growth(accounts, 8192, size).likely, 3) for size in (1024, 4096, 8192, 32768)]
    [1.089, 1.017, 1.0, 0.984]
    """
    sizes = row_bytes(relation, own)
    if block == own or sizes is None:
        wide = abs(math.log2(block / own)) * 0.02  # headers alone
        return Growth(1.0, 1.0 if block == own else 1 - wide, 1.0 if block == own else 1 + wide)
    kind = "i" if relation["kind"] == "i" else "r"
    fill = (relation["fillfactor"] or (_INDEX_FILL if kind == "i" else _HEAP_FILL)) / 100

    def ratio(size: float, *, fixed: bool) -> float:
        there, here = (
            max(1.0, math.floor(usable(one, kind) * fill / size) if fixed else usable(one, kind) * fill / size - 0.5)
            for one in (block, own)
        )
        return (here / own) / (there / block)

    likely, least, most = sizes
    if least == most:
        exact = ratio(likely, fixed=True)
        return Growth(exact, exact, exact)
    found = [ratio(size, fixed=fixed) for size in sizes for fixed in (True, False)]
    return Growth(ratio(likely, fixed=False), min(found), max(found))


def fullness(relations: Iterable[Relation], own: int, block: int) -> float:
    """How full a page is at another block relative to the recorded one, given that only whole rows fit.

    Seven rows of 132 bytes are in a page of 1 kB, 61 in one of 8 kB.

    >>> accounts = Relation(tablespace=0, database=0, relation=0, kind="r", blocks=1640, tuples=100000, tuple_bytes=0,
    ...                     fillfactor=0, name=None)
    >>> [round(fullness([accounts], 8192, size), 3) for size in (1024, 4096, 8192)]
    [0.939, 0.987, 1.0]
    """
    found: list[tuple[int, float]] = []
    for one in relations:
        sizes = row_bytes(one, own)
        if block == own or sizes is None or one["kind"] == "i" or sizes[1] != sizes[2]:
            found.append((one["blocks"], 1.0))
            continue
        there, here = (
            (_HEADER + math.floor(usable(size, "r") * (one["fillfactor"] or _HEAP_FILL) / 100 / sizes[0]) * sizes[0])
            / size
            for size in (block, own)
        )
        found.append((one["blocks"], there / here))
    whole = sum(blocks for blocks, _ in found)
    return sum(blocks * ratio for blocks, ratio in found) / whole if whole else 1.0


def growth_of_all(relations: Iterable[Relation], own: int, block: int) -> Growth:
    """The growth of all relations together, weighted by their sizes."""
    pairs = [(one["blocks"], growth(one, own, block)) for one in relations if one["blocks"]]
    whole = sum(blocks for blocks, _ in pairs)
    if not whole:
        return Growth(1.0, 0.95, 1.05) if block != own else Growth(1.0, 1.0, 1.0)

    def mean(name: str) -> float:
        return sum(blocks * getattr(one, name) for blocks, one in pairs) / whole

    return Growth(mean("likely"), mean("low"), mean("high"))


def toast_threshold(block: int) -> int:
    """Rows above so many bytes are compressed or moved out of line (TOAST_TUPLE_THRESHOLD).

    >>> [toast_threshold(size) for size in (1024, 4096, 8192, 32768)]
    [240, 1008, 2032, 8176]
    """
    return (block - _HEADER - _TOAST_ROWS * _POINTER) // _TOAST_ROWS // _ALIGNED * _ALIGNED


def most_row(block: int) -> int:
    """The longest row of a heap (MaxHeapTupleSize), after TOAST.

    >>> [most_row(size) for size in (1024, 2048, 4096, 8192)]
    [992, 2016, 4064, 8160]
    """
    return block - (_HEADER + _POINTER + _ALIGNED - 1) // _ALIGNED * _ALIGNED


def most_key(block: int) -> int:
    """The longest text that can be a B-tree key. Observed with 18.6: 300, 644, 1,324, 2,692, 5,420 and 8,172 bytes.

    >>> [most_key(size) for size in (1024, 2048, 4096, 8192, 16384, 32768)]
    [300, 644, 1324, 2692, 5420, 8172]
    """
    return most_index_tuple(block) - _KEY_HEADER


def most_index_tuple(block: int) -> int:
    """The longest tuple of a B-tree (BTMaxItemSize), header included.

    >>> [most_index_tuple(size) for size in (1024, 8192, 32768)]
    [312, 2704, 8184]
    """
    room = block - (_HEADER + _KEYS * _POINTER + _POINTER) - _SPECIAL
    return min(room // _KEYS // _ALIGNED * _ALIGNED - _ROW_POINTER, _MOST_INDEX_TUPLE)


def troubles(relations: Iterable[Relation], own: int, block: int) -> list[str]:
    """What would not fit, or be stored differently, at another block. A relation has its name or else its file's
    number."""
    found: list[str] = []
    for one in relations:
        name = one["name"] or f"file {one['relation']}"
        sizes = row_bytes(one, own)
        if sizes is None:
            continue
        row = sizes[0] - _POINTER
        if one["kind"] == "i":
            if row > most_index_tuple(block):
                found.append(
                    f"{name}: keys of about {row - _KEY_HEADER:.0f} bytes exceed the {most_key(block)} that fit"
                )
        elif row > most_row(block):
            found.append(f"{name}: rows of about {row:.0f} bytes exceed the {most_row(block)} that fit, unless TOASTed")
        elif one["kind"] == "r" and (row > toast_threshold(block)) != (row > toast_threshold(own)):
            found.append(
                f"{name}: rows of about {row:.0f} bytes cross the TOAST threshold ({toast_threshold(block)} bytes): "
                "their layout is not predicted"
            )
        if one["kind"] == "t" and block != own:
            found.append(f"{name}: TOASTed values are split into chunks of another size, which is not predicted")
    return found

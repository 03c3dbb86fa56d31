"""The unit in which a device, or the page cache, rewrites, from measured writes: pure functions over numbers.

A device that can only write whole pages has to read and rewrite the rest of a page that a smaller or shifted write
touches only in part (read-modify-write). A write of many pages that is shifted by part of a page touches one page more,
and two pages in part; shifted by whole pages it costs nothing. So the smallest shift that costs nothing is the page.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

# A pair of measurements counts as slower when the shifted writes took so much longer.
_COSTS = 1.03
# If no shift costs, but pairs differ by this much, nothing is shown: writes scatter.
_SCATTER = 1.25
# Of what was asked: a write through a cache that is written once, with what the filesystem adds now and then.
_ONCE = 1.25


@dataclass(frozen=True, slots=True)
class ShiftedWrite:
    """How much longer writes take that begin `shift` bytes behind a multiple of their size: a ratio for each pair."""

    shift: int
    pairs: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median."""
        return median(self.pairs)

    @property
    def costs(self) -> bool:
        """Whether all pairs but one show a cost (of nine, 2 % by chance)."""
        return sum(ratio > _COSTS for ratio in self.pairs) >= max(1, len(self.pairs) - 1)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"shift_bytes": self.shift, "ratio": self.ratio, "costs": self.costs, "pairs": list(self.pairs)}


@dataclass(frozen=True, slots=True)
class WriteUnit:
    """The unit in bytes, or None and why it cannot be told."""

    bytes: int | None
    reason: str


def unit_of_shifts(shifts: Sequence[ShiftedWrite], size: int) -> WriteUnit:
    """The unit that is rewritten whole, from writes of `size` bytes at ascending shifts.

    >>> def seen(*ratios): return [ShiftedWrite(512 << at, (ratio,)) for at, ratio in enumerate(ratios)]
    >>> unit_of_shifts(seen(1.9, 1.9, 1.8, 1.0, 1.0), 65536)
    WriteUnit(bytes=4096, reason='smaller shifts cost time, larger ones do not')
    >>> unit_of_shifts(seen(1.0, 1.0, 1.0), 65536).bytes is None
    True
    """
    if not shifts:
        return WriteUnit(None, f"the device takes no write that is shifted by less than {size} bytes")
    costing = [one for one in shifts if one.costs]
    scatter = "the scatter exceeds the cost of a page; probe longer, or when nothing else writes"
    if not costing:
        lowest, highest = (pick(ratio for one in shifts for ratio in one.pairs) for pick in (min, max))
        if highest > _SCATTER or lowest < 1 / _SCATTER:
            return WriteUnit(None, scatter)
        return WriteUnit(
            None,
            "shifting costs nothing: the unit is no larger than the smallest write, or a cache acknowledges before "
            "pages are written (memory of the device, of its controller or of a hypervisor)",
        )
    if len(costing) == len(shifts):
        return WriteUnit(None, f"every shift costs time: the unit is {size} bytes or more, or writes scatter too much")
    # What lies nearer to the price of a shift than to nothing is not free, though a pair or two say so.
    dear = 1 + (median(one.ratio for one in costing) - 1) / 2
    free = shifts[len(costing) :]
    if costing != list(shifts[: len(costing)]) or any(one.ratio >= dear for one in free):
        return WriteUnit(None, f"some shifts cost time, others are undecided: {scatter}")
    return WriteUnit(free[0].shift, "smaller shifts cost time, larger ones do not")


def unit_of_bytes(sizes: Sequence[int], written: Sequence[float | None]) -> int | None:
    """The smallest write, in bytes, for which the device writes about as much as was written; None if there is none.

    `written` are the device's bytes for each write. None if the device's counters are not available.

    >>> unit_of_bytes([512, 1024, 2048, 4096, 8192], [4096, 4096, 4100, 4110, 8300])
    4096
    """
    for size, bytes_of_device in zip(sizes, written, strict=True):
        if bytes_of_device is not None and bytes_of_device <= _ONCE * size:
            return size
    return None


def break_even_seconds(page: int, requests_per_second: float, price: int) -> float:
    """The five-minute rule: a page is worth its memory if it is accessed again within so many seconds.

    `price` is the price of the device as bytes of memory for the same money. Source: J. Gray and G. Putzolu, "The 5
    minute rule for trading memory for disc accesses" (SIGMOD 1987).

    >>> round(break_even_seconds(4096, 67_000, 77 * 1024**3))
    301
    """
    return price / (page * requests_per_second)

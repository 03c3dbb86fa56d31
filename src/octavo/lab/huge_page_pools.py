"""The huge pages that a run's servers need: computed by the servers' own programs, allocated once, released at the
end."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from octavo.errors import OctavoError
from octavo.host.journal import Journal
from octavo.knobs import huge_pages
from octavo.plan.cells import Cell
from octavo.units import format_size, parse_size
from octavo.workloads.base import Levels

# The digits of a count: a terabyte has 16 million of the smallest huge pages.
_NUMBER = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class Need:
    """The need of a cell's server: its page size in bytes, the number of pages, and a name shared by the cells whose
    servers may run at the same time."""

    page: int
    pages: int
    together: str


def at_once(needs: Iterable[Need]) -> dict[int, int]:
    """Pages by size in bytes for the servers that may run at the same time.

    >>> at_once([Need(2**21, 10, "a"), Need(2**21, 12, "a"), Need(2**21, 15, "b")])
    {2097152: 22}
    """
    sums: Counter[tuple[int, str]] = Counter()
    for need in needs:
        sums[need.page, need.together] += need.pages
    return _largest((page, pages) for (page, _), pages in sums.items())


def within(memory: int, needs: Iterable[Need]) -> dict[int, int]:
    """Pages by size in bytes for the largest server, leaving out those that need more than `memory` bytes, alone or
    together with the sizes before.

    >>> within(2**30, [Need(2**21, 10, "a"), Need(2**21, 10**6, "a"), Need(2**30, 1, "b")])
    {2097152: 10}
    """
    wanted: dict[int, int] = {}
    for need in needs:
        more = {**wanted, need.page: max(wanted.get(need.page, 0), need.pages)}
        if _bytes(more) <= memory:
            wanted = more
    return wanted


def _bytes(wanted: Mapping[int, int]) -> int:
    return sum(page * pages for page, pages in wanted.items())


def reported_pages(text: str) -> int:
    """Parses the number of pages that a build's server would use. Raises OctavoError if it is not a number."""
    if not _NUMBER.fullmatch(text):
        raise OctavoError(f"the build's server reports that it needs {text[:40]!r} huge pages; rebuild it")
    return int(text)


def _largest(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    wanted: dict[int, int] = {}
    for page, pages in pairs:
        wanted[page] = max(wanted.get(page, 0), pages)
    return wanted


class HugePagePools:
    """The huge page pools of a run. Cells of one page size share a pool, as large as the largest of them needs, or all
    that run at the same time."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._given = ExitStack()
        self._needs: Mapping[str, Need] = {}
        self._pools: Mapping[int, huge_pages.Pool] = {}

    def take(self, needs: Mapping[str, Need], room: int, memory: int) -> None:
        """Allocates the pages that the cells need, by cell id: for all that may run at the same time if these fit
        `room` bytes.

        The total that builds report is limited to `memory` bytes of the host: cells beyond that get none.
        """
        self._needs = needs
        wanted = at_once(needs.values())
        if _bytes(wanted) > room:
            wanted = within(memory, needs.values())
        self._pools = self._given.enter_context(huge_pages.pools(wanted, self._journal))

    def not_at_once(self, cells: Iterable[Cell]) -> str | None:
        """Why the servers of these cells cannot all run at the same time, or None."""
        # Cells that differed in a knob of the host were not to run together, until those that differ are decided.
        wanted = at_once(replace(self._needs[cell.id], together="") for cell in cells if cell.id in self._needs)
        for page, pages in wanted.items():
            if self._given_of(page) < pages:
                pool = self._pools.get(page, "the host has too little memory")
                return f"the cells together need {pages} huge pages of {format_size(page)}, {pool}"
        return None

    def _given_of(self, page: int) -> int:
        return self._pools[page].given if page in self._pools else 0

    def cannot(self, cell: str, levels: Levels) -> str | None:
        """Why the cell cannot have its pages, or None. Before `take` this is unknown, and the result is None."""
        if cell not in self._needs:
            return None
        size, pages = parse_size(levels["huge_pages"]), self._needs[cell].pages
        given = self._given_of(size)
        if given >= pages:
            return None
        return (
            f"it needs {pages} huge pages of {format_size(size)}, the kernel gave {given}; "
            "free memory, or take them at boot"
        )

    def bytes_of(self, cell: str, levels: Levels) -> int:
        """The huge pages of the cell's server in bytes."""
        return self._needs[cell].pages * parse_size(levels["huge_pages"]) if cell in self._needs else 0

    def close(self) -> None:
        """Releases the pages."""
        self._given.close()

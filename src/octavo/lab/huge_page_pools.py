"""The huge pages that a run's servers need: asked of the servers themselves, taken once, given back at its end."""

from collections.abc import Mapping
from contextlib import ExitStack

from octavo.host.journal import Journal
from octavo.knobs import huge_pages
from octavo.units import format_size, parse_size
from octavo.workloads.base import Levels


class HugePagePools:
    """The pools of a run. Cells of one size share a pool, as large as the largest of them needs."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._given = ExitStack()
        self._pages: dict[str, int] = {}
        self._pools: Mapping[int, huge_pages.Pool] = {}

    def take(self, needs: Mapping[str, tuple[Levels, int]]) -> None:
        """Takes what the cells need: by cell its levels, and `shared_memory_size_in_huge_pages` of its server."""
        self._pages = {cell: pages for cell, (_, pages) in needs.items()}
        wanted: dict[int, int] = {}
        for levels, pages in needs.values():
            size = parse_size(levels["huge_pages"])
            wanted[size] = max(wanted.get(size, 0), pages)
        self._pools = self._given.enter_context(huge_pages.pools(wanted, self._journal))

    def cannot(self, cell: str, levels: Levels) -> str | None:
        """Why the cell cannot have its pages, or None. Before `take` nothing is known, and nothing said."""
        if cell not in self._pages:
            return None
        size = parse_size(levels["huge_pages"])
        given = self._pools[size].given
        if given >= self._pages[cell]:
            return None
        return (
            f"it needs {self._pages[cell]} huge pages of {format_size(size)}, the kernel gave {given}; "
            "free memory, or take them at boot"
        )

    def bytes_of(self, cell: str, levels: Levels) -> int:
        """What the cell's server has in huge pages, in bytes."""
        return self._pages[cell] * parse_size(levels["huge_pages"]) if cell in self._pages else 0

    def close(self) -> None:
        """Gives them back."""
        self._given.close()

"""Huge pages for shared_buffers: a pool per size, allocated once per run, and the server's settings for it.

Source: kernel Documentation/admin-guide/mm/hugetlbpage.rst (nr_hugepages per size), PostgreSQL's manual on huge_pages
and huge_page_size. If memory is fragmented the kernel allocates fewer than requested, so the number is read back. A
pool is allocated early and once, because released pages are hard to get back. An existing pool is left to its users,
and ours is added to it. The server's memory limit is lowered by it (server_group).
"""

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from octavo.factor import Factor, size
from octavo.host.journal import Journal
from octavo.host.kernel_value import KernelValue, changed
from octavo.knobs.base import not_writable
from octavo.units import format_size, parse_size

_SYS = Path("/sys")

FACTOR = Factor("huge_pages", "run", "huge page size of shared memory", "off", size("64kB", "16GB", "off"))


@dataclass(frozen=True, slots=True)
class Pool:
    """Pages of one size: the requested and the allocated number."""

    page: int
    asked: int
    given: int

    def __str__(self) -> str:
        """The pool as text for a reason."""
        return f"{self.asked} huge pages of {format_size(self.page)} requested, {self.given} allocated"


def settings(level: str) -> dict[str, str]:
    """The server's settings: `on` rather than `try`, so that it does not silently run without huge pages.

    >>> settings("off"), settings("1GB")
    ({'huge_pages': 'off'}, {'huge_pages': 'on', 'huge_page_size': '1GB'})
    """
    return {"huge_pages": "off"} if level == "off" else {"huge_pages": "on", "huge_page_size": level}


def sizes(sys: Path = _SYS) -> list[int]:
    """The sizes in bytes of the pools that this kernel has."""
    names = (path.name for path in (sys / "kernel/mm/hugepages").glob("hugepages-*kB"))
    return sorted(int(name.removeprefix("hugepages-").removesuffix("kB")) * 1024 for name in names)


def cannot(level: str, sys: Path = _SYS) -> str | None:
    """Why this host does not have such pages, or None."""
    if level == "off":
        return None
    if parse_size(level) not in sizes(sys):
        have = ", ".join(map(format_size, sizes(sys)))
        return f"this host has no huge pages of {level}{f', only of {have}' if have else ''}"
    return not_writable(_file(parse_size(level), sys))


@contextmanager
def pools(wanted: Mapping[int, int], journal: Journal, sys: Path = _SYS) -> Generator[dict[int, Pool], None, None]:
    """Allocates so many more pages of each size in bytes, and releases them at the end. Yields the number that the
    kernel allocated.

    `wanted` is the output of `postgres -C shared_memory_size_in_huge_pages` under `settings` (PostgreSQL 15 and later).
    """
    with ExitStack() as stack:
        given: dict[int, Pool] = {}
        for page, pages in sorted(wanted.items(), reverse=True):  # the large ones while memory is not fragmented
            value = KernelValue(_file(page, sys), "pool")
            # Surplus pages are in use. Ours are added to them, too, and they become surplus again at the end.
            persistent, total = int(value.read()), int(value.path.read_text())
            ours = (persistent, total + pages)
            now = stack.enter_context(changed(value, str(total + pages), journal, ours=ours))
            given[page] = Pool(page, pages, max(0, int(now) - total))
        yield given


def _file(page: int, sys: Path) -> Path:
    # Allocated on all memory nodes equally, the kernel's default (nr_hugepages_mempolicy would be restricted).
    return sys / f"kernel/mm/hugepages/hugepages-{page // 1024}kB/nr_hugepages"

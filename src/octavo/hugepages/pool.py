"""The host's huge pages: a pool for each size, as a whole and for each NUMA node with memory.

Source: kernel Documentation/admin-guide/mm/hugetlbpage.rst. `total` includes surplus pages, which exist only as long as
they are used. Reserved pages are free, but reserved for a process that has mapped and not yet touched them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.errors import HostError
from octavo.host.memory_nodes import memory_nodes
from octavo.knobs.huge_pages import sizes

_SYS = Path("/sys")
_PROC = Path("/proc")

MORE_MEMORY = (
    "lower shared_buffers, or stop what uses the memory; the server's own small pages are counted as used: stop it "
    "first, and name it by --pgdata"
)


@dataclass(frozen=True, slots=True)
class NodePool:
    """The pages of one size on one memory node."""

    node: int
    total: int
    free: int
    surplus: int


@dataclass(frozen=True, slots=True)
class PoolState:
    """The pages of one size in bytes, as the kernel counts them."""

    page: int
    total: int
    free: int
    reserved: int
    surplus: int
    overcommit: int
    nodes: tuple[NodePool, ...] = ()

    @property
    def persistent(self) -> int:
        """The value that nr_hugepages was set to."""
        return self.total - self.surplus

    @property
    def available(self) -> int:
        """Neither used nor promised."""
        return max(0, self.free - self.reserved)

    @property
    def in_use(self) -> int:
        """Used, or promised."""
        return self.total - self.available

    def target(self, needed: int, own: int) -> int:
        """The value of nr_hugepages at which a server gets `needed` pages, of which it holds `own` now.

        >>> PoolState(2097152, 100, 40, 10, 0, 0).target(needed=50, own=20)
        100
        """
        return self.in_use - own + needed

    def short(self, needed: int, own: int) -> int:
        """How many pages the pool lacks for that."""
        return max(0, self.target(needed, own) - self.persistent)

    def to_allocate(self, needed: int, own: int) -> int:
        """How many of those the kernel has to find memory for: surplus pages are there and only become persistent.

        >>> pool = PoolState(2097152, total=20, free=0, reserved=0, surplus=15, overcommit=0)
        >>> pool.short(needed=10, own=5), pool.to_allocate(needed=10, own=5)
        (20, 5)
        """
        return max(0, self.target(needed, own) - self.total)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "page_bytes": self.page,
            "total": self.total,
            "free": self.free,
            "reserved": self.reserved,
            "surplus": self.surplus,
            "available": self.available,
            "overcommit": self.overcommit,
            "nodes": [
                {"node": one.node, "total": one.total, "free": one.free, "surplus": one.surplus} for one in self.nodes
            ],
        }


def read_pool(page: int, sys: Path = _SYS) -> PoolState:
    """The pool of this page size now. Raises HostError when this kernel has none."""
    directory = sys / "kernel/mm/hugepages" / _name(page)
    if not directory.is_dir():
        raise HostError(f"this kernel has no {directory}")
    places = (
        (node, sys / f"devices/system/node/node{node}/hugepages" / _name(page)) for node in memory_nodes(sys)
    )  # fmt: skip
    return PoolState(
        page,
        _number(directory / "nr_hugepages"),
        _number(directory / "free_hugepages"),
        _number(directory / "resv_hugepages"),
        _number(directory / "surplus_hugepages"),
        _number(directory / "nr_overcommit_hugepages"),
        tuple(
            NodePool(
                node,
                _number(place / "nr_hugepages"),
                _number(place / "free_hugepages"),
                _number(place / "surplus_hugepages"),
            )
            for node, place in places
            if place.is_dir()
        ),
    )


def read_pools(sys: Path = _SYS) -> list[PoolState]:
    """Every size that this kernel offers, the smallest first. Raises HostError when it offers none."""
    found = [read_pool(page, sys) for page in sizes(sys)]
    if not found:
        raise HostError(f"this kernel has no huge pages (no {sys / 'kernel/mm/hugepages'})")
    return found


def pool_file(page: int, sys: Path = _SYS) -> Path:
    """Where the number of pages is set."""
    return sys / "kernel/mm/hugepages" / _name(page) / "nr_hugepages"


def default_page(proc: Path = _PROC) -> int:
    """The size in bytes that MAP_HUGETLB means by itself: Hugepagesize. Raises HostError when there is none."""
    return meminfo("Hugepagesize", proc)


def meminfo(name: str, proc: Path = _PROC) -> int:
    """A line of /proc/meminfo in bytes. Raises HostError when this kernel has no such line."""
    for line in (proc / "meminfo").read_text(errors="replace").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.partition(":")[2].removesuffix("kB")) * 1024
    raise HostError(f"this kernel has no {name} in {proc / 'meminfo'}: it was built without huge pages")


def memory_to_take(root: Path) -> int:
    """Bytes that a pool may take of this machine while it runs. Raises HostError."""
    return room_for_pool(meminfo("MemAvailable", root / "proc"), meminfo("MemTotal", root / "proc"))


def room_for_pool(available: int, total: int) -> int:
    """Bytes that a pool may take of a running machine: the available memory less a fiftieth of all memory.

    >>> room_for_pool(10_000, 100_000), room_for_pool(1_000, 100_000)
    (8000, 0)
    """
    return max(0, available - total // 50)


def _name(page: int) -> str:
    return f"hugepages-{page // 1024}kB"


def _number(path: Path) -> int:
    return int(path.read_text())

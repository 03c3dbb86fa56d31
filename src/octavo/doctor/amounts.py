"""Amounts that several rules compute from the same facts: available memory, the huge pages that a server needs, its
page tables."""

from dataclasses import dataclass
from pathlib import Path

from octavo.doctor.facts import NotApplicableError, RuleFacts, UnknownError
from octavo.doctor.lines import Line, alter
from octavo.hugepages.groups import GroupLimit
from octavo.hugepages.pool import NodePool, PoolState
from octavo.hugepages.savings import predictable, table_bytes
from octavo.units import format_size, human_size

MB = 1024**2
# The share of shared memory besides shared_buffers, used before PostgreSQL 15, which reports the total. Measured 6 to
# 13 % at 8 kB blocks (docs/hugepages.md: 128 MB needs 144 MB, 16 MB needs 24 MB).
_BESIDE = 0.13
_CHARGED = "host.memory.group_counts_huge_pages"
# Values of shmem_enabled that allow transparent huge pages for shared memory.
SHMEM_THP = ("always", "within_size", "force")


@dataclass(frozen=True, slots=True)
class HugePages:
    """The pages of the size that the server requests: how many it needs, and how many it holds now."""

    pool: PoolState
    needed: int
    held: int
    default: int


def memory_bytes(asked: RuleFacts) -> int:
    """The memory available to the server: the machine's, or less if a control group limits it.

    Unless the hierarchy is mounted with memory_hugetlb_accounting, huge pages are not charged to the group: what the
    server has in them is in addition to the limit (kernel Documentation/admin-guide/cgroup-v2.rst).
    """
    total, limit = asked.whole("host.memory.total_bytes"), asked.whole_or_none("host.memory.group_limit_bytes")
    if limit is None:
        return total
    charged = asked.has(_CHARGED) and asked.flag(_CHARGED)
    return min(total, limit + (shared_memory(asked) if is_on_huge_pages(asked) and not charged else 0))


def server_cores(asked: RuleFacts) -> int | None:
    """The CPUs that the server may use at once: the machine's, or fewer if its affinity, a cpuset or a control group's
    limit says so. None if none of these is known."""
    names = ("host.cores", "host.cpu.allowed_cores", "host.cpu.group_cores")
    return min((count for name in names if (count := asked.whole_or_none(name))), default=None)


def shared_memory(asked: RuleFacts) -> int:
    """The server's total shared memory in bytes: as reported (15 and later), else estimated from shared_buffers."""
    if asked.has("setting.shared_memory_size"):
        return asked.whole("setting.shared_memory_size")
    buffers = asked.whole("setting.shared_buffers")
    return int(buffers * (1 + _BESIDE)) + 8 * MB


def on_huge_pages(asked: RuleFacts) -> bool:
    """Whether shared memory is in huge pages: from huge_pages_status (17 and later), else from HugetlbPages in
    /proc."""
    status = asked.text_or_none("setting.huge_pages_status")
    if status in ("on", "off"):
        return status == "on"
    return asked.whole("host.process.huge_bytes") > 0


def is_on_huge_pages(asked: RuleFacts) -> bool:
    """Whether shared memory is known to be in huge pages."""
    try:
        return on_huge_pages(asked)
    except (UnknownError, NotApplicableError):
        return False


def huge_pages(asked: RuleFacts) -> HugePages:
    """The pages for the server. Raises NotApplicableError when the kernel has no huge pages of the requested size."""
    default = asked.whole("host.huge.default_page_bytes")
    page = asked.whole_or_none("setting.huge_page_size") or default
    pool = next((one for one in pools(asked) if one.page == page), None)
    if pool is None:
        raise NotApplicableError(f"this kernel has no huge pages of {human_size(page)}")
    memory = shared_memory(asked)
    told = asked.whole_or_none("setting.shared_memory_size_in_huge_pages") or 0
    needed = told if told > 0 else -(-memory // page)
    held = -(-memory // page) if is_on_huge_pages(asked) else 0
    return HugePages(pool, needed, held, default)


def pools(asked: RuleFacts) -> list[PoolState]:
    """The huge page pools of all sizes."""
    return [
        PoolState(
            row["page_bytes"], row["total"], row["free"], row["reserved"], row["surplus"], row.get("overcommit", 0),
            tuple(NodePool(one["node"], one["total"], one["free"], one.get("surplus", 0))
                  for one in row.get("nodes", [])),
        )
        for row in asked.rows("host.huge.pools")
    ]  # fmt: skip


def group_limits(asked: RuleFacts, page: int) -> list[GroupLimit]:
    """The control groups' limits on huge pages of this size."""
    return [
        GroupLimit(Path(row["group"]), row["name"], row["limit_bytes"], row["used_bytes"], row["reservations"])
        for row in asked.rows("host.huge.group_limits")
        if row["page_bytes"] == page
    ]


def tables_each(asked: RuleFacts, page: int) -> int:
    """The page tables, in bytes, of one backend that has touched all of shared memory in pages of this size.

    Raises UnknownError when this machine's page tables have another form.
    """
    machine = asked.text("host.machine")
    if not predictable(machine):
        raise UnknownError(f"page tables of {machine} are not predicted")
    return table_bytes(shared_memory(asked), page, asked.whole("host.memory.page_bytes"))


def least_read(asked: RuleFacts) -> int:
    """The fewest bytes of a read that misses the page cache: a memory page, or the filesystem's block if larger."""
    return max(asked.whole("host.memory.page_bytes"), asked.whole_or_none("host.fs.block_bytes") or 0)


def is_standby(asked: RuleFacts) -> bool:
    """Whether the server is known to be a standby."""
    return asked.has("server.in_recovery") and asked.flag("server.in_recovery")


def set_buffers(asked: RuleFacts, size: int) -> tuple[Line, ...]:
    """The line for shared_buffers. With huge_pages = on the lines for the pages come first: without them the server
    would not start."""
    more = size > asked.whole("setting.shared_buffers") and asked.text_or_none("setting.huge_pages") == "on"
    pages = ("# first the huge pages for it, or it does not start with huge_pages = on: octavo hugepages plan",)
    return (*(pages if more else ()), alter("shared_buffers", format_size(size)))


def percent(share: float) -> str:
    """A share for prose.

    >>> percent(0.117), percent(0.004)
    ('12 %', '0.4 %')
    """
    return f"{share * 100:.0f} %" if share >= 0.0095 else f"{share * 100:.1g} %"

"""Obstacles on this host: limits that would refuse huge pages, or make them fail later.

Only those that affect PostgreSQL, which maps its shared memory with mmap(2) and MAP_HUGETLB.
"""

import os
import resource
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from octavo.host.kernel_text import chosen
from octavo.hugepages.groups import GroupLimit, counted, group_limits, tightest
from octavo.hugepages.needed import ServerPages
from octavo.hugepages.pool import MORE_MEMORY, PoolState, default_page, meminfo, memory_to_take, pool_file
from octavo.units import format_size, human_size

Severity = Literal["error", "warning", "note"]
_ROOT = Path("/")
RESERVATIONS = "hugetlb group, reservations"


@dataclass(frozen=True, slots=True)
class Limit:
    """One finding: an `error` keeps the server from its huge pages or kills it, a `warning` may, a `note` explains."""

    limit: str
    severity: Severity
    found: str
    consequence: str
    fix: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def find_limits(
    server: ServerPages | None,
    pool: PoolState,
    own: int,
    root: Path = _ROOT,
    environment: Mapping[str, str] = os.environ,
) -> list[Limit]:
    """Everything for the server's page size, worst first. `own` pages are the server's now."""
    needed = server.pages[pool.page] if server else None
    found = [
        *_shared_memory_type(server),
        *_page_size(server, pool, root),
        *pending(server),
        *_group(server, pool, needed, own, root),
        *_memory(pool, needed, own, root),
        *overcommit(pool, needed, own, root),
        *_container(pool, needed, root, environment),
        *_transparent(root),
        _memlock(root),
    ]
    return sorted(found, key=lambda one: ("error", "warning", "note").index(one.severity))


def _shared_memory_type(server: ServerPages | None) -> list[Limit]:
    if server is None or server.shared_memory_type == "mmap":
        return []
    return [no_mmap(server.shared_memory_type)]


def no_mmap(kind: str) -> Limit:
    """The finding for a shared_memory_type other than mmap."""
    return Limit(
        "shared_memory_type",
        "error",
        f"shared_memory_type = {kind}",
        "PostgreSQL uses huge pages with mmap only: huge_pages = on does not start, try runs without them",
        "shared_memory_type = mmap",
    )


def _page_size(server: ServerPages | None, pool: PoolState, root: Path) -> list[Limit]:
    if server is None or (asked := server.page(default_page(root / "proc"))) == pool.page:
        return []
    size = human_size(pool.page)
    return [
        Limit(
            "huge_page_size",
            "warning",
            f"the server requests pages of {human_size(asked)}, not {size}",
            "it does not use the pool",
            f"huge_page_size = {format_size(pool.page)}",
        )
    ]


def pending(server: ServerPages | None) -> list[Limit]:
    """The finding for settings that wait for a restart and may change the need."""
    if server is None or not server.unsettled:
        return []
    return [
        Limit(
            "pending restart",
            "warning",
            f"settings wait for a restart ({', '.join(server.unsettled)})",
            "the plan is for those in force; with the new ones it may need more",
            "stop it and use --pgdata, or restart it first",
        )
    ]


def _group(server: ServerPages | None, pool: PoolState, needed: int | None, own: int, root: Path) -> list[Limit]:
    limits = group_limits(pool.page, server.postmaster if server else None, root / "proc")
    return judge_groups(limits, pool, needed, own, off=server is not None and server.huge_pages == "off")


def judge_groups(limits: list[GroupLimit], pool: PoolState, needed: int | None, own: int, *, off: bool) -> list[Limit]:
    """The consequences of these hugetlb limits for a server that needs so many pages and holds `own` of them now.

    Without a number of pages it is about initdb and any server. `off`: huge_pages is off.
    """
    size = human_size(pool.page)
    wanted = f"{human_size(needed * pool.page)}" if needed is not None else "a server or initdb"
    found: list[Limit] = []
    touched, reserved = (tightest(limits, reservations=kind) for kind in (False, True))
    touched_own, reserved_own = (counted(limits, own * pool.page, reservations=kind) for kind in (False, True))
    # Without huge pages none of this happens, until they are wanted.
    severity: Severity = "warning" if off else "error"
    once = "once huge_pages is on or try, " if severity == "warning" else ""
    refused = reserved is not None and reserved.room(reserved_own) < (needed or 1) * pool.page
    if refused and reserved is not None:
        found.append(
            Limit(
                RESERVATIONS,
                severity,
                f"{reserved.group} allows {_allowed(reserved)} of {size} pages",
                f"{once}{wanted} is refused at start (ENOMEM): huge_pages = on does not start, try runs without",
                f"raise {reserved.name} there; in Kubernetes the pod's hugepages limit does it",
            )
        )
    # Fewer than these are never mapped: too small a pool, or a refused reservation, makes mmap fail first.
    mapped = needed if needed is not None else pool.available + pool.overcommit
    if touched is not None and not refused and touched.room(touched_own) < max(1, mapped) * pool.page:
        found.append(
            Limit(
                "hugetlb group",
                severity if mapped else "warning",
                f"{touched.group} allows {_allowed(touched)} of {size} pages; the host's pool has {pool.available} "
                "available",
                f"{once}pages that the pool has and the group does not allow are reserved at start and refused when "
                "touched: initdb, and a server with huge_pages = try (the default) or on, dies of SIGBUS (Bus error) "
                "or cannot read blocks whole",
                f"raise {touched.name} there (Kubernetes: the pod's hugepages limit), or go "
                "without: initdb -c huge_pages=off (16 and later; before, huge_pages = off in postgresql.conf.sample)",
            )
        )
    return found


def _allowed(limit: GroupLimit) -> str:
    return f"{human_size(limit.limit)} (taken: {human_size(limit.used)})"


def _memory(pool: PoolState, needed: int | None, own: int, root: Path) -> list[Limit]:
    more = pool.to_allocate(needed, own) * pool.page if needed is not None else 0
    there = memory_to_take(root)
    if more <= there:
        return []
    return [
        Limit(
            "memory",
            "error",
            f"{human_size(more)} more in huge pages, {human_size(there)} of memory can be taken",
            "the kernel cannot provide them, and would evict everything else while trying",
            MORE_MEMORY,
        )
    ]


def overcommit(pool: PoolState, needed: int | None, own: int, root: Path) -> list[Limit]:
    """The finding for strict accounting of allocations; an error where the pool would make them fail at once."""
    mode = _text(root / "proc/sys/vm/overcommit_memory")
    more = pool.to_allocate(needed, own) * pool.page if needed is not None else 0
    if mode != "2" or not more:
        return []
    now, committed = meminfo("CommitLimit", root / "proc"), meminfo("Committed_AS", root / "proc")
    percent = int(_text(root / "proc/sys/vm/overcommit_ratio") or 0)  # 0 where overcommit_kbytes is in force
    if percent == 0:  # vm_commit_limit() in mm/util.c
        return [
            Limit(
                "overcommit",
                "warning",
                f"vm.overcommit_memory = 2 with overcommit_kbytes, CommitLimit {human_size(now)}",
                f"CommitLimit stays as it is, although the pool takes {human_size(more)} of the memory below it",
                "lower vm.overcommit_kbytes by as much",
            )
        ]
    after = now - more * percent // 100
    return [
        Limit(
            "overcommit",
            "error" if after < committed else "note",
            f"vm.overcommit_memory = 2, CommitLimit {human_size(now)}, {human_size(committed)} committed",
            f"the pool lowers CommitLimit to {human_size(after)}; huge pages themselves are not counted",
            "raise vm.overcommit_ratio, so that CommitLimit stays what it is" if after < committed else "",
        )
    ]


def _container(pool: PoolState, needed: int | None, root: Path, environment: Mapping[str, str]) -> list[Limit]:
    kind = container_of(root, environment)
    if kind is None:
        return []
    file = pool_file(pool.page, root / "sys")
    writable = os.access(file, os.W_OK)  # refused to all but root, and mostly to root of a container as well
    found = f"this is a container ({kind}); the pool is the host's{'' if writable else ', and cannot be changed here'}"
    pages = f"{needed} pages" if needed is not None else "the pages"
    if kind == "Kubernetes":
        return [
            Limit(
                "Kubernetes",
                "warning",
                found,
                "a pod without a hugepages limit may have none, whatever the node's pool shows",
                f"before the kubelet starts, give the node {pages}; then "
                f"resources.limits: {{{kubernetes_resource(pool.page, needed)}, memory: …}} (request = limit)",
            )
        ]
    severity = "note" if writable else "warning"
    fix = "" if writable else f"take {pages} on the host"
    return [Limit("container", severity, found, "a limit of its control group also applies", fix)]


def container_of(root: Path = _ROOT, environment: Mapping[str, str] = os.environ) -> str | None:
    """The kind of container that we are in, None when it looks like a host."""
    if "KUBERNETES_SERVICE_HOST" in environment or (root / "var/run/secrets/kubernetes.io").exists():
        return "Kubernetes"
    if (root / ".dockerenv").exists():
        return "Docker"
    if (root / "run/.containerenv").exists():
        return "Podman"
    return _text(root / "run/systemd/container") or None


def kubernetes_resource(page: int, pages: int | None) -> str:
    """The resource of a pod, named and counted as Kubernetes does ("Manage HugePages").

    >>> kubernetes_resource(2 * 1024**2, 71), kubernetes_resource(1024**3, 3)
    ('hugepages-2Mi: 142Mi', 'hugepages-1Gi: 3Gi')
    """
    for unit, name in ((1024**3, "Gi"), (1024**2, "Mi"), (1024, "Ki")):
        if page >= unit:
            amount = "…" if pages is None else f"{pages * page // unit}{name}"
            return f"hugepages-{page // unit}{name}: {amount}"
    raise ValueError(page)


def _transparent(root: Path) -> list[Limit]:
    mode = chosen(_text(root / "sys/kernel/mm/transparent_hugepage/shmem_enabled"))
    if mode not in ("always", "within_size", "force"):
        return []
    return [
        Limit(
            "transparent huge pages",
            "note",
            f"shmem_enabled = {mode}",
            "without a pool, shared_buffers gets transparent huge pages where memory is not fragmented; page tables "
            "are then smaller than predicted for small pages, without guarantee",
        )
    ]


def _memlock(root: Path) -> Limit:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    shown = "unlimited" if soft == resource.RLIM_INFINITY else human_size(soft)
    group = _text(root / "proc/sys/vm/hugetlb_shm_group") or "none"
    return Limit(
        "memlock",
        "note",
        f"memlock {shown}, vm.hugetlb_shm_group {group}",
        "not relevant: they apply to SHM_HUGETLB (shmget), and PostgreSQL uses mmap",
    )


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""

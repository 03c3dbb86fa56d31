"""The plan as one document: the server's need, the host's pools, obstacles and savings."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from octavo.errors import HostError, UsageError
from octavo.hugepages import savings
from octavo.hugepages.advice import EITHER, FAILURES, SYSCTL_FILE, advise
from octavo.hugepages.boot import at_boot, is_read_after
from octavo.hugepages.limits import find_limits, pending
from octavo.hugepages.needed import ServerPages, server_of
from octavo.hugepages.pool import PoolState, default_page, meminfo, read_pools
from octavo.hugepages.postmaster_memory import PostmasterMemory, read_postmaster
from octavo.units import format_size

SCHEMA_VERSION = 1


class Situation:
    """A server (or none yet), and the pools of its host; `page` is the size that is meant."""

    def __init__(self, pgdata: Path | None, bindir: Path | None, dsn: str | None, page: int | None = None) -> None:
        self.pools: Sequence[PoolState] = read_pools()
        self.default = default_page()
        sizes = [pool.page for pool in self.pools]
        self.server: ServerPages | None = server_of(pgdata, bindir, dsn, sizes, self.default)
        self.page = page if page is not None else (self.server.page(self.default) if self.server else self.default)
        if self.page not in sizes:
            raise UsageError(
                f"this machine has huge pages of {', '.join(map(format_size, sizes))}, not {format_size(self.page)}; "
                "choose one with --page-size"
            )
        self.seen: PostmasterMemory | None = None
        if self.server is not None and self.server.postmaster is not None:
            self.seen = read_postmaster(self.server.postmaster)

    def pool(self, page: int | None = None) -> PoolState:
        """The pool of a size, else of the one that is meant."""
        return next(pool for pool in self.pools if pool.page == (page or self.page))

    def own(self, page: int) -> int:
        """The pages of this size that the running server holds, promised ones included."""
        return held(self.server, self.seen, page, self.default)

    def require_takes(self) -> None:
        """Raises UsageError if the server would not use the pages, or if its need is unknown."""
        if self.server is None:
            return
        if (kind := self.server.shared_memory_type) != "mmap":
            raise UsageError(f"shared_memory_type = {kind}, and PostgreSQL takes huge pages with mmap only; set that")
        if names := ", ".join(self.server.unsettled):
            raise UsageError(
                f"settings wait for a restart ({names}), so it may need more than it reports; stop it and "
                "give --pgdata, or restart it first"
            )

    def require_here(self) -> None:
        """Raises HostError if the running server is not visible on this host."""
        if self.server is not None and self.server.running and self.server.postmaster is None:
            raise HostError(f"{self.server.unseen}; run this on the server's host")


def held(server: ServerPages | None, seen: PostmasterMemory | None, page: int, default: int) -> int:
    """Pages of this size in a server's mapping: by smaps, else as the server reports."""
    if server is None or not server.running or server.postmaster is None:
        return 0
    if seen is not None and seen.mapping is not None:
        return seen.mapping // page if seen.page == page else 0
    in_use = server.status == "on" or (seen is not None and seen.huge > 0)
    return -(-server.shared_memory // page) if in_use and server.page(default) == page else 0


def document(situation: Situation, connections: int | None) -> dict[str, Any]:
    """The complete document of `octavo hugepages plan`. Sizes in bytes, numbers in pages."""
    server, seen, page = situation.server, situation.seen, situation.page
    # Of another host neither the memory and its pages are known, nor who uses the pools.
    elsewhere = server is not None and server.running and server.postmaster is None
    return {
        "schema_version": SCHEMA_VERSION,
        "server": server and server.as_dict(),
        "page_bytes": page,
        "default_page_bytes": situation.default,
        "here": not elsewhere,
        "not_here": server.unseen if elsewhere and server else None,
        "needed": [_needed(situation, pool) for pool in situation.pools] if server else [],
        "pools": [pool.as_dict() for pool in situation.pools],
        "seen": seen.as_dict(server.pages[page], page) if seen and server else None,
        "page_tables": _page_tables(situation, connections) if server and not elsewhere else None,
        "limits": [
            one.as_dict()
            for one in (pending(server) if elsewhere else find_limits(server, situation.pool(), situation.own(page)))
        ],
        "advice": [_advice(situation, pool) for pool in situation.pools] if server and not elsewhere else [],
        "huge_pages": {**FAILURES, "either": EITHER},
    }  # fmt: skip


def _needed(situation: Situation, pool: PoolState) -> dict[str, Any]:
    server = situation.server
    assert server is not None
    pages, own = server.pages[pool.page], situation.own(pool.page)
    return {
        "page_bytes": pool.page,
        "pages": pages,
        "bytes": pages * pool.page,
        "unused_bytes": max(0, pages * pool.page - server.shared_memory),
        "own_pages_now": own,
        "pool_pages": pool.target(pages, own),
        "short_pages": pool.short(pages, own),
    }


def _advice(situation: Situation, pool: PoolState) -> dict[str, Any]:
    server = situation.server
    assert server is not None
    needed, own = server.pages[pool.page], situation.own(pool.page)
    others = sum((one.total - situation.own(one.page)) * one.page for one in situation.pools if one is not pool)
    told = advise(pool, needed, own, server.page(situation.default), situation.default, meminfo("MemTotal") - others)
    said = at_boot(pool.page, situation.default) if told["sysctl"] else None
    return {**told, "set_again_by": said.said_by if said and is_read_after(said.said_by, SYSCTL_FILE) else None}


def _page_tables(situation: Situation, connections: int | None) -> dict[str, Any]:
    server, seen = situation.server, situation.seen
    assert server is not None
    base, count = os.sysconf("SC_PAGE_SIZE"), connections or server.max_connections
    sizes = [pool.page for pool in situation.pools]
    return {
        "connections": count,
        "memory_page_bytes": base,
        "predictions": [one.as_dict() for one in savings.predict(server.shared_memory, sizes, count, base)],
        "measured_bytes": seen.tables if seen else None,
        "measured_processes": seen.processes if seen else None,
    }

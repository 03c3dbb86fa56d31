"""How many huge pages of each size a server would use, as PostgreSQL 15 and later computes it.

A stopped server is queried with `postgres -C` (manual, "Linux Huge Pages"), a running one with SQL. The number is never
guessed from shared_buffers: the rest of shared memory grows with max_connections, the WAL buffers and extensions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.errors import UsageError

_MB = 1024**2
# What may wait for a restart and takes no shared memory.
_WEIGHTLESS = frozenset(
    {"huge_pages", "listen_addresses", "port", "unix_socket_directories", "unix_socket_group", "bonjour",
     "bonjour_name", "unix_socket_permissions", "logging_collector", "external_pid_file", "hba_file", "ident_file",
     "data_sync_retry", "wal_log_hints"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServerPages:
    """A server and its shared memory. Sizes in bytes; `shared_memory` is rounded up to a MB by PostgreSQL.

    `pages` maps each page size to the pages it would use. `huge_page_size` 0 stands for the kernel's default.
    `status` is huge_pages_status (17 and later), `postmaster` its pid where it runs on this host and can be seen;
    `unseen` says why not. `pending` are settings that a restart would change.
    """

    source: str
    version: str
    shared_memory: int
    shared_buffers: int
    huge_pages: str
    huge_page_size: int
    shared_memory_type: str
    max_connections: int
    pages: Mapping[int, int]
    running: bool = False
    status: str | None = None
    connections: int | None = None
    postmaster: int | None = None
    unseen: str = ""
    pending: tuple[str, ...] = ()

    def page(self, default: int) -> int:
        """The size of its huge pages where the kernel's default is this."""
        return self.huge_page_size or default

    @property
    def unsettled(self) -> tuple[str, ...]:
        """Settings that wait for a restart and may change what the server needs: it reports only the need of those in
        force."""
        return unsettled(self.pending)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "source": self.source,
            "version": self.version,
            "running": self.running,
            "postmaster_pid": self.postmaster,
            "shared_memory_bytes": self.shared_memory,
            "shared_buffers_bytes": self.shared_buffers,
            "huge_pages": self.huge_pages,
            "huge_pages_status": self.status,
            "huge_page_size_bytes": self.huge_page_size,
            "shared_memory_type": self.shared_memory_type,
            "max_connections": self.max_connections,
            "connections": self.connections,
            "pending_restart": list(self.pending),
        }


def unsettled(pending: Iterable[str]) -> tuple[str, ...]:
    """Those of the settings that wait for a restart that may change the shared memory."""
    return tuple(name for name in pending if name not in _WEIGHTLESS)


def stopped(ask: Callable[[str, int], str], sizes: Sequence[int], source: str) -> ServerPages:
    """The server that would start; `ask` gives a setting as `postgres -C` prints it, at a huge_page_size in bytes.

    -C prints plain numbers: shared_memory_size in MB, huge_page_size in kB, shared_buffers in data blocks.
    """

    def number(name: str) -> int:
        return int(ask(name, 0))

    return ServerPages(
        source=source,
        version=ask("server_version", 0).split()[0],
        shared_memory=number("shared_memory_size") * _MB,
        shared_buffers=number("shared_buffers") * number("block_size"),
        huge_pages=ask("huge_pages", 0),
        huge_page_size=number("huge_page_size") * 1024,
        shared_memory_type=ask("shared_memory_type", 0),
        max_connections=number("max_connections"),
        pages={size: int(ask("shared_memory_size_in_huge_pages", size)) for size in sizes},
    )


def running(
    row: Mapping[str, Any], sizes: Sequence[int], default: int, postmaster: int | None, unseen: str
) -> ServerPages:
    """The server that answered `huge_page_needs.sql`: its own count for its page size, others from shared_memory_size.

    That is exact for pages that are a multiple of a MB, and at most a MB too much for smaller ones.
    """
    shared_memory, own = int(row["shared_memory"]), int(row["huge_page_size"]) or default
    pages = {size: -(-shared_memory // size) for size in sizes}
    if int(row["in_huge_pages"]) > 0 and own in pages:
        pages[own] = int(row["in_huge_pages"])
    return ServerPages(
        source="the running server",
        version=str(row["version"]).split()[0],
        shared_memory=shared_memory,
        shared_buffers=int(row["shared_buffers"]),
        huge_pages=row["huge_pages"],
        huge_page_size=int(row["huge_page_size"]),
        shared_memory_type=row["shared_memory_type"],
        max_connections=int(row["max_connections"]),
        pages=pages,
        running=True,
        status=row["huge_pages_status"],
        connections=int(row["connections"]),
        postmaster=postmaster,
        unseen=unseen,
        pending=tuple(row["pending"] or ()),
    )


def server_of(
    pgdata: Path | None, bindir: Path | None, dsn: str | None, sizes: Sequence[int], default: int
) -> ServerPages | None:
    """The server that is meant, None when none is named. Raises UsageError and HostError."""
    if pgdata is not None and dsn is not None:
        raise UsageError("--pgdata is for a stopped cluster and --dsn for a running server; give one of them")
    if bindir is not None and pgdata is None:
        raise UsageError("--bindir has no effect without --pgdata; add --pgdata, or leave --bindir out")
    if pgdata is not None:
        from octavo.hugepages.stopped import asking

        with asking(pgdata, bindir) as (ask, source):
            return stopped(ask, sizes, source)
    if dsn is None:
        return None
    from octavo.watch.connect import asker, connect, listener, target_of

    with connect(dsn, "octavo hugepages") as connection:
        target, _ = target_of(connection)
        (row,) = asker(connection)("huge_page_needs")
        # What we look at in /proc can be seen of a server in a container, too.
        return running(row, sizes, default, target.postmaster or listener(connection), target.no_processes)

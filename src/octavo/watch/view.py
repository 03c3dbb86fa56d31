"""A snapshot as text for people: tables side by side where the terminal is wide enough, below each other where not."""

import time
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from octavo.units import format_size, human_size
from octavo.watch.snapshot import ServerSnapshot

_WIDE = 120  # columns from which on tables stand side by side
_NONE = "·"


def view(snapshot: ServerSnapshot, width: int) -> RenderableType:
    """Everything, for a terminal of this many columns."""
    narrow = [_memory(snapshot), _machine(snapshot), _wal(snapshot)]
    requests = [_device(snapshot), *_device_requests(snapshot), _server_requests(snapshot)]
    processes = _processes(snapshot)
    parts: list[RenderableType]
    if width >= _WIDE:
        parts = [_beside(narrow), _beside([_stack(requests), processes])]
    else:
        parts = [_beside(narrow[:2]), narrow[2], *requests, processes]
    return _stack([_head(snapshot), *parts, *_blind(snapshot)])


def _stack(parts: Sequence[RenderableType]) -> Group:
    """Below each other, with a line between tables."""
    lines: list[RenderableType] = []
    for part in parts:
        if lines and not (isinstance(part, Text) and isinstance(lines[-1], Text)):
            lines.append("")
        lines.append(part)
    return Group(*lines)


def _head(snapshot: ServerSnapshot) -> Text:
    server = snapshot.server
    words = [
        f"PostgreSQL {server['version']}",
        f"data block {format_size(server['data_block'])}",
        f"WAL block {format_size(server['wal_block'])}",
        f"shared_buffers {format_size(server['shared_buffers'])}",
        f"huge pages {server['huge_pages_status'] or server['huge_pages']}",
    ]
    if server["io_method"]:
        words.append(f"io_method {server['io_method']}")
    when = time.strftime("%H:%M:%S", time.localtime(snapshot.time))
    words += [f"{when}, over {snapshot.seconds:.1f} s", f"monitoring overhead: {snapshot.cost_share * 100:.2g} % CPU"]
    return Text(" · ".join(words))


def _memory(snapshot: ServerSnapshot) -> Table:
    rows = [
        ("available", _bytes(snapshot.value("memory_available_bytes"))),
        ("page cache", _bytes(snapshot.value("memory_cached_bytes"))),
        ("dirty", _bytes(snapshot.value("memory_dirty_bytes"))),
        ("page tables", _bytes(snapshot.value("memory_page_tables_bytes"))),
        ("of PostgreSQL", _bytes(snapshot.value("process_page_table_bytes"))),
        ("huge pages free, total", f"{_count(snapshot.value('huge_pages_free'))}, "
                                f"{_count(snapshot.value('huge_pages_total'))}"),
        ("THP private", _bytes(snapshot.value("memory_anon_huge_bytes"))),
        ("THP shared", _bytes(snapshot.value("memory_shmem_huge_bytes"))),
        ("swap in use", _bytes(snapshot.value("swap_used_bytes"))),
    ]  # fmt: skip
    return _pairs("memory", rows)


def _machine(snapshot: ServerSnapshot) -> Table:
    rows = [
        ("CPU user", _share(snapshot.value("cpu_user_share"))),
        ("CPU system", _share(snapshot.value("cpu_system_share"))),
        ("CPU iowait", _share(snapshot.value("cpu_iowait_share"))),
        ("CPU steal", _share(snapshot.value("cpu_steal_share"))),
        ("CPUs of PostgreSQL", _decimal(snapshot.value("process_cpus"))),
        ("pressure CPU, memory, I/O", " ".join(
            _share(snapshot.value("pressure_some", item), 0) for item in ("cpu", "memory", "io"))),
        ("transactions/s", _count(snapshot.value("transactions_per_second"))),
        ("buffer hits", _share(snapshot.value("buffer_hit_share"))),
        ("block reads/s", _count(snapshot.value("block_reads_per_second"))),
    ]  # fmt: skip
    return _pairs("machine and database", rows)


def _wal(snapshot: ServerSnapshot) -> Table:
    rows = [
        ("generated/s", _bytes(snapshot.value("wal_bytes_per_second"))),
        ("records/s", _count(snapshot.value("wal_records_per_second"))),
        ("full-page images/s", _count(snapshot.value("wal_full_page_images_per_second"))),
        ("written/s", _bytes(snapshot.value("wal_written_bytes_per_second"))),
        ("a write", _bytes(snapshot.value("wal_write_request_bytes"))),
        ("written per generated", _decimal(snapshot.value("wal_amplification"))),
        ("syncs/s", _count(snapshot.value("wal_syncs_per_second"))),
    ]
    return _pairs("WAL", rows)


def _device(snapshot: ServerSnapshot) -> Table:
    table = _table(f"device {snapshot.server.get('device') or ''}".strip(), "", "1/s", "bytes/s", "size", "await ms")
    for name, rate, kb, size, wait in (
        ("reads", "device_reads_per_second", "device_read_kb_per_second", "rareq_sz", "r_await"),
        ("writes", "device_writes_per_second", "device_written_kb_per_second", "wareq_sz", "w_await"),
    ):
        kilobytes = snapshot.value(kb)
        table.add_row(
            name, _count(snapshot.value(rate)), _bytes(None if kilobytes is None else kilobytes * 1024),
            _bytes(snapshot.value(size)), _decimal(snapshot.value(wait)),
        )  # fmt: skip
    table.add_row("flushes", _count(snapshot.value("device_flushes_per_second")), "", "",
                  _decimal(snapshot.value("f_await")))  # fmt: skip
    table.add_row("in flight", _decimal(snapshot.value("aqu_sz")), f"util {_share(snapshot.value('device_util'), 0)}")
    return table


def _device_requests(snapshot: ServerSnapshot) -> list[Table]:
    """Who asks the device, where the kernel lets us count it."""
    names = ("request_reads_per_second", "request_read_bytes", "request_writes_per_second", "request_write_bytes")
    return [] if "requests" in snapshot.blind else [_requests("requests to the device, by process", snapshot, names)]


def _server_requests(snapshot: ServerSnapshot) -> Table:
    names = (
        "server_reads_per_second", "server_read_request_bytes", "server_writes_per_second",
        "server_write_request_bytes",
    )  # fmt: skip
    return _requests("relation I/O requests to the kernel, by backend type", snapshot, names)


def _requests(title: str, snapshot: ServerSnapshot, names: tuple[str, str, str, str]) -> Table:
    table = _table(title, "", "reads/s", "size", "writes/s", "size")
    for who in snapshot.items(names[0]):
        reads, read_size, writes, write_size = (snapshot.value(name, who) for name in names)
        if reads or writes:
            table.add_row(who, _count(reads), _bytes(read_size), _count(writes), _bytes(write_size))
    if not table.row_count:
        table.add_row("none", *[_NONE] * 4)
    return table


def _processes(snapshot: ServerSnapshot) -> Table:
    table = _table("processes", "", "n", "shared", "RssAnon", "page tables", "CPUs", "oom")
    roles = [role for role in snapshot.items("processes") if snapshot.value("processes", role)]
    for role in sorted(roles, key=lambda role: -(snapshot.value("process_page_table_bytes", role) or 0.0)):
        shared = max(snapshot.value(name, role) or 0.0 for name in ("process_shmem_bytes", "process_huge_bytes"))
        table.add_row(
            role, _count(snapshot.value("processes", role)), _bytes(shared),
            _bytes(snapshot.value("process_private_bytes", role)),
            _bytes(snapshot.value("process_page_table_bytes", role)),
            _decimal(snapshot.value("process_cpus", role)), _count(snapshot.value("process_oom_score", role)),
        )  # fmt: skip
    if not roles:
        table.add_row("none visible", *[_NONE] * 6)
    return table


def _blind(snapshot: ServerSnapshot) -> Iterable[Text]:
    reasons: dict[str, list[str]] = {}
    for name, reason in snapshot.blind.items():
        reasons.setdefault(reason, []).append(name)
    for reason, names in reasons.items():
        yield Text(f"not available: {', '.join(names)}: {reason}")


def _pairs(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    table = Table("", "", title=title, title_justify="left", box=None, pad_edge=False, show_header=False)
    table.columns[1].justify = "right"
    for row in rows:
        table.add_row(*row)
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if position else "left", no_wrap=True)
    return table


def _beside(parts: Sequence[RenderableType]) -> Table:
    grid = Table.grid(padding=(0, 4, 0, 0))
    for _ in parts:
        grid.add_column(vertical="top")
    grid.add_row(*parts)
    return grid


def _bytes(value: float | None) -> str:
    return _NONE if value is None else human_size(value)


def _count(value: float | None) -> str:
    return _NONE if value is None else f"{value:,.0f}"


def _decimal(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}"


def _share(value: float | None, digits: int = 1) -> str:
    return _NONE if value is None else f"{value:.{digits}%}"

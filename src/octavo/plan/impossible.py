"""Cells that are impossible on any host: refused with the reason before anything runs.

Cells that only this host cannot run are skipped by the lab, not refused.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from octavo import workloads
from octavo.errors import UsageError
from octavo.plan import setting_versions
from octavo.plan.cells import Cell
from octavo.plan.model import Plan
from octavo.postgres.pinned import pinned_settings
from octavo.postgres.versions import major_of
from octavo.units import format_size, human_size, parse_size
from octavo.workload_support import pgbench_tables
from octavo.workloads.base import PinsSettings

Levels = Mapping[str, str]
Settings = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ImpossibilityRule:
    """`judge(levels, settings)` gives the reason why such a cell cannot exist, or None; `source` is where that is laid
    down. The settings are those that the cell's server would be started with."""

    source: str
    judge: Callable[[Levels, Settings], str | None]


@dataclass(frozen=True, slots=True)
class Impossible:
    """A cell that cannot exist, and why."""

    cell: Cell
    reason: str


def impossible_cells(plan: Plan, cells: Sequence[Cell]) -> list[Impossible]:
    """The cells that cannot exist, each with the first reason. A control shares its baseline's fate and is left out."""
    found: list[Impossible] = []
    workload = workloads.find(plan.workload)
    own = workload.settings if isinstance(workload, PinsSettings) else dict[str, str]()
    for cell in cells:
        if not cell.control:
            pinned = pinned_settings(cell.levels["version"], cell.levels["data_block"])
            settings = {**pinned, **own, **plan.settings_at(cell.levels)}
            reasons = (rule.judge(cell.levels, settings) for rule in RULES)
            if reason := next((reason for reason in reasons if reason), None):
                found.append(Impossible(cell, reason))
    return found


def refuse_impossible(plan: Plan, cells: Sequence[Cell]) -> None:
    """Raises UsageError with the first cell that cannot exist, why, how many there are, and the way out."""
    found = impossible_cells(plan, cells)
    if not found:
        return
    first = found[0]
    count = f"{len(found)} of {sum(not cell.control for cell in cells)} cells cannot exist"
    varying = {name for name in first.cell.levels if len({cell.levels[name] for cell in cells}) > 1}
    way_out = (
        "change the levels"
        if first.cell.baseline or not varying
        else "change the levels, or exclude these cells with [[exclude]]"
    )
    more = "" if len(found) == 1 else "; --dry-run lists all"
    raise UsageError(f"{count}: {first.cell.id}: {first.reason}; {way_out}{more}")


@dataclass(frozen=True, slots=True)
class _Blocks:
    """How many blocks a setting may be; other than 0 where that means something of its own."""

    fewest: int
    most: int
    multiple: int = 1
    zero: bool = False


_INT_MAX = 2**31 - 1
_FLUSH = _Blocks(0, 256)  # WRITEBACK_MAX_PENDING_FLUSHES, src/include/pg_config_manual.h
_COUNTED_IN_BLOCKS = {
    "shared_buffers": _Blocks(16, _INT_MAX // 2),
    "temp_buffers": _Blocks(100, _INT_MAX // 2),
    "backend_flush_after": _FLUSH,
    "bgwriter_flush_after": _FLUSH,
    "checkpoint_flush_after": _FLUSH,
}
# Banks of 16 pages, at most 1 GB (src/include/access/slru.h, src/backend/access/transam/slru.c).
_PAGE_CACHES = {
    "commit_timestamp_buffers": True,
    "multixact_member_buffers": False,
    "multixact_offset_buffers": False,
    "notify_buffers": False,
    "serializable_buffers": False,
    "subtransaction_buffers": True,
    "transaction_buffers": True,
}
# The most blocks of one request (PG_IOV_MAX, src/include/port/pg_iovec.h), by the first major version that has it.
_MOST_COMBINED = {18: 128, 17: 32}
_LONGEST_NUMBER = 20


def _blocks(text: str, block: int) -> int | None:
    """A setting in blocks: a bare number counts them, a size is rounded to them. None when it is neither."""
    if text.isdecimal() and len(text) < _LONGEST_NUMBER:
        return int(text)
    try:
        return round(parse_size(text) / block)
    except UsageError:
        return None


def _counted_in_blocks(levels: Levels, settings: Settings) -> str | None:
    data_block = parse_size(levels["data_block"])
    limits = dict(_COUNTED_IN_BLOCKS)
    for name, zero in _PAGE_CACHES.items():
        limits[name] = _Blocks(16, 1024**3 // data_block, multiple=16, zero=zero)
    most_combined = next((most for since, most in _MOST_COMBINED.items() if major_of(levels["version"]) >= since), 0)
    if most_combined:
        limits |= dict.fromkeys(("io_combine_limit", "io_max_combine_limit"), _Blocks(1, most_combined))
    for name, text in {**settings, "shared_buffers": levels["shared_buffers"]}.items():
        limit = limits.get(name)
        count = None if limit is None else _blocks(text, data_block)
        if limit is None or count is None or (limit.zero and count == 0):
            continue
        if not limit.fewest <= count <= limit.most:
            low, high = (format_size(blocks * data_block) for blocks in (limit.fewest, limit.most))
            return f"{name} {text} is not from {low} to {high}, {limit.fewest} to {limit.most} blocks"
        if count % limit.multiple:
            return (
                f"{name} {text} is not a multiple of {limit.multiple} blocks "
                f"({format_size(limit.multiple * data_block)})"
            )
    return None


def _wal_buffers(levels: Levels, settings: Settings) -> str | None:
    block = parse_size(levels["wal_block"])
    count = _blocks(settings.get("wal_buffers", "-1"), block)
    if count is None or 4 <= count <= _INT_MAX // block:
        return None
    limits = f"4 WAL blocks ({format_size(4 * block)})" if count < 4 else human_size(_INT_MAX)
    taken = "PostgreSQL would silently use 4" if count < 4 else "PostgreSQL refuses more"
    return f"wal_buffers {settings['wal_buffers']} is {'below' if count < 4 else 'above'} {limits}; {taken}"


def _combined_reads(levels: Levels, settings: Settings) -> str | None:
    block = parse_size(levels["data_block"])
    wanted = _blocks(settings.get("io_combine_limit", ""), block)
    most = _blocks(settings.get("io_max_combine_limit", ""), block)
    if wanted is None or most is None or wanted <= most or major_of(levels["version"]) < 18:
        return None
    return (
        f"io_combine_limit {settings['io_combine_limit']} is above io_max_combine_limit "
        f"{settings['io_max_combine_limit']}, to which PostgreSQL silently lowers it; raise that too"
    )


# Kept for each buffer beside its block: descriptor, hash entry, I/O condition, place in the checkpoint's order.
# `postgres -C shared_memory_size` (18.6, x86-64) grows by 183 to 187 bytes a buffer from 128 MB to 1 GB.
_BYTES_A_BUFFER = 180


def _memory(levels: Levels, settings: Settings) -> str | None:
    if levels["memory"] == "none":
        return None
    needed = buffers = parse_size(levels["shared_buffers"])
    if levels.get("equal") != "memory":  # which makes room for it within that size
        needed += buffers // parse_size(levels["data_block"]) * _BYTES_A_BUFFER
    if levels["huge_pages"] != "off":  # whole pages, which are taken off the limit
        page = parse_size(levels["huge_pages"])
        needed = -(-needed // page) * page
    if parse_size(levels["memory"]) > needed:
        return None
    return (
        f"a memory limit of {levels['memory']} is too small for shared_buffers of {levels['shared_buffers']}, "
        f"which take {human_size(needed)} with the metadata of each buffer"
    )


def _recycled_wal(levels: Levels, settings: Settings) -> str | None:
    segment = parse_size(levels["wal_segment"])
    if parse_size(levels["recycled_wal"]) < 2 * segment:
        return f"recycled_wal {levels['recycled_wal']} is less than two WAL segments of {levels['wal_segment']}"
    return None


def _max_wal_size(levels: Levels, settings: Settings) -> str | None:
    segment = parse_size(levels["wal_segment"])
    text = settings.get("max_wal_size", format_size(64 * segment))  # what initdb writes: DEFAULT_MAX_WAL_SEGS
    most = int(text) * 1024**2 if text.isdecimal() and len(text) < _LONGEST_NUMBER else _size_or_none(text)
    if most is None:
        return None
    if most < 2 * segment:
        return f"max_wal_size {text} is less than two WAL segments of {levels['wal_segment']}"
    if most < parse_size(levels["recycled_wal"]):
        return (
            f"recycled_wal {levels['recycled_wal']} is above max_wal_size {text}, beyond which checkpoints remove WAL"
        )
    return None


def _size_or_none(text: str) -> int | None:
    try:
        return parse_size(text)
    except UsageError:
        return None


_DIRECT_ALIGNMENT = 4096  # PG_IO_ALIGN_SIZE, src/include/pg_config_manual.h


def _direct_io(levels: Levels, settings: Settings) -> str | None:
    kinds = {kind.strip().lower() for kind in settings.get("debug_io_direct", "").split(",")}
    for factor, affected in (("data_block", {"data"}), ("wal_block", {"wal", "wal_init"})):
        if kinds & affected and parse_size(levels[factor]) < _DIRECT_ALIGNMENT:
            asked = settings["debug_io_direct"]
            return f"debug_io_direct {asked} needs a {factor} of {format_size(_DIRECT_ALIGNMENT)} or more"
    return None


def _minimal_wal(levels: Levels, settings: Settings) -> str | None:
    if settings.get("wal_level", "").lower() != "minimal":
        return None
    if settings.get("max_wal_senders") != "0":
        return "wal_level minimal needs max_wal_senders 0"
    for name in ("archive_mode", "summarize_wal"):
        if settings.get(name, "off").lower() in ("on", "true", "yes", "1", "always"):
            return f"wal_level minimal needs {name} off"
    return None


RULES: tuple[ImpossibilityRule, ...] = (
    ImpossibilityRule("src/backend/utils/misc/guc_tables.c of each version", setting_versions.judge),
    ImpossibilityRule("src/backend/utils/misc/guc_tables.c, check_slru_buffers in slru.c", _counted_in_blocks),
    ImpossibilityRule("check_wal_buffers in src/backend/access/transam/xlog.c", _wal_buffers),
    ImpossibilityRule("PostgreSQL's manual, io_max_combine_limit", _combined_reads),
    ImpossibilityRule("BufferManagerShmemSize in src/backend/storage/buffer/buf_init.c", _memory),
    ImpossibilityRule("ReadControlFile in src/backend/access/transam/xlog.c, on min_wal_size", _recycled_wal),
    ImpossibilityRule("ReadControlFile and XLOGfileslop in src/backend/access/transam/xlog.c", _max_wal_size),
    ImpossibilityRule("check_debug_io_direct in src/backend/storage/file/fd.c", _direct_io),
    ImpossibilityRule("PostmasterMain in src/backend/postmaster/postmaster.c", _minimal_wal),
    ImpossibilityRule(
        "MaxHeapTupleSize in src/include/access/htup_details.h", lambda levels, _: pgbench_tables.impossible(levels)
    ),
)

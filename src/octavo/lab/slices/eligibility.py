"""When slices are valid: in conditions whose cells can be paused for a while without changing their state.

docs/plan.md ("Interleaving") has all the reasons, and the effect on each timer.
"""

import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from octavo import knobs
from octavo.errors import UsageError
from octavo.home import make_directory, octavo_home
from octavo.host import block_limit, cgroup, child_group
from octavo.hugepages.pool import meminfo
from octavo.instruments import profile
from octavo.knobs import device, switched
from octavo.knobs.base import AS_FOUND
from octavo.knobs.volume_types import parse_device
from octavo.lab.loads import bytes_of_copy
from octavo.lab.slices.turns import USUAL
from octavo.plan.cells import Cell, by_condition
from octavo.plan.model import Plan
from octavo.plan.server_settings import checkpoint_seconds, maintenance_memory, query_memory
from octavo.units import human_size, parse_size
from octavo.workloads.base import Levels, PinsSettings, RunsInPieces, RunsInTurns, Workload

# The memory of a server besides its buffers, its part of the page cache, and the sorts and hash tables of its
# processes.
_SERVER_BYTES = 128 * 1024**2
# The rest is for the client, the lab and the kernel. An underestimate costs page cache, it does not exhaust memory.
_MOST_OF_MEMORY = 0.9
_SPARE_OF_DISK = 1.1
_Sliced = (RunsInTurns, RunsInPieces)
# Levels that a cell must have, and otherwise what would go wrong.
_LEVELS = {
    "cache": ("warm", "a cold cache is filled only once"),
    "wal_regime": ("after-checkpoint", "wal_regime = steady depends on the checkpoint timer"),
    "rate": ("none", "the schedule of transactions (rate) cannot be paused"),
}
_TAILS = ("pgbench-tail",)
# Knobs of the memory that a server finds, and their levels with which several servers at once do not share it.
_OF_MEMORY = {
    "fragmentation": ("none",), "zram_swap": ("none",), "overcommit": (AS_FOUND, "heuristic", "always"),
}  # fmt: skip
# The optional instrument that can be restricted to one server's control group, and the one of a server's processes.
_OF_A_GROUP = "profile"
_OF_ONE_SERVER = (_OF_A_GROUP, "thp_mapped")
# Timers by which PostgreSQL ends what has waited too long: they continue while a backend is paused.
_TIMEOUTS = (
    "statement_timeout", "lock_timeout", "transaction_timeout", "idle_in_transaction_session_timeout",
    "idle_session_timeout",
)  # fmt: skip
_OFF = ("0", "")
# Cells that are paused have timed checkpoints more often than a running one. With all its dropped turns a round takes
# about this many times as long as its cells are measured.
_TIMES = 3.0


def why_never(name: str, workload: Workload) -> str | None:
    """Why a workload's trials can never be measured in slices, whatever the plan; None if they can."""
    if not isinstance(workload, _Sliced):
        return f"the workload {name} has no client that can be paused (RunsInTurns, docs/extending.md)"
    if name in _TAILS:
        return f"the workload {name} measures the longest gap, which would be that of the slices"
    return None


def why_not(plan: Plan, workload: Workload, cells: Sequence[Cell]) -> str | None:
    """Why the cells of a condition cannot run in slices, judging only by the plan; None if they can."""
    if reason := why_never(plan.workload, workload):
        return reason
    assert isinstance(workload, _Sliced)
    if isinstance(workload, RunsInPieces):
        for cell in cells:
            if reason := workload.why_not_in_pieces(cell.levels):
                return reason
        for cell in cells:
            first, other = (workload.piece_levels(one.levels) for one in (cells[0], cell))
            for name in other:
                if other[name] != first.get(name):
                    return f"{name} differs between cells, which take turns at the same pieces, equally often"
        if plan.slice is not None and not may_stop_within_pieces([cell.levels for cell in cells]):
            return "slice: with cold caches or a limited device a slice is one whole query"
    if len(cells) < 2:
        return "there is only one cell"
    if others := [name for name in plan.instruments if name not in _OF_ONE_SERVER]:
        return f"the instrument {others[0]} measures the whole machine"
    for name, (level, reason) in _LEVELS.items():
        if name == "cache" and isinstance(workload, RunsInPieces):  # it empties them itself before each piece
            continue
        if any(cell.levels.get(name, level) != level for cell in cells):
            return f"{name}: {reason}"
    for name in (*knobs.all_knobs(), "client_cpus"):
        if name not in switched.KNOBS and len({cell.levels.get(name) for cell in cells}) > 1:
            return f"{name} applies to the whole host and differs between cells"
    for name, not_shared in _OF_MEMORY.items():
        if cells[0].levels.get(name, not_shared[0]) not in not_shared:
            return f"{name}: servers that run at the same time share the memory that each would find alone"
    scans = cells[0].levels.get("khugepaged", AS_FOUND) not in (AS_FOUND, "off")
    if scans and (names := switched.differing([cell.levels for cell in cells])):
        return f"khugepaged: it would scan paused servers in the modes of others, because {names[0]} differs"
    return _volumes(workload, cells) or _timers(plan, workload, cells)


def _volumes(workload: RunsInTurns | RunsInPieces, cells: Sequence[Cell]) -> str | None:
    """Restrictions on cells with their own volumes, or under their own memory limits."""
    for cell in cells:
        levels = cell.levels
        volume = parse_device(levels.get("device", "native"))
        if volume is not None and volume.burst is not None and volume.burst.credits:
            return "device: a volume earns credits while its cell is paused"
        if not workload.only_reads(levels):
            if device.pauses_with_cell(levels):
                if levels.get("dirty_limits", AS_FOUND) != AS_FOUND:
                    return "dirty_limits: the kernel counts the dirty memory of paused cells too"
            elif levels.get("memory", "none") != "none":
                return "memory: the kernel writes back and reclaims while the cell is paused"
        if device.needs_volume(levels):
            for name in knobs.OF_THE_DEVICE:
                if levels.get(name, AS_FOUND) != AS_FOUND:
                    return f"{name} is set on one device, but each cell has its own volume"
    return None


def may_stop_within_pieces(cells: Sequence[Levels]) -> bool:
    """Whether cells of a workload in pieces may be paused within a piece: only if all their data is in memory.
    Otherwise readahead, and the unused part of a device's limit, would be free."""
    return all(
        levels.get("cache", "warm") == "warm" and not device.is_limited(levels) and not device.needs_volume(levels)
        for levels in cells
    )


def shortest_slice(cells: Sequence[Cell]) -> float:
    """The minimum length of a slice in seconds: under a device's limit the kernel lets through a burst of up to one of
    its own intervals, at most 0.1 s (block/blk-throttle.c, throtl_slice), which has to fall into the part of a slice
    that is not counted."""
    return 1.0 if any(device.is_limited(cell.levels) for cell in cells) else USUAL


def not_here(
    workload: Workload,
    cells: Sequence[Cell],
    instruments: Collection[str] = (),
    root: Path = cgroup.ROOT,
    release: str | None = None,
) -> str | None:
    """Why this host cannot pause these cells completely, or observe one of them alone; else None. On cgroup version 2 a
    server whose memory or device is limited is only in the group with that limit."""
    if _OF_A_GROUP in instruments and (reason := profile.cannot_restrict(root=root)):
        return f"the instrument {_OF_A_GROUP} measures the whole machine: {reason}"
    freezes = child_group.groups_can_freeze(root, release)
    if (names := switched.differing([cell.levels for cell in cells])) and not freezes:
        return f"{names[0]} differs between cells, and this host has no control group in which one could be paused"
    for cell in cells:
        memory = cell.levels.get("memory", "none") != "none" and cgroup.memory_controller(root)
        if (memory and memory == cgroup.version_2("memory", root)) or device.needs_group(cell.levels, root):
            return "with cgroup v2 a server in the group of its limit cannot be paused together with its client"
        if device.pauses_with_cell(cell.levels):
            if reason := block_limit.cannot_limit(root):
                return f"device: {reason}"
            if not freezes:
                return "device: this host has no control group in which a cell could be paused with its device"
        # Idle servers would write, and process what was loaded, during the slices of others.
        if isinstance(workload, RunsInPieces) and not only_reads(workload, cell.levels) and not freezes:
            return "this host has no control group in which a load could be paused"
    return None


def _timers(plan: Plan, workload: Workload, cells: Sequence[Cell]) -> str | None:
    for cell in cells:
        settings = _settings(plan, workload, cell.levels)
        for name in _TIMEOUTS:
            if settings.get(name, "0").strip() not in _OFF:
                return f"{name} keeps running while a session is paused"
        longest = _TIMES * len(cells) * workload.seconds_asked(cell.levels)
        if checkpoint_seconds(settings) < longest:
            return f"checkpoint_timeout is shorter than a round of slices may take ({longest:.0f} s)"
    return None


@dataclass(frozen=True, slots=True)
class CellNeeds:
    """The needs of a running cell in bytes: page cache, its copy on disk, and `working`, the sorts and hash tables of
    its processes."""

    levels: Levels
    cached: int
    copy: int
    working: int = 0


def not_at_once(plan: Plan, workload: Workload, cells: Sequence[Cell]) -> str | None:
    """Why the servers of these cells cannot all run at the same time, apart from huge pages, or None."""
    needs = needs_of(plan, workload, cells)
    return no_room(needs) or too_dirty(workload, needs)


def needs_of(plan: Plan, workload: Workload, cells: Sequence[Cell]) -> list[CellNeeds]:
    """The needs of each cell, in order."""
    return [
        CellNeeds(
            cell.levels,
            _page_cache_bytes(workload, cell.levels),
            bytes_of_copy(workload, cell.levels),
            _working_bytes(plan, workload, cell.levels),
        )
        for cell in cells
    ]


def no_room(needs: Sequence[CellNeeds], proc: Path = Path("/proc")) -> str | None:
    """Why the cells are too large to run at the same time, or None."""
    wanted = sum(_memory(cell, cell.cached) for cell in needs)
    there = meminfo("MemAvailable", proc)
    if wanted > _MOST_OF_MEMORY * there:
        return (
            f"the cells together need {human_size(wanted)} of memory, more than {_MOST_OF_MEMORY:.0%} of the "
            f"{human_size(there)} available"
        )
    if reason := _beyond_commit_limit(needs, proc):
        return reason
    copies = int(_SPARE_OF_DISK * sum(cell.copy for cell in needs))
    free = shutil.disk_usage(make_directory(octavo_home() / "scratch")).free
    if copies > free:
        return f"the cells together need {human_size(copies)} of disk; {human_size(free)} is free"
    return None


def _beyond_commit_limit(needs: Sequence[CellNeeds], proc: Path) -> str | None:
    """With vm.overcommit_memory = 2 the kernel refuses allocations above CommitLimit; the page cache does not count
    (mm/overcommit-accounting.rst)."""
    if (proc / "sys/vm/overcommit_memory").read_text().strip() != "2":
        return None
    wanted = sum(_memory(cell, 0) for cell in needs)
    left = max(0, meminfo("CommitLimit", proc) - meminfo("Committed_AS", proc))
    if wanted <= left:
        return None
    return f"the cells together commit {human_size(wanted)}; vm.overcommit_memory = 2 leaves {human_size(left)}"


def room_for_huge_pages() -> int:
    """The bytes of memory that pools may use for servers that run at the same time; the rest is for their data."""
    return meminfo("MemAvailable", Path("/proc")) // 2


def most_for_huge_pages() -> int:
    """The bytes of free memory that pools may use at all; the rest keeps the host running."""
    return meminfo("MemAvailable", Path("/proc")) * 9 // 10


def too_dirty(workload: Workload, needs: Sequence[CellNeeds], proc: Path = Path("/proc")) -> str | None:
    """Why cells that write to paused devices, or that load, cannot take turns, or None.

    A paused cell's dirty pages stay dirty, so those of all cells add up; above vm.dirty_background_ratio (or _bytes)
    the kernel makes the running cell wait for paused devices, or writes to a common device while it runs
    (mm/page-writeback.c, domain_dirty_limits; vm.rst). The ratio refers to free memory and page cache, without shared
    buffers and private memory (global_dirtyable_memory).
    """
    wanted = 0
    for cell in needs:
        stays = device.pauses_with_cell(cell.levels) or isinstance(workload, RunsInPieces)
        if stays and not only_reads(workload, cell.levels):
            limit = cell.levels.get("memory", "none")
            wanted += cell.cached if limit == "none" else min(cell.cached, parse_size(limit))
    if not wanted:
        return None
    amount = int((proc / "sys/vm/dirty_background_bytes").read_bytes())
    ratio = int((proc / "sys/vm/dirty_background_ratio").read_bytes())
    servers = sum(_memory(cell, 0) for cell in needs)
    allowed = amount or max(0, meminfo("MemAvailable", proc) - servers) * ratio // 100
    if wanted <= allowed:
        return None
    return f"the cells together may have {human_size(wanted)} dirty; the kernel allows {human_size(allowed)}"


def _page_cache_bytes(workload: Workload, levels: Levels) -> int:
    """The bytes of a cell in the page cache: its database, unless it only reads one that fits its shared buffers."""
    database = workload.database_bytes(levels)
    in_buffers = database <= parse_size(levels["shared_buffers"])
    return 0 if in_buffers and only_reads(workload, levels) else database


def _working_bytes(plan: Plan, workload: Workload, levels: Levels) -> int:
    """The bytes of a cell's sorts and hash tables. All cells may hold theirs at the same time: paused in the same query
    or in the same step of a load, and while all are warmed up."""
    if not isinstance(workload, RunsInPieces):
        return 0
    settings = _settings(plan, workload, levels)
    memory_of = query_memory if only_reads(workload, levels) else maintenance_memory
    return memory_of(settings, workload.database_bytes(levels))


def _settings(plan: Plan, workload: Workload, levels: Levels) -> dict[str, str]:
    """The workload's own settings, and the plan's."""
    own = dict(workload.settings) if isinstance(workload, PinsSettings) else dict[str, str]()
    return {**own, **plan.settings_at(levels)}


def only_reads(workload: Workload, levels: Levels) -> bool:
    """Whether a cell of a workload that can be measured in slices is known to write nothing."""
    return isinstance(workload, _Sliced) and workload.only_reads(levels)


def _memory(cell: CellNeeds, cached: int) -> int:
    levels = cell.levels
    # Huge pages are already in their pool.
    buffers = parse_size(levels["shared_buffers"]) if levels.get("huge_pages", "off") == "off" else 0
    most = buffers + cached + cell.working + _SERVER_BYTES
    limit = levels.get("memory", "none")
    return most if limit == "none" else min(most, parse_size(limit) + _SERVER_BYTES)


def refuse(plan: Plan, workload: Workload, cells: Sequence[Cell]) -> None:
    """Raises UsageError for a plan that requests slices and has a condition that cannot be measured in slices."""
    if plan.interleave != "slices":
        return
    for condition, mine in by_condition(cells).items():
        if reason := why_not(plan, workload, mine):
            where = f"{condition}: " if condition else ""
            raise UsageError(f"interleave: {where}slices are not possible: {reason}; use auto or trials")

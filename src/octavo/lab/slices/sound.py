"""Where slices are sound: conditions whose cells can stand still for a while and be what they were.

docs/plan.md ("Interleaving") has the reasons in full, and what becomes of each timer.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from octavo import knobs
from octavo.errors import UsageError
from octavo.home import make_directory, octavo_home
from octavo.hugepages.pool import meminfo
from octavo.plan.cells import Cell
from octavo.plan.model import Plan
from octavo.plan.server_settings import settings_of
from octavo.units import human_size, parse_duration, parse_size
from octavo.workloads.base import Levels, RunsInTurns, Workload

# What a server has beside its buffers and its database in the page cache.
_SERVER_BYTES = 128 * 1024**2
_MOST_OF_MEMORY = 0.8
_SPARE_OF_DISK = 1.1
# Levels that a cell must have, with what would go wrong in other words.
_LEVELS = {
    "cache": ("warm", "cold caches are filled but once"),
    "wal_regime": ("after-checkpoint", "the regime steady follows the clock of checkpoints"),
    "memory": ("none", "a memory limit makes the kernel reclaim while the cell stands still"),
    "device": ("native", "a limited device saves up its tokens while the cell stands still"),
    "filesystem": ("native", "a volume of its own would be needed by each cell"),
    "page_cache": ("as-found", "a volume of its own would be needed by each cell"),
    "huge_pages": ("off", "the pool holds the pages of one server"),
    "rate": ("none", "the times at which transactions are due do not stand still"),
}
_TAILS = ("pgbench-tail",)
# Timers by which PostgreSQL ends what has waited too long: they go on while a backend stands still.
_TIMEOUTS = (
    "statement_timeout", "lock_timeout", "transaction_timeout", "idle_in_transaction_session_timeout",
    "idle_session_timeout",
)  # fmt: skip
_OFF = ("0", "")
# A checkpoint by the clock comes to cells that stand still more often than to one that runs. A round with all its
# dropped turns takes about so much longer than its cells are measured.
_TIMES = 3.0
_CHECKPOINT_SECONDS = 300.0  # PostgreSQL's own checkpoint_timeout


def why_not(plan: Plan, workload: Workload, cells: Sequence[Cell]) -> str | None:
    """Why the cells of a condition cannot run in slices, by the plan alone; None when they can."""
    if not isinstance(workload, RunsInTurns):
        return f"the workload {plan.workload} is no client that can be stopped and let go on"
    if plan.workload in _TAILS:
        return f"the workload {plan.workload} asks for how long nothing ends, which slices would decide"
    if len(cells) < 2:
        return "there is nothing to take turns with"
    if plan.instruments:
        return f"the instrument {plan.instruments[0]} watches the whole machine"
    for name, (level, reason) in _LEVELS.items():
        if any(cell.levels.get(name, level) != level for cell in cells):
            return f"{name}: {reason}"
    for name in (*knobs.all_knobs(), "client_cpus"):
        if len({cell.levels.get(name) for cell in cells}) > 1:
            return f"{name} is the whole host's, and differs between cells"
    return _timers(plan, workload, cells)


def _timers(plan: Plan, workload: Workload, cells: Sequence[Cell]) -> str | None:
    for cell in cells:
        settings = {**plan.settings, **settings_of(cell.levels)}
        for name in _TIMEOUTS:
            if settings.get(name, "0").strip() not in _OFF:
                return f"{name} goes on while a session stands still"
        longest = _TIMES * len(cells) * workload.seconds_asked(cell.levels)
        if _seconds(settings, "checkpoint_timeout", _CHECKPOINT_SECONDS) < longest:
            return f"checkpoint_timeout is shorter than a round of slices may be ({longest:.0f} s)"
    return None


def _seconds(settings: Mapping[str, str], name: str, otherwise: float) -> float:
    """A time; a number without a unit is seconds (manual, checkpoint_timeout). What cannot be read is as not set."""
    told = settings.get(name, "")
    try:
        return float(told) if told.isdecimal() else parse_duration(told)
    except UsageError:
        return otherwise


def no_room(needs: Sequence[tuple[Levels, int, int]]) -> str | None:
    """Why the cells are too large to be up at once, or None. Of each: its levels, its database, its copy in bytes."""
    wanted = sum(parse_size(levels["shared_buffers"]) + database + _SERVER_BYTES for levels, database, _ in needs)
    there = meminfo("MemAvailable", Path("/proc"))
    if wanted > _MOST_OF_MEMORY * there:
        return f"all cells at once need {human_size(wanted)} of memory, and {human_size(there)} are available"
    copies = int(_SPARE_OF_DISK * sum(copy for _, _, copy in needs))
    free = shutil.disk_usage(make_directory(octavo_home() / "scratch")).free
    if copies > free:
        return f"all cells at once need {human_size(copies)} of disk, and {human_size(free)} are free"
    return None


def refuse(plan: Plan, workload: Workload, cells: Sequence[Cell]) -> None:
    """Raises UsageError for a plan that asks for slices and has a condition that cannot be measured so."""
    if plan.interleave != "slices":
        return
    for condition in dict.fromkeys(cell.condition for cell in cells):
        mine = [cell for cell in cells if cell.condition == condition]
        if reason := why_not(plan, workload, mine):
            where = f"{condition}: " if condition else ""
            raise UsageError(f"interleave: {where}not in slices: {reason}; choose auto or trials")

"""The cells of a plan that this host cannot run, and why, determined before anything is built."""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from octavo import knobs
from octavo.errors import HostError
from octavo.home import make_directory, octavo_home
from octavo.host import cgroup, children
from octavo.host.host_class import ANY, host_class, is_of_class
from octavo.knobs.base import KnobTarget
from octavo.plan.cells import Cell
from octavo.plan.factors import HOST_CLASS, build_of
from octavo.plan.model import Plan
from octavo.postgres.builds import cross
from octavo.workloads import find
from octavo.workloads.base import NeedsOfHost, NeedsPrograms, Workload


def cannot_run(cell: Cell, directory: Path | None = None) -> str | None:
    """Why a cell cannot run: a memory limit needs root and a memory controller, a build its compiler, a knob the
    setting. None if it can.

    `directory`: on the filesystem of the data; by default Octavo's own directory, which is created.
    """
    compiler = build_of(cell.levels).compiler
    if shutil.which(compiler, path=children.PLAIN_PATH) is None:
        return f"the compiler {compiler} is not installed"
    if reason := cross.cannot_run(compiler):
        return reason
    if reason := knobs.cannot(cell.levels, KnobTarget(directory or make_directory(octavo_home()))):
        return reason
    if cell.levels["memory"] == "none":
        return None
    if os.geteuid() != 0:
        return "a memory limit needs root"
    if cgroup.memory_controller() is None:
        return "this host has no cgroup memory controller that can be used"
    return None


def class_here() -> str:
    """The class of this host with the disk under OCTAVO_HOME, which is created."""
    return host_class(make_directory(octavo_home()))


def other_class(cell: Cell, mine: str) -> str | None:
    """Why a host of this class does not measure the cell (it is for another class), or None.

    >>> other_class(Cell("a", "a", {"host_class": "arm"}, "", True, False, ""), "x86_64-4kB-nvme")
    'it is for hosts of class arm, and this one is of class x86_64-4kB-nvme'
    """
    wanted = cell.levels.get(HOST_CLASS, ANY)
    if is_of_class(mine, wanted):
        return None
    return f"it is for hosts of class {wanted}, and this one is of class {mine}"


def missing_program(workload: Workload, cell: Cell) -> str | None:
    """A missing requirement of the workload at these levels: a program from another package, or a property of the host,
    with how to get it."""
    if isinstance(workload, NeedsOfHost) and (reason := workload.cannot_run(cell.levels)):
        return reason
    if isinstance(workload, NeedsPrograms):
        for name in workload.programs(cell.levels):
            if shutil.which(name, path=children.PLAIN_PATH) is None:
                return f"{name} is not installed (Debian: {name})"
    return None


def lacking(plan: Plan, cells: Sequence[Cell]) -> dict[str, int]:
    """What this host lacks for a plan: each reason, with the number of cells that cannot run because of it. Creates
    nothing."""
    workload, home = find(plan.workload), octavo_home()
    there = next(path for path in (home, *home.parents) if path.is_dir())
    reasons = (missing_program(workload, cell) or cannot_run(cell, there) for cell in cells)
    return dict(Counter(reason for reason in reasons if reason))


def left_out(cells: Sequence[Cell], cannot: Callable[[Cell], str | None] = cannot_run) -> dict[str, str]:
    """The reason for each cell that is left out, by its id: it cannot run, or its baseline cannot."""
    reasons = {cell.id: reason for cell in cells if (reason := cannot(cell)) is not None}
    lost = {cell.condition for cell in cells if cell.baseline and cell.id in reasons}
    for cell in cells:
        if cell.condition in lost:
            reasons.setdefault(cell.id, "its baseline cannot run here")
    return reasons


def refuse_nothing_left(cells: Sequence[Cell], reasons: Mapping[str, str]) -> None:
    """Raises HostError when every cell is left out, or every one that is compared with a baseline."""
    compared = [cell for cell in cells if not cell.baseline and not cell.control] or cells
    if all(cell.id in reasons for cell in compared):
        which = "cell" if len(reasons) == len(cells) else "compared cell"
        raise HostError(f"no {which} of this plan can run on this host: {next(iter(reasons.values()))}")

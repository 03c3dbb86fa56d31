"""Which cells of a plan this host cannot run, and why: known before anything is built."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence

from octavo import knobs
from octavo.errors import HostError
from octavo.home import make_directory, octavo_home
from octavo.host import cgroup, children
from octavo.knobs.base import KnobTarget
from octavo.plan.cells import Cell
from octavo.plan.factors import build_of


def cannot_run(cell: Cell) -> str | None:
    """A memory limit needs root and a memory controller, a build its compiler; everything else runs without."""
    compiler = build_of(cell.levels).compiler
    if shutil.which(compiler, path=children.PLAIN_PATH) is None:
        return f"the compiler {compiler} is not installed"
    if reason := knobs.cannot(cell.levels, KnobTarget(make_directory(octavo_home()))):
        return reason
    if cell.levels["memory"] == "none":
        return None
    if os.geteuid() != 0:
        return "a memory limit needs root"
    if cgroup.memory_controller() is None:
        return "this host has no cgroup memory controller that can be used"
    return None


def left_out(cells: Sequence[Cell], cannot: Callable[[Cell], str | None] = cannot_run) -> dict[str, str]:
    """The reason for each cell that is left out, by its id: it cannot run, or its baseline cannot."""
    reasons = {cell.id: reason for cell in cells if (reason := cannot(cell)) is not None}
    lost = {cell.condition for cell in cells if cell.baseline and cell.id in reasons}
    for cell in cells:
        if cell.condition in lost:
            reasons.setdefault(cell.id, "its baseline cannot run here, so there is nothing to compare it with")
    return reasons


def refuse_nothing_left(cells: Sequence[Cell], reasons: Mapping[str, str]) -> None:
    """Raises HostError when every cell is left out."""
    if len(reasons) == len(cells):
        raise HostError(f"no cell of this plan can run on this host: {next(iter(reasons.values()))}")

"""The needs of a run: builds, loads, disk and time, before anything is done.

Times are rules of thumb, measured on 2 cores; the progress display corrects them from the trials as they end.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from octavo.knobs import device, fragmentation
from octavo.lab import steady
from octavo.lab.loads import bytes_copied, bytes_of_load, find_load, is_copied, loads_of
from octavo.lab.part import most_tries
from octavo.lab.round_shape import round_shape
from octavo.plan.cells import Cell
from octavo.plan.factors import build_of
from octavo.plan.model import Plan
from octavo.plan.server_settings import checkpoint_seconds
from octavo.postgres.builds.cache import find_build
from octavo.postgres.builds.spec import BuildSpec
from octavo.workloads.base import Levels, LoadsSlowly, Workload

# CPU seconds of one build, and of each further one that differs only in its sizes; a build keeps all cores busy.
_BUILD_CPU_SECONDS = 305.0
_FURTHER_BUILD_CPU_SECONDS = 37.0
_BUILD_BYTES = 60 * 1024**2
# Seconds for initdb, start and shutdown of a load, and bytes per second that one client loads, vacuums and syncs.
_LOAD_SECONDS = 1.5
_LOAD_BYTES_PER_SECOND = 350 * 1024**2
# Seconds for start, warm-up, checkpoint and stop of a trial, and bytes per second copied and read back.
_TRIAL_SECONDS = 3.0
_COPY_BYTES_PER_SECOND = 340 * 1024**2
# Checkpoint cycles until the WAL regime `steady`: the current one, two whole ones, and a part of another.
_STEADY_CYCLES = 3.5


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """The builds and loads still to be made, the bytes still to be written, and the seconds for everything.

    `again`: the number of trials of baselines and controls that a round repeats because its cells do not fit at once.
    `uncounted`: with huge pages there may be more of them. `repeat_seconds`: the most for repetitions of invalid
    trials, which no other number includes.
    """

    builds: tuple[BuildSpec, ...]
    loads: int
    disk_bytes: int
    prepare_seconds: float
    trials: int
    again: int
    uncounted: bool
    trial_seconds: float
    repeat_seconds: float

    @property
    def seconds(self) -> float:
        """The seconds of the whole run."""
        return self.prepare_seconds + self.trial_seconds


def estimate(plan: Plan, cells: Sequence[Cell], workload: Workload) -> RunEstimate:
    """The estimate for a plan on this host in its present state."""
    missing: dict[BuildSpec, None] = {}
    loads = 0
    load_bytes = 0
    load_seconds = 0.0
    trial_seconds = repeat_seconds = 0.0
    seen: set[tuple[str, int]] = set()
    shape = round_shape(plan, cells, workload)
    for cell in cells:
        spec = build_of(cell.levels)
        build = find_build(spec)
        if build is None:
            missing[spec] = None
        size = bytes_of_load(workload, cell.levels)
        for load in loads_of(cell, plan):
            there = build is not None and find_load(build, workload, cell.levels, load) is not None
            if there or (cell.dataset, load) in seen:
                continue
            seen.add((cell.dataset, load))
            loads += 1
            load_bytes += size
            load_seconds += _LOAD_SECONDS + _fill_seconds(workload, cell.levels, load, size)
        copied = bytes_copied(workload, cell.levels)
        each = workload.seconds_asked(cell.levels) + _TRIAL_SECONDS + copied / _COPY_BYTES_PER_SECOND
        each += device.probe_seconds(cell.levels) + fragmentation.seconds(cell.levels.get("fragmentation", "none"))
        if cell.levels["wal_regime"] == "steady":
            cycle = checkpoint_seconds(plan.settings_at(cell.levels))
            each += min(_STEADY_CYCLES * cycle, steady.LONGEST_SECONDS)
        trials = plan.rounds * shape.times[cell.id]
        trial_seconds += trials * each
        repeat_seconds += trials * each * (most_tries(cell) - 1)
    families = {replace(spec, data_block="8kB", wal_block="8kB", data_segment="1GB") for spec in missing}
    further = len(missing) - len(families)
    build_cpu_seconds = len(families) * _BUILD_CPU_SECONDS + further * _FURTHER_BUILD_CPU_SECONDS
    build_seconds = build_cpu_seconds / (os.cpu_count() or 1)
    return RunEstimate(
        builds=tuple(missing),
        loads=loads,
        disk_bytes=load_bytes + shape.copy_bytes + len(missing) * _BUILD_BYTES,
        prepare_seconds=build_seconds + load_seconds,
        trials=plan.rounds * sum(shape.times.values()),
        again=plan.rounds * (sum(shape.times.values()) - len(cells)),
        uncounted=shape.uncounted,
        trial_seconds=trial_seconds,
        repeat_seconds=repeat_seconds,
    )


def _fill_seconds(workload: Workload, levels: Levels, load: int, size: int) -> float:
    if is_copied(workload, levels, load):
        return size / _COPY_BYTES_PER_SECOND
    return workload.load_seconds(levels) if isinstance(workload, LoadsSlowly) else size / _LOAD_BYTES_PER_SECOND

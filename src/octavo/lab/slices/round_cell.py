"""A cell of a round in slices: creates its volume, copy, server and client step by step."""

import random
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from octavo.host import cgroup, child_group
from octavo.host.loop_volume import Volume
from octavo.host.process_table import Process, Table, growth, settled_table, tree
from octavo.instruments.running import RunningInstruments
from octavo.knobs import cpu_pinning, device
from octavo.knobs.enforcer import Enforcer
from octavo.knobs.server_group import server_group
from octavo.knobs.switched import Switches
from octavo.lab.reset import pristine_copy, reach_regime, warm_up
from octavo.lab.server_log import limited_log
from octavo.lab.slices import turns
from octavo.lab.slices.freeze import ClientFreezer, DeviceFreezer, Freezer, GroupFreezer, StandsStill
from octavo.lab.slices.pieces import PieceRunner
from octavo.lab.slices.placement import ShuffledPlacement
from octavo.lab.trial import Equipment, Trial
from octavo.postgres import cluster
from octavo.postgres.cluster import Server
from octavo.workload_support.pgbench_turns import PausablePgbench
from octavo.workloads.base import MeasuresBeforehand, RunsInPieces, RunsInTurns


@dataclass(slots=True)
class RunningClock:
    """The seconds during which a cell was not paused, for its instruments."""

    runner: turns.Runner | PieceRunner | None = None

    def now(self) -> float:
        return self.runner.ran if self.runner is not None else 0.0

    def cpu(self) -> float:
        return time.thread_time()

    def wait(self, stopped: threading.Event, seconds: float) -> bool:
        return stopped.wait(seconds)


@dataclass(slots=True)
class RoundCell:
    """A cell during its round; `error` is the reason why it dropped out."""

    name: str
    trial: Trial
    stack: ExitStack
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    error: str | None = None
    volume: Volume | None = None
    directory: Path | None = None
    server: Server | None = None
    group: Path | None = None
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    started: float = 0.0
    clock: RunningClock = field(default_factory=RunningClock)
    watching: RunningInstruments | None = None
    client: PausablePgbench | None = None
    runner: turns.Runner | None = None
    pieces: PieceRunner | None = None
    processes: Table = field(default_factory=dict[int, Process])
    read_bytes: int | None = None
    exit_code: int = 0
    client_cpu: float = 0.0


def make_volume(equipment: Equipment, cell: RoundCell) -> None:
    """Creates the private volume, if the cell's levels require one."""
    dataset = cell.trial.dataset
    content = dataset.copy_bytes + dataset.spec.wal_bytes
    cell.volume = cell.stack.enter_context(device.volume(cell.trial.levels, content, equipment.journal))


def make_copy(equipment: Equipment, cell: RoundCell) -> None:
    """Makes the pristine copy of the cell's load."""
    place = cell.volume.directory if cell.volume is not None else None
    directory, caches = cell.stack.enter_context(pristine_copy(cell.trial.dataset, equipment.journal, place))
    cell.facts |= caches
    cell.directory = directory


def start_server(equipment: Equipment, cell: RoundCell) -> None:
    """Starts the server, in a control group that can be frozen if that is available."""
    trial, directory = cell.trial, cell.directory
    assert directory is not None
    settings = equipment.settings.of(trial.dataset.build, trial.levels, directory)
    cell.group = child_group.together(equipment.journal)
    if cell.group is not None and not child_group.can_freeze(cell.group):
        child_group.remove(cell.group)
        cell.group = None
    if cell.group is not None:
        cell.stack.callback(child_group.remove, cell.group)
    memory = cell.stack.enter_context(
        server_group(trial.levels, equipment.journal, huge_page_bytes=trial.huge_page_bytes)
    )
    cell.server = server = cell.stack.enter_context(
        cluster.start(
            trial.dataset.build, directory, settings, equipment.journal, equipment.account, log=trial.log,
            memory_group=memory, below=cell.group,
        )
    )  # fmt: skip
    cell.stack.enter_context(limited_log(trial.log, lambda: server.process))
    cell.stack.callback(thaw, cell)  # before it is stopped
    if memory is not None:
        cell.facts["memory_limit_bytes"] = cgroup.achieved_limit(memory)
    cell.facts["database_bytes"] = server.query("size")[0]["bytes"]
    cell.facts["server_cpus"] = cpu_pinning.pin(server.process.pid, trial.levels["server_cpus"])
    cell.settings = server.settings()


def measure_beforehand(equipment: Equipment, cell: RoundCell) -> None:
    """Measures what the workload has to measure before the trial."""
    if isinstance(equipment.workload, MeasuresBeforehand):
        equipment.workload.beforehand(server_of(cell), cell.trial.levels)


def warm_server(equipment: Equipment, cell: RoundCell) -> None:
    """Warms up the server."""
    warm_up(server_of(cell), equipment.workload, cell.trial.levels, cell.trial.seed)


def reach(equipment: Equipment, cell: RoundCell) -> None:
    """Brings the server to its position in the checkpoint cycle."""
    server = server_of(cell)
    cell.facts |= reach_regime(server, equipment.workload, cell.trial.levels, cell.trial.seed)
    cell.started = server.query("started")[0]["started"]


def freeze(cell: RoundCell) -> None:
    """Pauses the cell's server while others are prepared in other modes; `thaw` continues it."""
    if cell.group is not None:
        GroupFreezer(cell.group).freeze()


def thaw(cell: RoundCell) -> None:
    """Continues the cell's server, if it has been started and paused."""
    if cell.group is not None:
        child_group.thaw(cell.group)


def begin(equipment: Equipment, cell: RoundCell, switches: Switches) -> None:
    """Limits the device, starts instruments and client, and then pauses the whole cell."""
    server, workload = server_of(cell), equipment.workload
    level, place, journal = cell.trial.levels["device"], cell.volume, equipment.journal
    # Here every server has ended its checkpoint, and all cells but this one are paused or idle.
    cell.facts |= device.measured(level, place, journal, server.group)
    limited = cell.stack.enter_context(
        device.limited(
            level, place, journal, server.group,
            pausable=cell.group is not None and device.pauses_with_cell(cell.trial.levels),
        )
    )  # fmt: skip
    cell.facts |= limited.facts
    own_device = cell.volume is not None

    def prepare() -> None:
        switches.to(cell.trial.levels)

    cell.watching = cell.stack.enter_context(
        equipment.observers.start(server, running=cell.clock, own_device=own_device)
    )
    if isinstance(workload, RunsInPieces):
        pieces = cell.stack.enter_context(workload.pieces(server, cell.trial.levels))
        freezer = _all_of(cell, limited.enforcer) or StandsStill()
        cell.stack.callback(freezer.thaw)
        cell.facts["stopped_between_slices"] = freezer.how
        cell.pieces = cell.clock.runner = PieceRunner(freezer, pieces, prepare=prepare)
        freezer.freeze()
        cell.processes = settled_table(server.process.pid, storage=True)
        return
    assert isinstance(workload, RunsInTurns)
    trial = cell.trial
    cell.client = cell.stack.enter_context(workload.client(server, trial.levels, trial.seed, trial.client_log))
    freezer = _all_of(cell, limited.enforcer) or ClientFreezer(cell.client.pid)
    # In any case: a paused process could not be ended by a signal.
    cell.stack.callback(freezer.thaw)
    cell.facts["stopped_between_slices"] = freezer.how
    cell.runner = cell.clock.runner = turns.Runner(freezer, cell.client, prepare=prepare)
    freezer.freeze()
    cell.processes = settled_table(server.process.pid, storage=True)


def _all_of(cell: RoundCell, limits: Enforcer | None) -> Freezer | None:
    """The freezer for all of a cell; None if it has no control group of its own."""
    if cell.group is None:
        return None
    processes = ShuffledPlacement(GroupFreezer(cell.group), random.Random(f"placement/{cell.trial.seed}"))
    return processes if limits is None else DeviceFreezer(processes, limits)


def server_of(cell: RoundCell) -> Server:
    """The cell's server, which has been started."""
    assert cell.server is not None
    return cell.server


def runner_of(cell: RoundCell) -> turns.Runner:
    """The object that runs and pauses its client."""
    assert cell.runner is not None
    return cell.runner


def read_since(before: Table, server: int) -> int | None:
    """The bytes that a server and its processes have read from storage since; None if /proc/PID/io may not be read, or
    if the server was restarted: what its former processes read was added to this process with that of other cells."""
    after = settled_table(server, storage=True)
    ours = tree(server, after)
    if server not in before or any(after[pid].read_bytes is None for pid in ours):
        return None
    read = growth(before, after, lambda process: process.read_bytes or 0)
    return round(sum(read[pid] for pid in ours))

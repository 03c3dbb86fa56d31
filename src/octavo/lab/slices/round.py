"""A round in slices: every cell's server on its pristine copy with its client, all up at once, then turns.

The order of what is made: first all copies, then all servers, so that no cell's caches are emptied for another's; then
all are warmed at the same time, for nothing is measured yet; then devices are limited and clients started, one after
the other.
"""

import math
import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg

from octavo import knobs
from octavo.errors import OctavoError
from octavo.host import cgroup, child_group, set_user_id
from octavo.host.loop_volume import Volume
from octavo.host.page_cache import cached_bytes
from octavo.host.process_table import Process, Table, growth, read_process, settled_table, tree
from octavo.instruments.running import RunningInstruments, facts_of
from octavo.knobs import cpu_pinning, device
from octavo.knobs.base import KnobTarget
from octavo.knobs.server_group import server_group
from octavo.lab.failure_reason import failure_reason
from octavo.lab.phase_timings import PhaseTimings
from octavo.lab.reset import pristine_copy, reach_regime, warm_up
from octavo.lab.server_log import limited_log
from octavo.lab.slices import turns
from octavo.lab.slices.count import DisturbanceLimits, rates_by_turn
from octavo.lab.slices.disturbance import CpuMeter
from octavo.lab.slices.effects import AfterEffects, TurnRatio, after_effects, ratio_of
from octavo.lab.slices.freeze import ClientFreezer, Freezer, GroupFreezer, StandsStill
from octavo.lab.slices.order import turns as orders_of
from octavo.lab.slices.pieces import PieceRunner, PieceTurns
from octavo.lab.slices.pieces import run as run_pieces
from octavo.lab.slices.placement import DealtAnew
from octavo.lab.slices.result import result_of, series_of
from octavo.lab.trial import Equipment, Trial, Watched
from octavo.lab.validity.surroundings import Surroundings
from octavo.plan.thresholds import Thresholds
from octavo.postgres import cluster
from octavo.postgres.cluster import Server
from octavo.units import parse_percentage
from octavo.workload_support.pgbench_turns import PausablePgbench, problems
from octavo.workloads.base import BY_SESSION, CountsBySlices, RunsInPieces, RunsInTurns

# Slices so long that a trial has no more turns than these tell nothing that trials do not.
_FEWEST_TURNS = 8


class SlowError(OctavoError):
    """The cells do so little in a moment that slices are no use."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a round is to go. `slice_seconds` is what the plan says, else what a pilot finds to be needed; `shortest` at
    the least.

    `order` seeds the order of turns; `show` is told the cells' ratios to the `baseline`, by name, while it goes on.
    """

    slice_seconds: float | None
    shortest: float
    seconds: float
    order: str
    baseline: str | None
    show: Callable[[Mapping[str, TurnRatio], float, bool], None]


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What a round gave: by cell what was watched, or why it failed; and what slices leave to those that follow."""

    cells: Mapping[str, Watched | str]
    facts: Mapping[str, Mapping[str, Any]]
    slice_seconds: float | None
    effects: AfterEffects | None


@dataclass(slots=True)
class _RunningClock:
    """Seconds for which a cell has not stood still, for its instruments."""

    runner: turns.Runner | PieceRunner | None = None

    def now(self) -> float:
        return self.runner.ran if self.runner is not None else 0.0

    def cpu(self) -> float:
        return time.thread_time()

    def wait(self, stopped: threading.Event, seconds: float) -> bool:
        return stopped.wait(seconds)


@dataclass(slots=True)
class _Cell:
    """A cell while its round goes on; `error` says why it is out."""

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
    limits: Mapping[str, Any] = field(default_factory=dict[str, Any])
    started: float = 0.0
    clock: _RunningClock = field(default_factory=_RunningClock)
    watching: RunningInstruments | None = None
    client: PausablePgbench | None = None
    runner: turns.Runner | None = None
    pieces: PieceRunner | None = None
    processes: Table = field(default_factory=dict[int, Process])
    read_bytes: int | None = None
    exit_code: int = 0
    client_cpu: float = 0.0


def measure(equipment: Equipment, trials: Mapping[str, Trial], wanted: Wanted, timings: PhaseTimings) -> RoundResult:
    """One round of these cells, of which the first is the baseline where there is one.

    A cell that fails is out, and the others go on. Raises HostError when every later trial would fail, SlowError when
    slices are no use, OctavoError when what came of the round is no cell's own.
    """
    with set_user_id.none_left(equipment.account), ExitStack() as whole:
        first = next(iter(trials.values()))
        cells = [_Cell(name, trial, whole.enter_context(ExitStack())) for name, trial in trials.items()]
        child_group.of(equipment.journal)  # before threads ask for it
        for cell in cells:  # two at once may be given the same loop device
            _try(cell, lambda cell: _volume(equipment, cell))
        _at_once(cells, lambda cell: _copy(equipment, cell))
        timings.end("copy")
        state = None
        if standing := [cell for cell in cells if cell.directory is not None]:
            place = KnobTarget(standing[0].directory or Path())
            state = whole.enter_context(knobs.applied(first.levels, equipment.journal, place))
            # Knobs are put back when the servers are gone, also where the round breaks off.
            whole.callback(_each_at_once, cells, _close)
        _at_once(cells, lambda cell: _start(equipment, cell))
        timings.end("start")
        _at_once(cells, lambda cell: _warm(equipment, cell))
        timings.end("warm")
        _at_once(cells, lambda cell: _regime(equipment, cell))
        timings.end("checkpoint")
        cpus = whole.enter_context(cpu_pinning.pinned(first.levels["client_cpus"]))
        for cell in cells:
            _try(cell, lambda cell: _begin(equipment, cell))
        running = [cell for cell in cells if cell.error is None]
        for cell in running:
            cell.facts |= {"client_cpus": cpus, "knobs": state.as_dict() if state else {}}
        timings.end("limit")
        if not running:
            return RoundResult({cell.name: cell.error or "" for cell in cells}, _facts(cells), None, None)
        in_pieces = isinstance(equipment.workload, RunsInPieces)
        done = (_turns_of_pieces if in_pieces else _turns)(equipment, running, wanted)
        for cell in running:
            cell.facts["knobs_drifted"] = state.drifted() if state else []
        judged: dict[str, Watched] = {}
        for cell in running:
            result = _result_of_pieces if in_pieces else _result
            _try(cell, lambda cell, result=result: judged.update({cell.name: result(equipment, cell, done)}))
        timings.end("measure")
        _each_at_once(cells, _close)
        found = {cell.name: cell.error or judged[cell.name] for cell in cells}
        return RoundResult(found, _facts(cells), done.pace.slice_seconds if done.pace else None, done.effects)


@dataclass(frozen=True, slots=True)
class _Done:
    pace: turns.Pace | None
    turns: turns.Turns | PieceTurns
    effects: AfterEffects | None
    surroundings: Surroundings


def _facts(cells: Sequence[_Cell]) -> dict[str, Mapping[str, Any]]:
    return {cell.name: cell.facts for cell in cells}


def _try(cell: _Cell, step: Callable[[_Cell], None]) -> None:
    """A step of a cell that is still in; an error puts it out, and ends what it has."""
    if cell.error is not None:
        return
    try:
        step(cell)
    except Exception as error:  # but what would fail every later trial
        cell.error = failure_reason(error)
        _close(cell, error)


def _close(cell: _Cell, error: Exception | None = None) -> None:
    """Ends what the cell has: with its error, so that what ends may know a full disk by it and stop the run."""
    try:
        cell.stack.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
    except Exception as worse:
        cell.error = failure_reason(worse)


def _at_once(cells: Sequence[_Cell], step: Callable[[_Cell], None]) -> None:
    """The step of all cells that are still in at the same time."""
    _each_at_once(cells, lambda cell: _try(cell, step))


def _each_at_once(cells: Sequence[_Cell], do: Callable[[_Cell], None]) -> None:
    with ThreadPoolExecutor(max_workers=max(1, len(cells))) as pool:
        for future in [pool.submit(do, cell) for cell in cells]:
            future.result()


def _volume(equipment: Equipment, cell: _Cell) -> None:
    dataset = cell.trial.dataset
    content = dataset.copy_bytes + dataset.spec.wal_bytes
    cell.volume = cell.stack.enter_context(device.volume(cell.trial.levels, content, equipment.journal))


def _copy(equipment: Equipment, cell: _Cell) -> None:
    place = cell.volume.directory if cell.volume is not None else None
    directory, caches = cell.stack.enter_context(pristine_copy(cell.trial.dataset, equipment.journal, place))
    cell.facts |= caches
    cell.directory = directory


def _start(equipment: Equipment, cell: _Cell) -> None:
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
    if memory is not None:
        cell.facts["memory_limit_bytes"] = cgroup.achieved_limit(memory)
    cell.facts["database_bytes"] = server.query("size")[0]["bytes"]
    cell.facts["server_cpus"] = cpu_pinning.pin(server.process.pid, trial.levels["server_cpus"])
    cell.settings = server.settings()


def _warm(equipment: Equipment, cell: _Cell) -> None:
    warm_up(_server(cell), equipment.workload, cell.trial.levels, cell.trial.seed)


def _regime(equipment: Equipment, cell: _Cell) -> None:
    server = _server(cell)
    cell.facts |= reach_regime(server, equipment.workload, cell.trial.levels, cell.trial.seed)
    cell.started = server.query("started")[0]["started"]


def _begin(equipment: Equipment, cell: _Cell) -> None:
    """The device is limited, the instruments look, the client starts, and then all of the cell stands still."""
    server, workload = _server(cell), equipment.workload
    limited = device.limited(cell.trial.levels["device"], cell.volume, equipment.journal, server.group)
    cell.limits = cell.stack.enter_context(limited)
    cell.facts |= cell.limits
    own_device = cell.volume is not None
    cell.watching = cell.stack.enter_context(
        equipment.observers.start(server, running=cell.clock, own_device=own_device)
    )
    if isinstance(workload, RunsInPieces):
        pieces = cell.stack.enter_context(workload.pieces(server, cell.trial.levels))
        freezer = _dealt_anew(cell) or StandsStill()
        cell.stack.callback(freezer.thaw)
        cell.facts["stopped_between_slices"] = freezer.how
        cell.pieces = cell.clock.runner = PieceRunner(freezer, pieces)
        freezer.freeze()
        cell.processes = settled_table(server.process.pid, storage=True)
        return
    assert isinstance(workload, RunsInTurns)
    output = cell.trial.log.with_suffix("").with_suffix(".client.log")
    cell.client = cell.stack.enter_context(workload.client(server, cell.trial.levels, cell.trial.seed, output))
    freezer = _dealt_anew(cell) or ClientFreezer(cell.client.pid)
    # However the round ends: what stands still could not be ended by a signal.
    cell.stack.callback(freezer.thaw)
    cell.facts["stopped_between_slices"] = freezer.how
    cell.runner = cell.clock.runner = turns.Runner(freezer, cell.client)
    freezer.freeze()
    cell.processes = settled_table(server.process.pid, storage=True)


def _dealt_anew(cell: _Cell) -> Freezer | None:
    """What stops all of a cell; None where it has no control group of its own."""
    if cell.group is None:
        return None
    return DealtAnew(GroupFreezer(cell.group), random.Random(f"placement/{cell.trial.seed}"))


def _server(cell: _Cell) -> Server:
    assert cell.server is not None
    return cell.server


def _runner(cell: _Cell) -> turns.Runner:
    assert cell.runner is not None
    return cell.runner


def _turns(equipment: Equipment, cells: Sequence[_Cell], wanted: Wanted) -> _Done:
    clock, runners = turns.Monotonic(), [_runner(cell) for cell in cells]
    rate = turns.pilot(runners, clock)
    seconds = max(wanted.shortest, wanted.slice_seconds or turns.slice_for(rate, wanted.shortest))
    if wanted.seconds < _FEWEST_TURNS * seconds:
        raise SlowError(
            f"a slice would have to last {seconds:.1f} s, and {wanted.seconds:g} s of measuring are {_FEWEST_TURNS} "
            "slices at the least"
        )
    pace = turns.Pace(seconds, wanted.seconds, limits_of(equipment.thresholds))

    def show(so_far: turns.Turns, *, ended: bool = False) -> None:
        rates = rates_by_turn([runner.tally for runner in runners], _common(runners, so_far.kept))
        of = next((place for place, cell in enumerate(cells) if cell.name == wanted.baseline), None)
        found = {cell.name: ratio_of(rates, place, of) for place, cell in enumerate(cells) if of not in (None, place)}
        wanted.show(
            {name: ratio for name, ratio in found.items() if ratio is not None},
            min(1.0, len(so_far.kept) * seconds / wanted.seconds),
            ended,
        )

    watch = equipment.watcher.start(_server(cells[0]).directory)
    done = turns.run(runners, orders_of(len(runners), wanted.order), pace, CpuMeter(), clock, show)
    surroundings = watch()
    for cell in cells:
        _try(cell, _end)
    show(done, ended=True)
    effects = None
    whole = sorted(_common(runners, done.kept))
    if all(len(order) == len(runners) for order in done.orders):
        effects = after_effects(rates_by_turn([one.tally for one in runners], set(whole)), done.orders, whole)
    # CPU is judged turn by turn instead; the means are facts of each trial. What others read and wrote meanwhile met
    # every cell alike.
    surroundings = replace(surroundings, foreign_cpu_share=None, foreign_read_bytes=None, foreign_written_bytes=None)
    return _Done(pace, done, effects, surroundings)


def _turns_of_pieces(equipment: Equipment, cells: Sequence[_Cell], wanted: Wanted) -> _Done:
    """The same for trials of pieces, each of which takes as long as it takes."""
    runners = [cell.pieces for cell in cells if cell.pieces is not None]
    names = runners[0].pieces.names
    base = next((place for place, cell in enumerate(cells) if cell.name == wanted.baseline), None)

    def show(so_far: PieceTurns, *, ended: bool = False) -> None:
        found = {cell.name: ratio_of(so_far.seconds, place, base) for place, cell in enumerate(cells)
                 if base not in (None, place)}  # fmt: skip
        told = {name: ratio for name, ratio in found.items() if ratio is not None}
        wanted.show(told, so_far.kept / len(names), ended)

    watch = equipment.watcher.start(_server(cells[0]).directory)
    orders = orders_of(len(runners), wanted.order)
    done = run_pieces(runners, names, orders, limits_of(equipment.thresholds), CpuMeter(), turns.Monotonic(), show)
    surroundings = watch()
    for cell, runner in zip(cells, runners, strict=True):
        cell.read_bytes = _read_since(cell.processes, _server(cell).process.pid)
        runner.freezer.thaw()
    show(done, ended=True)
    surroundings = replace(surroundings, foreign_cpu_share=None, foreign_read_bytes=None, foreign_written_bytes=None)
    return _Done(None, done, None, surroundings)


def _common(runners: Sequence[turns.Runner], kept: set[int]) -> set[int]:
    return kept.intersection(*({one.turn for one in runner.tally.slices} for runner in runners))


def _end(cell: _Cell) -> None:
    """The client finishes what it has begun; from here on the server runs for its last readings."""
    runner, client = _runner(cell), cell.client
    assert client is not None
    if (process := read_process(client.pid)) is not None:
        cell.client_cpu = process.cpu
    cell.read_bytes = _read_since(cell.processes, _server(cell).process.pid)
    runner.freezer.thaw()
    cell.exit_code, rest = client.end()
    runner.tally.add(rest)


def limits_of(thresholds: Thresholds) -> DisturbanceLimits:
    """What drops a turn, by the plan's thresholds; a tick of one CPU may be anybody's."""
    tick = 1 / (os.sysconf("SC_CLK_TCK") * (os.cpu_count() or 1))
    return DisturbanceLimits(
        parse_percentage(thresholds.most_steal), parse_percentage(thresholds.most_foreign_cpu), tick
    )


def _result(equipment: Equipment, cell: _Cell, done: _Done) -> Watched:
    """The cell's slices as a trial; what breaks off here leaves the trial to the rules of validity."""
    server, runner, client, watching = _server(cell), _runner(cell), cell.client, cell.watching
    assert client is not None and watching is not None
    assert done.pace is not None and isinstance(done.turns, turns.Turns)
    tally, kept = runner.tally, done.turns.kept
    surroundings = _of_cell(cell, done.surroundings)
    result = result_of(
        tally, kept, asked=done.pace.wanted_seconds, cpu_seconds=cell.client_cpu,
        problems=problems(cell.exit_code, client.output), output=client.output,
    )  # fmt: skip
    # The instruments saw the client's whole life, its pilot included.
    seen = watching.finish(replace(result, transactions=tally.all_transactions))
    seen = replace(seen, series=(series_of(tally, kept), *seen.series))
    if isinstance(equipment.workload, CountsBySlices):
        result = replace(result, facts={BY_SESSION: client.by_session})
        more = equipment.workload.of_slices(cell.trial.levels, result, seen.observations)
        result = replace(result, observations=(*more, *result.observations))
    cell.facts |= {
        **facts_of(seen), "surroundings": asdict(surroundings), **_slice_facts(runner, done)
    }  # fmt: skip
    started_after: float | None = None
    with suppress(OctavoError, psycopg.Error):
        started_after = server.query("started")[0]["started"]
    return equipment.watched(
        server, cell.trial, cell.facts, cell.settings, result, seen, surroundings, cell.started, started_after
    )


def _result_of_pieces(equipment: Equipment, cell: _Cell, done: _Done) -> Watched:
    """The cell's pieces as a trial. Raises OctavoError with why the cell is out."""
    server, runner, watching = _server(cell), cell.pieces, cell.watching
    assert runner is not None and watching is not None and isinstance(done.turns, PieceTurns)
    if runner.error is not None:
        raise OctavoError(runner.error)
    surroundings = _of_cell(cell, done.surroundings)
    result = runner.pieces.result()
    cell.trial.log.with_suffix("").with_suffix(".client.log").write_text(result.output)
    seen = watching.finish(result)
    cell.facts |= {
        **result.facts, **facts_of(seen), "surroundings": asdict(surroundings), **done.turns.facts(),
        "ran_seconds": round(runner.ran, 3),
    }  # fmt: skip
    started_after: float | None = None
    with suppress(OctavoError, psycopg.Error):
        started_after = server.query("started")[0]["started"]
    return equipment.watched(
        server, cell.trial, cell.facts, cell.settings, result, seen, surroundings, cell.started, started_after
    )


def _read_since(before: Table, server: int) -> int | None:
    """What a server and its processes read from storage since; None where /proc/PID/io may not be read."""
    after = settled_table(server, storage=True)
    ours = tree(server, after)
    if any(after[pid].read_bytes is None for pid in ours):
        return None
    read = growth(before, after, lambda process: process.read_bytes or 0)
    return round(sum(read[pid] for pid in ours))


def _of_cell(cell: _Cell, all_cells: Surroundings) -> Surroundings:
    """With what a cell's own processes and memory group say of it alone."""
    mine, server = replace(all_cells, own_read_bytes=cell.read_bytes), _server(cell)
    if "memory_limit_bytes" in cell.facts and server.group is not None:
        cell.facts["memory_limit_shared_bytes"] = cgroup.shared_bytes(server.group)
        try:
            mine = replace(mine, cached_bytes=cached_bytes(server.directory))
        except OSError as error:
            reason = f"the kernel does not say what is cached ({error.strerror})"
            mine = replace(mine, blind={**mine.blind, "memory_limit": reason})
    return mine


def _slice_facts(runner: turns.Runner, done: _Done) -> dict[str, Any]:
    slices, effects = runner.tally.slices, done.effects
    assert done.pace is not None and isinstance(done.turns, turns.Turns)
    facts: dict[str, Any] = {
        "interleave": "slices",
        "slice_seconds": done.pace.slice_seconds,
        "turns": len(done.turns.orders),
        "turns_dropped": len(done.turns.orders) - len(done.turns.kept),
        "turns_disturbed": done.turns.disturbed,
        "ran_seconds": round(runner.ran, 3),
    }
    if slices:
        facts["steal_share"] = math.fsum(one.steal for one in slices) / len(slices)
        facts["foreign_cpu_share"] = math.fsum(one.foreign for one in slices) / len(slices)
    if effects is not None:
        facts |= {
            "carry_over": effects.carry_over,
            "carry_over_error": effects.error,
            "turns_autocorrelation": effects.autocorrelation,
        }
    return facts

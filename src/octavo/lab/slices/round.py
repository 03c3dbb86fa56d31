"""A round in slices: starts every cell's server on its pristine copy, and its client, then runs the turns.

First it makes all copies, then it starts all servers, so that no cell's caches are emptied for another's. What the
workload measures before a trial follows, one cell after the other. Then it warms up all at the same time, because
nothing is measured yet. Then it limits the devices and starts the clients, one after the other.
The order of cells in these steps is drawn anew for each round.

Cells with different modes of transparent huge pages (`knobs.switched`) do all this in their own modes, one cell after
the other, with the other servers paused.
"""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from octavo import knobs
from octavo.errors import OctavoError
from octavo.host import child_group, set_user_id
from octavo.host.process_table import read_process
from octavo.knobs import cpu_pinning, switched
from octavo.knobs.base import KnobTarget
from octavo.lab.failure_reason import failure_reason
from octavo.lab.phase_timings import PhaseTimings
from octavo.lab.slices import turns
from octavo.lab.slices.ageing import ages_slowly
from octavo.lab.slices.count import DisturbanceLimits, rates_by_turn
from octavo.lab.slices.disturbance import CpuMeter
from octavo.lab.slices.effects import AfterEffects, TurnRatio, after_effects, ratio_of, total_ratio_of
from octavo.lab.slices.eligibility import may_stop_within_pieces, only_reads
from octavo.lab.slices.freeze import StandsStill
from octavo.lab.slices.order import preparation
from octavo.lab.slices.order import turns as orders_of
from octavo.lab.slices.pieces import PieceTurns
from octavo.lab.slices.pieces import run as run_pieces
from octavo.lab.slices.round_cell import (
    RoundCell,
    begin,
    freeze,
    make_copy,
    make_volume,
    measure_beforehand,
    reach,
    read_since,
    runner_of,
    server_of,
    start_server,
    thaw,
    warm_server,
)
from octavo.lab.slices.round_result import TurnsDone, result_of_pieces, result_of_turns
from octavo.lab.trial import Equipment, Trial, WatchedTrial
from octavo.plan.thresholds import Thresholds
from octavo.units import parse_percentage
from octavo.workloads.base import RunsInPieces

# With slices so long that a trial has no more turns than this, slices are no better than sequential trials.
_FEWEST_TURNS = 8
# Short compared with the seconds for which a machine is fast or slow, and long compared with refilling cold caches.
_SLICE_OF_A_PIECE = 0.1


class SlowError(OctavoError):
    """The cells are too slow for slices."""


@dataclass(frozen=True, slots=True)
class SliceRequest:
    """The parameters of a round. `slice_seconds` is the plan's, else determined by a pilot, and at least `shortest`.

    `order` seeds the order of turns; `show` gets the cells' ratios to the `baseline`, by name, while the round runs.
    """

    slice_seconds: float | None
    shortest: float
    seconds: float
    order: str
    baseline: str | None
    show: Callable[[Mapping[str, TurnRatio], float, bool], None]


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of a round: by cell, the watched trial or why it failed; and the carry-over between slices."""

    cells: Mapping[str, WatchedTrial | str]
    facts: Mapping[str, Mapping[str, Any]]
    slice_seconds: float | None
    effects: AfterEffects | None


def measure(
    equipment: Equipment, trials: Mapping[str, Trial], wanted: SliceRequest, timings: PhaseTimings
) -> RoundResult:
    """Runs one round of these cells, of which the first is the baseline if there is one.

    A cell that fails drops out, and the others continue. Raises HostError when every later trial would fail, SlowError
    when slices are no use, OctavoError for errors that belong to the round and not to a cell.
    """
    with set_user_id.none_left(equipment.account), ExitStack() as whole:
        first = next(iter(trials.values()))
        cells = [RoundCell(name, trial, whole.enter_context(ExitStack())) for name, trial in trials.items()]
        prepared = [cells[place] for place in preparation(len(cells), wanted.order)]
        child_group.of(equipment.journal)  # before threads request it
        for cell in prepared:  # two at once may get the same loop device
            _try(cell, lambda cell: make_volume(equipment, cell))
        _at_once(prepared, lambda cell: make_copy(equipment, cell))
        timings.end("copy")
        state, switches = None, switched.Switches({})
        if standing := [cell for cell in cells if cell.directory is not None]:
            place = KnobTarget((standing[0].directory or Path()).parent)  # the copy itself is the account's
            every = [cell.trial.levels for cell in standing]
            alike = {name: level for name, level in every[0].items() if name not in switched.differing(every)}
            state = whole.enter_context(knobs.applied(alike, equipment.journal, place))
            switches = whole.enter_context(switched.switches(every, equipment.journal, place))
            # Knobs are restored after the servers have ended, also when the round is aborted.
            whole.callback(each_at_once, cells, _close)
        _in_modes(prepared, switches, lambda cell: start_server(equipment, cell))
        timings.end("start")
        for cell in prepared:  # at the same time each would be measured under the load of the others
            _in_modes([cell], switches, lambda cell: measure_beforehand(equipment, cell))
        _in_modes(prepared, switches, lambda cell: warm_server(equipment, cell))
        timings.end("warm")
        _in_modes(prepared, switches, lambda cell: reach(equipment, cell))
        timings.end("checkpoint")
        cpus = whole.enter_context(cpu_pinning.pinned(first.levels["client_cpus"]))
        for cell in prepared:
            _in_modes([cell], switches, lambda cell: begin(equipment, cell, switches))
        running = [cell for cell in cells if cell.error is None]
        for cell in running:
            values = (state.as_dict() if state else {}) | switches.facts(cell.trial.levels)
            cell.facts |= {"client_cpus": cpus, "knobs": values}
        timings.end("limit")
        if not running:
            return RoundResult({cell.name: cell.error or "" for cell in cells}, _facts(cells), None, None)
        in_pieces = isinstance(equipment.workload, RunsInPieces)
        if not all(only_reads(equipment.workload, cell.trial.levels) for cell in running):
            age = whole.enter_context(ages_slowly(len(running), equipment.journal))
            for cell in running:
                cell.facts["dirty_expire_centisecs"] = age
        done = (_turns_of_pieces if in_pieces else _turns)(equipment, running, wanted)
        for cell in running:
            cell.facts["knobs_drifted"] = [*(state.drifted() if state else []), *switches.drifted()]
        judged: dict[str, WatchedTrial] = {}
        for cell in running:
            result = result_of_pieces if in_pieces else result_of_turns
            _try(cell, lambda cell, result=result: judged.update({cell.name: result(equipment, cell, done)}))
        timings.end("measure")
        each_at_once(cells, _close)
        found = {cell.name: cell.error or judged[cell.name] for cell in cells}
        return RoundResult(found, _facts(cells), done.pace.slice_seconds if done.pace else None, done.effects)


def _facts(cells: Sequence[RoundCell]) -> dict[str, Mapping[str, Any]]:
    return {cell.name: cell.facts for cell in cells}


def _try(cell: RoundCell, step: Callable[[RoundCell], None]) -> None:
    """Runs a step of a cell that has not dropped out. An error drops it out and closes what it has."""
    if cell.error is not None:
        return
    try:
        step(cell)
    except Exception as error:  # except one that would fail every later trial
        cell.error = failure_reason(error)
        _close(cell, error)


def _close(cell: RoundCell, error: Exception | None = None) -> None:
    """Closes what the cell has, with its error, so that the cleanup can recognise a full disk and stop the run."""
    try:
        cell.stack.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
    except Exception as worse:
        cell.error = failure_reason(worse)


def _at_once(cells: Sequence[RoundCell], step: Callable[[RoundCell], None]) -> None:
    """Runs the step of all remaining cells at the same time."""
    each_at_once(cells, lambda cell: _try(cell, step))


def _one_or_more(cells: Sequence[RoundCell], step: Callable[[RoundCell], None]) -> None:
    """Runs the step of one cell in this thread, of several at the same time."""
    if len(cells) == 1:
        _try(cells[0], step)
    else:
        _at_once(cells, step)


def _in_modes(cells: Sequence[RoundCell], switches: switched.Switches, step: Callable[[RoundCell], None]) -> None:
    """Runs the step of all remaining cells at the same time. Where modes are switched, one cell after the other, also
    those with the same modes: each is prepared with the whole machine, and paused before and after."""
    if not switches.by_knob:
        _one_or_more(cells, step)
        return
    for cell in cells:
        if cell.error is None:
            switches.to(cell.trial.levels)
            for each in (thaw, step, freeze):
                _try(cell, each)


def each_at_once(cells: Sequence[RoundCell], do: Callable[[RoundCell], None]) -> None:
    """Runs `do` for all cells at the same time."""
    with ThreadPoolExecutor(max_workers=max(1, len(cells))) as pool:
        steps = [pool.submit(do, cell) for cell in cells]
        try:
            for step in steps:
                step.result()
        except BaseException:  # an interrupt: a thread that waits for a query ends with its server
            for cell in cells:
                if cell.server is not None and cell.server.is_alive():
                    cell.server.process.send_signal(signal.SIGQUIT)
            raise


def _turns(equipment: Equipment, cells: Sequence[RoundCell], wanted: SliceRequest) -> TurnsDone:
    clock, runners = turns.Monotonic(), [runner_of(cell) for cell in cells]
    rate = turns.pilot(runners, clock)
    seconds = max(wanted.shortest, wanted.slice_seconds or turns.slice_for(rate, wanted.shortest))
    if wanted.seconds < _FEWEST_TURNS * seconds:
        raise SlowError(
            f"a slice would have to last {seconds:.1f} s, but {wanted.seconds:g} s of measuring must hold at least "
            f"{_FEWEST_TURNS} slices"
        )
    pace = turns.Pace(seconds, wanted.seconds, limits_of(equipment.thresholds))

    def show(so_far: turns.Turns, *, ended: bool = False) -> None:
        rates = rates_by_turn([runner.tally for runner in runners], _common(runners, so_far.kept))
        share = min(1.0, len(so_far.kept) * seconds / wanted.seconds)
        wanted.show(_ratios(cells, wanted.baseline, lambda place, base: ratio_of(rates, place, base)), share, ended)

    watch = equipment.watcher.start(server_of(cells[0]).directory)
    with CpuMeter() as meter:
        done = turns.run(runners, orders_of(len(runners), wanted.order), pace, meter, clock, show)
    surroundings = watch()
    for cell in cells:
        _try(cell, _end)
    show(done, ended=True)
    effects = None
    whole = sorted(_common(runners, done.kept))
    if all(len(order) == len(runners) for order in done.orders):
        effects = after_effects(rates_by_turn([one.tally for one in runners], set(whole)), done.orders, whole)
    # CPU is judged turn by turn instead; the means are facts of each trial. Foreign reads and writes affected every
    # cell equally.
    surroundings = replace(surroundings, foreign_cpu_share=None, foreign_read_bytes=None, foreign_written_bytes=None)
    return TurnsDone(pace, done, effects, surroundings)


def _turns_of_pieces(equipment: Equipment, cells: Sequence[RoundCell], wanted: SliceRequest) -> TurnsDone:
    """The same for trials of pieces, each of which takes as long as it needs: in slices if every cell can be paused
    within a piece."""
    runners = [cell.pieces for cell in cells if cell.pieces is not None]
    items = runners[0].pieces.items

    def show(so_far: PieceTurns, *, ended: bool = False) -> None:
        totals = so_far.totals()
        found = _ratios(cells, wanted.baseline, lambda place, base: total_ratio_of(totals, place, base))
        wanted.show(found, so_far.items / len(items), ended)

    levels = [cell.trial.levels for cell in cells]
    within = may_stop_within_pieces(levels) and not any(isinstance(runner.freezer, StandsStill) for runner in runners)
    seconds = (wanted.slice_seconds or _SLICE_OF_A_PIECE) if within else None
    watch = equipment.watcher.start(server_of(cells[0]).directory)
    orders = orders_of(len(runners), wanted.order)
    limits = limits_of(equipment.thresholds)
    with CpuMeter() as meter:
        done = run_pieces(runners, items, orders, seconds, limits, meter, turns.Monotonic(), show)
    surroundings = watch()
    for cell in cells:
        _try(cell, _resume)
    show(done, ended=True)
    surroundings = replace(surroundings, foreign_cpu_share=None, foreign_read_bytes=None, foreign_written_bytes=None)
    return TurnsDone(None, done, None, surroundings)


def _ratios(
    cells: Sequence[RoundCell], baseline: str | None, ratio: Callable[[int, int], TurnRatio | None]
) -> dict[str, TurnRatio]:
    """Each cell's ratio to the baseline so far, by name, if there is a baseline. `ratio` computes it from their
    indexes."""
    names = [cell.name for cell in cells]
    if baseline not in names:
        return {}
    base = names.index(baseline)
    found = {name: ratio(place, base) for place, name in enumerate(names) if place != base}
    return {name: one for name, one in found.items() if one is not None}


def _common(runners: Sequence[turns.Runner], kept: set[int]) -> set[int]:
    return kept.intersection(*({one.turn for one in runner.tally.slices} for runner in runners))


def _end(cell: RoundCell) -> None:
    """Lets the client complete what it has begun."""
    runner, client = runner_of(cell), cell.client
    assert client is not None
    if (process := read_process(client.pid)) is not None:
        cell.client_cpu = process.cpu
    _resume(cell)
    cell.exit_code, rest = client.end()
    runner.tally.add(rest)


def _resume(cell: RoundCell) -> None:
    """From here on the server runs for its last readings."""
    assert cell.watching is not None and cell.clock.runner is not None
    cell.watching.sample_gauges()  # of the server with all its clients
    cell.read_bytes = read_since(cell.processes, server_of(cell).process.pid)
    cell.clock.runner.prepare()
    cell.clock.runner.freezer.thaw()


def limits_of(thresholds: Thresholds) -> DisturbanceLimits:
    """The limits beyond which a turn is dropped, from the plan's thresholds. One tick of one CPU may be chance."""
    tick = 1 / (os.sysconf("SC_CLK_TCK") * (os.cpu_count() or 1))
    return DisturbanceLimits(
        parse_percentage(thresholds.most_steal), parse_percentage(thresholds.most_foreign_cpu), tick
    )

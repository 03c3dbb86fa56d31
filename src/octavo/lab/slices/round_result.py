"""The result of the turns of a round for each cell: an ordinary trial, with facts about its slices."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from octavo.errors import OctavoError
from octavo.host import cgroup
from octavo.host.page_cache import cached_bytes
from octavo.instruments.running import facts_of
from octavo.lab.slices import turns
from octavo.lab.slices.effects import AfterEffects
from octavo.lab.slices.pieces import PieceTurns
from octavo.lab.slices.result import result_of, series_of
from octavo.lab.slices.round_cell import RoundCell, runner_of, server_of
from octavo.lab.trial import Equipment, WatchedTrial
from octavo.lab.validity.surroundings import Surroundings
from octavo.workload_support.pgbench_turns import problems
from octavo.workloads.base import COUNTED, CountsBySlices


@dataclass(frozen=True, slots=True)
class TurnsDone:
    """The turns of a round, their pace (None for pieces), their carry-over, and other activity meanwhile."""

    pace: turns.Pace | None
    turns: turns.Turns | PieceTurns
    effects: AfterEffects | None
    surroundings: Surroundings


def result_of_turns(equipment: Equipment, cell: RoundCell, done: TurnsDone) -> WatchedTrial:
    """The cell's slices as a trial. If the client broke off, the validity rules judge the trial."""
    server, runner, client, watching = server_of(cell), runner_of(cell), cell.client, cell.watching
    assert client is not None and watching is not None
    assert done.pace is not None and isinstance(done.turns, turns.Turns)
    tally, kept = runner.tally, done.turns.kept
    surroundings = _of_cell(cell, done.surroundings)
    result = result_of(
        tally, kept, asked=done.pace.wanted_seconds, cpu_seconds=cell.client_cpu,
        problems=problems(cell.exit_code, client.output), output=client.output,
    )  # fmt: skip
    # The instruments observed the client's whole run, including its pilot.
    seen = watching.finish(replace(result, transactions=tally.all_transactions))
    seen = replace(seen, series=(series_of(tally, kept), *seen.series))
    if isinstance(equipment.workload, CountsBySlices):
        result = replace(result, facts={COUNTED: client.counted})
        more = equipment.workload.of_slices(cell.trial.levels, result, seen.observations)
        primary = equipment.workload.metrics[0].name
        observations = sorted((*more, *result.observations), key=lambda one: one.metric != primary)
        result = replace(result, observations=tuple(observations))
    cell.facts |= {
        **facts_of(seen), "surroundings": asdict(surroundings), **_slice_facts(runner, done)
    }  # fmt: skip
    return equipment.watched(server, cell.trial, cell.facts, cell.settings, result, seen, surroundings, cell.started)


def result_of_pieces(equipment: Equipment, cell: RoundCell, done: TurnsDone) -> WatchedTrial:
    """The cell's pieces as a trial. Raises OctavoError with the reason if the cell dropped out."""
    server, runner, watching = server_of(cell), cell.pieces, cell.watching
    assert runner is not None and watching is not None and isinstance(done.turns, PieceTurns)
    if runner.error is not None:
        raise OctavoError(runner.error)
    surroundings = _of_cell(cell, done.surroundings)
    result = runner.pieces.result()
    cell.trial.client_log.write_text(result.output)
    seen = watching.finish(result)
    cell.facts |= {
        **result.facts, **facts_of(seen), "surroundings": asdict(surroundings), **done.turns.facts(),
        "ran_seconds": round(runner.ran, 3),
    }  # fmt: skip
    return equipment.watched(server, cell.trial, cell.facts, cell.settings, result, seen, surroundings, cell.started)


def _of_cell(cell: RoundCell, all_cells: Surroundings) -> Surroundings:
    """The surroundings with the figures of the cell's own processes and memory group."""
    mine, server = replace(all_cells, own_read_bytes=cell.read_bytes), server_of(cell)
    if "memory_limit_bytes" in cell.facts and server.group is not None:
        cell.facts["memory_limit_shared_bytes"] = cgroup.shared_bytes(server.group)
        try:
            mine = replace(mine, cached_bytes=cached_bytes(server.directory))
        except OSError as error:
            reason = f"the kernel does not report what is cached ({error.strerror})"
            mine = replace(mine, blind={**mine.blind, "memory_limit": reason})
    return mine


def _slice_facts(runner: turns.Runner, done: TurnsDone) -> dict[str, Any]:
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

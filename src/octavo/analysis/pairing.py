"""Which trials count, and the log ratios to the baseline within each round."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from octavo.plan.cells import Cell
from octavo.store.records import TrialRecord

# (item, metric)
Key = tuple[str | None, str]


@dataclass(frozen=True, slots=True)
class LogRatio:
    """The natural logarithm of cell / baseline in one round."""

    round: int
    load: int
    value: float


def used_trials(trials: Sequence[TrialRecord]) -> dict[tuple[int, str], TrialRecord]:
    """By round and cell the trial that counts: the valid one of the round's last attempt, the latest if retried."""
    last_attempt: dict[int, int] = {}
    for trial in trials:
        last_attempt[trial.round] = max(last_attempt.get(trial.round, 0), trial.attempt)
    return {
        (trial.round, trial.cell): trial
        for trial in trials
        if trial.status == "ok" and trial.attempt == last_attempt[trial.round]
    }


def values_of(trial: TrialRecord) -> dict[Key, float]:
    """Each observed number of a trial by item and metric; repetitions as their mean."""
    collected: dict[Key, list[float]] = {}
    for observation in trial.observations:
        collected.setdefault((observation.item, observation.metric), []).append(observation.value)
    return {key: math.fsum(values) / len(values) for key, values in collected.items()}


def log_ratios(cells: Sequence[Cell], trials: Sequence[TrialRecord]) -> dict[str, dict[Key, list[LogRatio]]]:
    """For every cell but the baselines: its log ratios to the baseline of its condition, in the order of rounds.

    A ratio is taken within a round, so what drifts between rounds cancels. A round in which either side has
    no valid trial gives none. A number that is zero in any round has no ratios at all: those of the other
    rounds would be a selection.
    """
    used = used_trials(trials)
    baselines = {cell.condition: cell.id for cell in cells if cell.baseline}
    values = {place: values_of(trial) for place, trial in used.items()}
    result: dict[str, dict[Key, list[LogRatio]]] = {}
    for cell in cells:
        if cell.baseline or cell.condition not in baselines:
            continue
        ratios: dict[Key, list[LogRatio]] = {}
        zeros: set[Key] = set()
        for (round_number, cell_id), trial in sorted(used.items()):
            below = values.get((round_number, baselines[cell.condition]))
            if cell_id != cell.id or below is None:
                continue
            for key, value in values[round_number, cell_id].items():
                if value > 0 and below.get(key, 0) > 0:
                    ratios.setdefault(key, []).append(LogRatio(round_number, trial.load, math.log(value / below[key])))
                else:
                    zeros.add(key)
        for key in zeros:
            ratios.pop(key, None)
        result[cell.id] = ratios
    return result

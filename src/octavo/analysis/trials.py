"""Which trials count, and the numbers they gave."""

import math
from collections.abc import Iterable, Mapping

from octavo.store.records import TrialRecord

# (item, metric)
Key = tuple[str | None, str]
# (round, part of the round, cell): a comparison is made within a part.
TrialKey = tuple[int, int, str]

# A cell that failed in each of its first rounds is not tried again.
_ROUNDS_OF_FAILURES = 2


def used_trials(trials: Iterable[TrialRecord]) -> dict[TrialKey, TrialRecord]:
    """The trial that counts in each place: the valid one of the last attempt, the latest if retried."""
    found = list(trials)
    last_attempt: dict[tuple[int, int], int] = {}
    for trial in found:
        part = trial.round, trial.part
        last_attempt[part] = max(last_attempt.get(part, 0), trial.attempt)
    return {
        (trial.round, trial.part, trial.cell): trial
        for trial in found
        if trial.status == "ok" and trial.attempt == last_attempt[trial.round, trial.part]
    }


def values_of(trial: TrialRecord, *, items: bool = True) -> dict[Key, float]:
    """Each observed number of a trial by item and metric, or of the trial as a whole; repetitions as their mean."""
    collected: dict[Key, list[float]] = {}
    for observation in trial.observations:
        if observation.item is not None and not items:
            continue
        collected.setdefault((observation.item, observation.metric), []).append(observation.value)
    return {
        key: values[0] if len(values) == 1 else math.fsum(values) / len(values) for key, values in collected.items()
    }


def values_by_key(used: Mapping[TrialKey, TrialRecord]) -> dict[Key, dict[TrialKey, float]]:
    """Every number of the trials that count: by item and metric, then by place."""
    result: dict[Key, dict[TrialKey, float]] = {}
    for place, trial in used.items():
        for key, value in values_of(trial).items():
            result.setdefault(key, {})[place] = value
    return result


def given_up(trials: Iterable[TrialRecord]) -> set[str]:
    """The cells that failed, and only failed, in each of their first rounds."""
    rounds: dict[str, dict[int, bool]] = {}
    for trial in trials:
        by_round = rounds.setdefault(trial.cell, {})
        by_round[trial.round] = by_round.get(trial.round, True) and trial.status == "failed"
    return {
        cell
        for cell, failed in rounds.items()
        if len(failed) >= _ROUNDS_OF_FAILURES and all(failed[number] for number in sorted(failed)[:_ROUNDS_OF_FAILURES])
    }

"""Which trials count, and the numbers they gave."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from octavo.store.records import TrialRecord

# (item, metric)
Key = tuple[str | None, str]
# (round, part of the round, cell): a comparison is made within a part.
TrialKey = tuple[int, int, str]

# A cell that failed in each of its first rounds is not tried again, nor one without a valid trial in so many rounds,
# one after the other, for the same reason. What others did on the host is none: it passes (rules of validity).
_ROUNDS_OF_FAILURES = 2
_ROUNDS_WITHOUT_VALID = 3
_OF_OTHERS = frozenset({"clock", "steal", "foreign_cpu", "foreign_io", "knobs"})

# By this metric a workload marks runs of an item that were cancelled at a time limit. The times of such an item, and of
# the whole, would be those of the runs that ended, which are the fast ones.
CUT_OFF = "timed_out"
SECONDS = "seconds"
TIMES = frozenset({SECONDS, "seconds_min", "seconds_median"})


def used_trials(trials: Iterable[TrialRecord]) -> dict[TrialKey, TrialRecord]:
    """The trial that counts in each place: the last one of the last attempt, if it is valid.

    A valid trial in slices is followed by another one where a cell that ran with it is repeated. Its own numbers belong
    to slices that are not compared any more.
    """
    found = list(trials)
    last_attempt: dict[tuple[int, int], int] = {}
    for trial in found:
        part = trial.round, trial.part
        last_attempt[part] = max(last_attempt.get(part, 0), trial.attempt)
    last = {
        (trial.round, trial.part, trial.cell): trial
        for trial in found
        if trial.attempt == last_attempt[trial.round, trial.part]
    }
    return {place: trial for place, trial in last.items() if trial.status == "ok"}


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
    """Every number of the trials that count: by item and metric, then by place. Without the times of a cell's item, and
    of its whole, of which a run was cancelled in any of the cell's trials: those of the other trials would be a
    selection."""
    result: dict[Key, dict[TrialKey, float]] = {}
    cancelled = cut_off(used)
    for place, trial in used.items():
        for key, value in values_of(trial).items():
            if key[1] not in TIMES or (trial.cell, key[0]) not in cancelled:
                result.setdefault(key, {})[place] = value
    return result


def values_of_wholes(used: Mapping[TrialKey, TrialRecord], metric: str) -> dict[TrialKey, float]:
    """One number of the trials that count as wholes, by place; as `values_by_key` has it."""
    cancelled = cut_off(used) if metric in TIMES else set[tuple[str, str | None]]()
    found = {
        place: values_of(trial, items=False).get((None, metric))
        for place, trial in used.items()
        if (trial.cell, None) not in cancelled
    }
    return {place: value for place, value in found.items() if value is not None}


def cut_off(used: Mapping[TrialKey, TrialRecord]) -> set[tuple[str, str | None]]:
    """The cells with their items of which a run was cancelled in any trial that counts, and with None for the whole."""
    return {
        (trial.cell, item)
        for trial in used.values()
        for one in trial.observations
        if one.metric == CUT_OFF and one.value > 0
        for item in (one.item, None)
    }


def given_up(trials: Iterable[TrialRecord]) -> set[str]:
    """The cells that failed, and only failed, in each of their first rounds, and those of whose last rounds none has a
    valid trial, for a reason that lasts."""
    rounds: dict[str, dict[int, list[TrialRecord]]] = {}
    for trial in trials:
        rounds.setdefault(trial.cell, {}).setdefault(trial.round, []).append(trial)
    return {cell for cell, by_round in rounds.items() if _fails([by_round[number] for number in sorted(by_round)])}


def _fails(rounds: Sequence[Sequence[TrialRecord]]) -> bool:
    first, last = rounds[:_ROUNDS_OF_FAILURES], rounds[-_ROUNDS_WITHOUT_VALID:]
    if len(first) == _ROUNDS_OF_FAILURES and all(trial.status == "failed" for mine in first for trial in mine):
        return True
    reasons = {_lasting_reason(mine) for mine in last}
    return len(last) == _ROUNDS_WITHOUT_VALID and len(reasons) == 1 and None not in reasons


def _lasting_reason(trials: Sequence[TrialRecord]) -> frozenset[str] | None:
    """Why a cell has no valid trial in a round: by rules, or in words without their numbers. None where it has one, or
    others had a part in it."""
    if any(trial.status in ("ok", "skipped") or _is_of_others(trial) for trial in trials):
        return None
    return frozenset(
        str((trial.facts or {}).get("rule") or re.sub(r"[0-9]+", "0", trial.reason or "")) for trial in trials
    )


def _is_of_others(trial: TrialRecord) -> bool:
    facts = trial.facts or {}
    # Turns that others disturbed make a run in slices too short.
    return facts.get("rule") in _OF_OTHERS or bool(facts.get("rule") == "duration" and facts.get("turns_dropped"))

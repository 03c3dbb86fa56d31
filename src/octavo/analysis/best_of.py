"""The shortest of the runs of each item on a load, and the total of these: the figure that others publish.

A minimum says what is possible, not what to expect; it is shown beside the runs themselves, and decides nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from octavo.analysis.effects import effects_of
from octavo.analysis.plan_identity import add_plan_comparison, plans_of
from octavo.analysis.trials import used_trials, values_by_key
from octavo.observation import Observation
from octavo.plan import negative
from octavo.plan.cells import Cell
from octavo.plan.model import Plan
from octavo.store.records import TrialRecord

WORD = "best of all runs"


def best_of(
    plan: Plan,
    cells: Sequence[Cell],
    trials: Sequence[TrialRecord],
    metrics: Mapping[str, Mapping[str, Any]],
    among: Mapping[str, Any],
) -> dict[str, Any]:
    """Effects, noise floor and values of the minima. `among` names the factor whose levels a load's runs are split by
    (`factor`, `levels`), and the `metric`.

    A load counts where all of its trials do, and its total where every item of the metric was seen.
    """
    factor, metric = among["factor"], among["metric"]
    made = {cell.id: _made(cell, factor) for cell in cells if cell.levels.get(factor) in among["levels"]}
    groups: dict[tuple[str, int], list[TrialRecord]] = {}
    for trial in trials:
        if trial.cell in made:
            groups.setdefault((made[trial.cell].id, trial.round), []).append(trial)
    minima: dict[tuple[str, int], dict[str, float]] = {}
    for place, group in groups.items():
        if len(group) == len(among["levels"]) and all(trial.status == "ok" for trial in group):
            minima[place] = _minima(group, metric)
    every = {item for found in minima.values() for item in found}
    unit = metrics[metric]["unit"]
    derived = [_trial(groups[place], place[0], found, every, metric, unit) for place, found in minima.items()]
    own = list({cell.id: cell for cell in made.values()}.values())
    used = used_trials(derived)
    values = values_by_key(used)
    everywhere = [negative.split(entry)[0] for entry in plan.negative]
    found = effects_of(
        plan.model_copy(update={"negative": everywhere}), own, derived, used, values, {metric: metrics[metric]}
    )
    plans = plans_of(own, used)
    add_plan_comparison(found.effects, plans, own)
    return {
        "name": WORD,
        "cells": [{"id": cell.id, "of": [one for one, its in made.items() if its.id == cell.id]} for cell in own],
        "values": [
            {"cell": trial.cell, "load": trial.load, "metric": metric, "item": one.item, "value": one.value}
            for trial in derived
            for one in trial.observations
        ],
        "effects": found.effects,
        "noise_floor": found.noise_floor,
        "model": found.model,
        "plans": plans,
    }


def _made(cell: Cell, factor: str) -> Cell:
    """The cell that stands for all runs of a load."""
    level = cell.levels[factor]
    return replace(
        cell,
        id=cell.id.replace(f"{factor}={level}", f"{factor}={WORD}"),
        condition=cell.condition.replace(level, WORD, 1),
        levels={**cell.levels, factor: WORD},
    )


def _minima(group: Sequence[TrialRecord], metric: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for trial in group:
        for one in trial.observations:
            if one.metric == metric and one.item is not None:
                found[one.item] = min(one.value, found.get(one.item, one.value))
    return found


def _trial(
    group: Sequence[TrialRecord], cell: str, minima: Mapping[str, float], every: set[str], metric: str, unit: str
) -> TrialRecord:
    seen = [Observation(metric, value, unit, item) for item, value in minima.items()]
    if set(minima) == every:
        seen.insert(0, Observation(metric, sum(minima.values()), unit))
    plans: dict[str, dict[str, None]] = {}
    for trial in group:
        for item, plan in (trial.facts or {}).get("plans", {}).items():
            plans.setdefault(item, {})[plan] = None
    facts = {"plans": {item: "/".join(found) for item, found in plans.items()}}
    return replace(group[0], cell=cell, observations=tuple(seen), facts=facts)

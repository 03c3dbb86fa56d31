"""The report document: everything a report shows, as one plain dict. Its keys are a contract."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

from octavo.analysis.cell_bottlenecks import bottleneck_of_effect, cell_bottlenecks
from octavo.analysis.charted_series import charted_series
from octavo.analysis.effects import effects_of
from octavo.analysis.limitations import alarms, circumstances, limits, warnings, zeros
from octavo.analysis.optional_sections import optional_sections
from octavo.analysis.shown_metrics import read_metrics, shown_metrics
from octavo.analysis.trials import Key, TrialKey, given_up, used_trials, values_by_key
from octavo.analysis.verdict_sentence import sentence
from octavo.observation import title_in_prose
from octavo.plan.cells import Cell, names_what_differs
from octavo.plan.model import Plan, restore_plan
from octavo.plan.parts import host_of_part
from octavo.store.records import RunRecord, TrialRecord
from octavo.store.store import Store

SCHEMA_VERSION = 2

# In two minutes a server that only reads writes some records of running transactions, and full-page images of them.
_OWN_WAL_BYTES = 256 * 1024


def make_document(store: Store, run: str, *, most_numbers: int | None = None) -> dict[str, Any]:
    """The document of a run, finished or not, from its current contents in the store.

    With `most_numbers` it has no more numbers of cells than these, so that a report of a large run is made in time
    (`shown_metrics`); `metrics_left_out` counts the omitted metrics.
    """
    record = store.run(run)
    plan = restore_plan(record.plan)
    cells = store.cells(run)
    shown = None if most_numbers is None else shown_metrics(record.metrics, plan.workload, len(cells), most_numbers)
    trials = store.trials(run, None if shown is None else read_metrics(record.metrics, shown))
    used = used_trials(trials)
    values = values_by_key(used)
    written = cells_that_wrote(values)
    reported = values if shown is None else {key: of for key, of in values.items() if key[1] in shown}
    found = effects_of(plan, cells, trials, used, reported, record.metrics)
    primary = next(iter(record.metrics))
    title = title_in_prose(record.metrics[primary]["title"])
    controls = {cell.id for cell in cells if cell.control}
    loud = [
        *warnings(trials, cells, record.metrics, "alarm"),
        *alarms(found.effects, cells, primary, title),
    ]
    spoken = [
        effect
        for effect in found.effects
        if effect["metric"] == primary and effect["item"] is None and effect["cell"] not in controls
    ]
    used_up = cell_bottlenecks(cells, used)
    compared = list(plan.baseline)
    named = not names_what_differs(plan, compared)
    more = sum(e["verdict"].startswith("undecided (needs ") for e in spoken if not e["negative_control"])
    return {
        "schema_version": SCHEMA_VERSION,
        "run": _run(record, plan, cells, found.rounds_finished, primary),
        "metrics": {name: dict(metric) for name, metric in record.metrics.items()},
        "cells": [_cell(cell) for cell in cells],
        "trials": _trials(trials, cells, used),
        "summary": _summary(record, cells, used, reported),
        "effects": found.effects,
        "noise_floor": found.noise_floor,
        "model": found.model,
        "verdicts": [
            {
                "condition": effect["condition"],
                "cell": effect["cell"],
                "metric": primary,
                "sentence": sentence(effect, cells, compared, title, writes=effect["cell"] in written, named=named)
                + bottleneck_of_effect(used_up, effect, cells),
            }
            for effect in spoken
        ],
        "alarms": loud,
        "given_up": sorted(given_up(trials)),
        "limits": [
            *loud,
            *circumstances(plan, record.environment, more, finished=record.status == "finished"),
            *warnings(trials, cells, record.metrics, "limit"),
            *zeros(cells, values.get((None, primary), {}), title),
            *limits(
                plan,
                cells,
                [one for one in found.effects if one["metric"] == primary],
                values,
                written,
                imported="imported" in record.environment,
            ),
            *record.environment.get("limits", ()),
        ],
        "series": charted_series(store, cells, used),
        **optional_sections(record, plan, cells, trials, used, found.effects, used_up),
        "environment": {**record.environment, "settings": store.settings_by_cell(run)},
        **({} if shown is None else {"metrics_left_out": len(record.metrics) - len(shown)}),
    }


def cells_that_wrote(values: Mapping[Key, Mapping[TrialKey, float]]) -> set[str]:
    """The cells whose trials wrote WAL: a byte for each transaction, and more than a server does by itself."""
    whole = values.get((None, "wal_bytes"), {})
    of_each = values.get((None, "wal_bytes_per_transaction"), {})
    return {place[2] for place, value in of_each.items() if value >= 1 and whole.get(place, math.inf) >= _OWN_WAL_BYTES}


def _run(record: RunRecord, plan: Plan, cells: Sequence[Cell], rounds_finished: int, primary: str) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.name,
        "question": plan.question,
        "status": record.status,
        "seed": record.seed,
        "started": _iso(record.started),
        "ended": None if record.ended is None else _iso(record.ended),
        "rounds": plan.rounds,
        "rounds_finished": rounds_finished,
        "loads": plan.loads,
        "threshold": plan.threshold_fraction,
        "precision": plan.precision_fraction,
        "stopping": plan.stopping,
        "budget_seconds": plan.budget_seconds,
        "ending": record.environment.get("ending"),
        "workload": plan.workload,
        "primary_metric": primary,
        "wal_regime": ", ".join(dict.fromkeys(cell.levels["wal_regime"] for cell in cells)),
        "plan": record.plan_text,
        "repeat": record.repeat,
    }


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "id": cell.id,
        "label": cell.label,
        "levels": dict(cell.levels),
        "condition": cell.condition,
        "baseline": cell.baseline,
        "control": cell.control,
    }


def _trials(
    trials: Sequence[TrialRecord], cells: Sequence[Cell], used: Mapping[TrialKey, TrialRecord]
) -> list[dict[str, Any]]:
    levels = {cell.id: cell.levels for cell in cells}
    return [
        {
            "id": trial.id,
            "cell": trial.cell,
            "round": trial.round,
            "part": trial.part,
            "attempt": trial.attempt,
            "position": trial.position,
            "load": trial.load,
            "status": trial.status,
            "reason": trial.reason,
            "used": used.get((trial.round, trial.part, trial.cell)) is trial,
            "levels": dict(levels[trial.cell]),
            "started": _iso(trial.started),
            "seconds": trial.ended - trial.started,
            "seed": trial.seed,
            "facts": dict(trial.facts or {}),
            "observations": [
                {
                    "item": observation.item,
                    "repetition": observation.repetition,
                    "metric": observation.metric,
                    "value": observation.value,
                    "unit": observation.unit,
                }
                for observation in trial.observations
            ],
        }
        for trial in trials
    ]


def _summary(
    record: RunRecord,
    cells: Sequence[Cell],
    used: Mapping[TrialKey, TrialRecord],
    values: Mapping[Key, Mapping[TrialKey, float]],
) -> list[dict[str, Any]]:
    """For every cell and number: the mean over loads of the loads' means, of a fleet over its hosts'; geometric where
    all values are positive."""
    by_cell: dict[str, dict[Key, dict[tuple[int, int], list[float]]]] = {cell.id: {} for cell in cells}
    for key, by_place in values.items():
        for place, value in by_place.items():
            load = host_of_part(place[1]), used[place].load
            by_cell[place[2]].setdefault(key, {}).setdefault(load, []).append(value)
    rows: list[dict[str, Any]] = []
    for cell, by_key in by_cell.items():
        for (item, metric), by_load in by_key.items():
            found = [value for load in by_load.values() for value in load]
            rows.append(
                {
                    "cell": cell,
                    "metric": metric,
                    "item": item,
                    "value": _mean_over_loads(by_load),
                    "low_trial": min(found),
                    "high_trial": max(found),
                    "unit": record.metrics.get(metric, {}).get("unit", ""),
                    "trials": len(found),
                }
            )
    return rows


def _mean_over_loads(by_load: Mapping[tuple[int, int], Sequence[float]]) -> float:
    """`by_load`: values by host and load."""
    positive = all(value > 0 for values in by_load.values() for value in values)
    hosts: dict[int, list[float]] = {}
    for (host, _), values in by_load.items():
        hosts.setdefault(host, []).append(fmean(map(math.log, values) if positive else values))
    mean = fmean(map(fmean, hosts.values()))
    return math.exp(mean) if positive else mean


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")

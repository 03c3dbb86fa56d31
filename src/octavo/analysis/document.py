"""The report document: everything a report shows, as one plain dict. Its keys are a contract (docs/report.md)."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from octavo.analysis.interval import Estimate, estimate
from octavo.analysis.pairing import Key, log_ratios, used_trials, values_of
from octavo.analysis.sentence import sentence
from octavo.analysis.verdict import verdict
from octavo.plan.cells import Cell
from octavo.plan.model import Plan, restore_plan
from octavo.store.records import RunRecord, TrialRecord
from octavo.store.store import Store

SCHEMA_VERSION = 1


def make_document(store: Store, run: str) -> dict[str, Any]:
    """The document of a run, finished or not, from what the store has of it now."""
    record = store.run(run)
    plan = restore_plan(record.plan)
    cells = store.cells(run)
    trials = store.trials(run)
    used = used_trials(trials)
    estimates = {
        cell: {key: estimate(ratios) for key, ratios in by_key.items()}
        for cell, by_key in log_ratios(cells, trials).items()
    }
    floors = _noise_floors(cells, estimates)
    effects = _effects(record, plan, cells, estimates, floors)
    primary = next(iter(record.metrics))
    return {
        "schema_version": SCHEMA_VERSION,
        "run": _run(record, plan, cells, trials, primary),
        "metrics": {name: dict(metric) for name, metric in record.metrics.items()},
        "cells": [_cell(cell) for cell in cells],
        "trials": [_trial(trial, cells, used) for trial in trials],
        "summary": _summary(record, cells, used),
        "effects": effects,
        "noise_floor": [
            {
                "condition": condition, "metric": key[1], "item": key[0], "ratio": value.ratio, "low": value.low,
                "high": value.high, "floor": None if floor is None else math.expm1(floor),
            }
            for condition, by_key in floors.items() for key, (value, floor) in by_key.items()
        ],
        "verdicts": [
            {
                "condition": effect["condition"], "cell": effect["cell"], "metric": primary,
                "sentence": sentence(
                    effect, cells, list(plan.baseline), record.metrics[primary]["title"], _floor(floors, effect),
                    writes=_writes(used, effect["cell"]),
                ),
            }
            for effect in effects
            if effect["metric"] == primary and effect["item"] is None and not _find(cells, effect["cell"]).control
        ],
        "limits": _limits(plan, cells, trials),
        "environment": {**record.environment, "settings": store.settings_by_cell(run)},
    }  # fmt: skip


Floors = dict[str, dict[Key, tuple[Estimate, float | None]]]


def _noise_floors(cells: Sequence[Cell], estimates: Mapping[str, Mapping[Key, Estimate]]) -> Floors:
    """By condition the A/A estimate and the far end of its interval on the log scale, for each number."""
    return {
        cell.condition: {
            key: (value, None if value.half_width is None else abs(value.log_ratio) + value.half_width)
            for key, value in estimates.get(cell.id, {}).items()
        }
        for cell in cells
        if cell.control
    }


def _effects(
    record: RunRecord,
    plan: Plan,
    cells: Sequence[Cell],
    estimates: Mapping[str, Mapping[Key, Estimate]],
    floors: Floors,
) -> list[dict[str, Any]]:
    effects: list[dict[str, Any]] = []
    for cell in cells:
        for key, value in estimates.get(cell.id, {}).items():
            item, metric = key
            # The control is judged by its interval alone: its floor is that very interval.
            _, floor = (None, None) if cell.control else floors.get(cell.condition, {}).get(key, (None, None))
            better = record.metrics.get(metric, {}).get("better")
            effects.append(
                {
                    "cell": cell.id,
                    "condition": cell.condition,
                    "metric": metric,
                    "item": item,
                    "ratio": value.ratio,
                    "low": value.low,
                    "high": value.high,
                    "verdict": verdict(value, floor, plan.threshold_fraction, better),
                    "conditional": value.conditional,
                    "loads": value.loads,
                    "rounds": value.rounds,
                    "degrees_of_freedom": value.degrees_of_freedom,
                }
            )
    return effects


def _floor(floors: Floors, effect: Mapping[str, Any]) -> float | None:
    entry = floors.get(effect["condition"], {}).get((effect["item"], effect["metric"]))
    return None if entry is None or entry[1] is None else math.expm1(entry[1])


def _writes(used: Mapping[tuple[int, str], TrialRecord], cell: str) -> bool:
    """Whether the cell's transactions wrote WAL: a byte each at the least."""
    key = (None, "wal_bytes_per_transaction")
    return any(values_of(trial).get(key, 0.0) >= 1 for (_, cell_id), trial in used.items() if cell_id == cell)


def _run(
    record: RunRecord, plan: Plan, cells: Sequence[Cell], trials: Sequence[TrialRecord], primary: str
) -> dict[str, Any]:
    skipped = {trial.cell for trial in trials if trial.status == "skipped"}
    expected = {cell.id for cell in cells} - skipped
    seen: dict[tuple[int, int], set[str]] = {}
    for trial in trials:
        seen.setdefault((trial.round, trial.attempt), set()).add(trial.cell)
    finished = {number for (number, _), present in seen.items() if expected and present >= expected}
    return {
        "id": record.id,
        "name": record.name,
        "question": plan.question,
        "status": record.status,
        "seed": record.seed,
        "started": _iso(record.started),
        "ended": None if record.ended is None else _iso(record.ended),
        "rounds": plan.rounds,
        "rounds_finished": len(finished),
        "loads": plan.loads,
        "threshold": plan.threshold_fraction,
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


def _trial(trial: TrialRecord, cells: Sequence[Cell], used: Mapping[tuple[int, str], TrialRecord]) -> dict[str, Any]:
    return {
        "id": trial.id,
        "cell": trial.cell,
        "round": trial.round,
        "attempt": trial.attempt,
        "position": trial.position,
        "load": trial.load,
        "status": trial.status,
        "reason": trial.reason,
        "used": used.get((trial.round, trial.cell)) is trial,
        "levels": dict(_find(cells, trial.cell).levels),
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


def _summary(
    record: RunRecord, cells: Sequence[Cell], used: Mapping[tuple[int, str], TrialRecord]
) -> list[dict[str, Any]]:
    """For every cell and number: the mean over loads of the loads' means; geometric where all values are positive."""
    rows: list[dict[str, Any]] = []
    for cell in cells:
        by_key: dict[Key, dict[int, list[float]]] = {}
        for (_, cell_id), trial in used.items():
            if cell_id == cell.id:
                for key, value in values_of(trial).items():
                    by_key.setdefault(key, {}).setdefault(trial.load, []).append(value)
        for (item, metric), by_load in by_key.items():
            values = [value for load in by_load.values() for value in load]
            rows.append(
                {
                    "cell": cell.id,
                    "metric": metric,
                    "item": item,
                    "value": _mean_over_loads(list(by_load.values())),
                    "low_trial": min(values),
                    "high_trial": max(values),
                    "unit": record.metrics.get(metric, {}).get("unit", ""),
                    "trials": len(values),
                }
            )
    return rows


def _mean_over_loads(loads: Sequence[Sequence[float]]) -> float:
    if all(value > 0 for load in loads for value in load):
        return math.exp(math.fsum(math.fsum(map(math.log, load)) / len(load) for load in loads) / len(loads))
    return math.fsum(math.fsum(load) / len(load) for load in loads) / len(loads)


def _limits(plan: Plan, cells: Sequence[Cell], trials: Sequence[TrialRecord]) -> list[str]:
    limits = [
        f"Intervals hold one cell at a time (95 %); with {len(cells)} cells some may miss by chance.",
        "The answer holds for this machine, compiler and filesystem; another one may answer otherwise.",
    ]
    if plan.loads < 4:
        limits.insert(0, f"{plan.loads} loads speak for themselves only: the verdicts are conditional on these loads.")
    if not plan.control:
        limits.append("The plan has no control (A/A), so there is no noise floor.")
    if any(cell.levels["memory"] == "none" for cell in cells):
        limits.append(
            "No memory limit: what does not fit shared_buffers is read from the kernel's page cache when memory allows."
        )
    if "after-checkpoint" in {cell.levels["wal_regime"] for cell in cells}:
        limits.append(
            "WAL regime after-checkpoint: the first change of each page writes a full-page image, "
            "which favours small blocks; a server that is long past a checkpoint writes less WAL."
        )
    if any(trial.status == "skipped" for trial in trials):
        limits.append("Some cells were skipped on this host; the reasons stand with them.")
    return limits


def _find(cells: Sequence[Cell], identifier: str) -> Cell:
    return next(cell for cell in cells if cell.id == identifier)


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")

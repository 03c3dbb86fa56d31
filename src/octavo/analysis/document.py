"""The report document: everything a report shows, as one plain dict. Its keys are a contract."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from octavo.analysis.interval import LOADS_FOR_GENERAL, Estimate, estimate
from octavo.analysis.pairing import Key, log_ratios, used_trials, values_of
from octavo.analysis.sentence import sentence
from octavo.analysis.verdict import Rule, noise_floor, verdict
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
    written = _cells_that_write(used)
    comparisons = _comparisons(cells)
    estimates = {
        cell: {key: estimate(ratios, comparisons[cell]) for key, ratios in by_key.items()}
        for cell, by_key in log_ratios(cells, trials).items()
    }
    controls = _controls(cells, estimates)
    effects = _effects(record, plan, cells, estimates, controls)
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
            _noise_floor(condition, key, value)
            for condition, by_key in controls.items()
            for key, value in by_key.items()
        ],
        "verdicts": [
            {
                "condition": effect["condition"], "cell": effect["cell"], "metric": primary,
                "sentence": sentence(
                    effect, cells, list(plan.baseline), record.metrics[primary]["title"],
                    _floor_fraction(controls.get(effect["condition"], {}).get((None, primary))),
                    writes=effect["cell"] in written,
                ),
            }
            for effect in effects
            if effect["metric"] == primary and effect["item"] is None and not _find(cells, effect["cell"]).control
        ],
        "limits": _limits(plan, cells, used, written),
        "environment": {**record.environment, "settings": store.settings_by_cell(run)},
    }  # fmt: skip


Estimates = Mapping[str, Mapping[Key, Estimate]]


def _comparisons(cells: Sequence[Cell]) -> dict[str, int]:
    """How many intervals have to hold at once: those of a condition's cells together, the control by itself."""
    together = Counter(cell.condition for cell in cells if not cell.baseline and not cell.control)
    return {cell.id: 1 if cell.control else together[cell.condition] for cell in cells}


def _controls(cells: Sequence[Cell], estimates: Estimates) -> dict[str, Mapping[Key, Estimate]]:
    """By condition the A/A estimate of each number."""
    return {cell.condition: estimates.get(cell.id, {}) for cell in cells if cell.control}


def _noise_floor(condition: str, key: Key, value: Estimate) -> dict[str, Any]:
    return {
        "condition": condition,
        "metric": key[1],
        "item": key[0],
        "ratio": value.ratio,
        "low": value.low,
        "high": value.high,
        "floor": _floor_fraction(value),
    }


def _floor_fraction(control: Estimate | None) -> float | None:
    """The noise floor as a fraction, None while it is not known."""
    floor = noise_floor(control)
    return None if floor is None else math.expm1(floor)


def _effects(
    record: RunRecord,
    plan: Plan,
    cells: Sequence[Cell],
    estimates: Estimates,
    controls: Mapping[str, Mapping[Key, Estimate]],
) -> list[dict[str, Any]]:
    effects: list[dict[str, Any]] = []
    for cell in cells:
        for key, value in estimates.get(cell.id, {}).items():
            item, metric = key
            # The control is judged by its interval alone: its floor is that very interval.
            control = None if cell.control else controls.get(cell.condition, {}).get(key)
            rule = Rule(plan.threshold_fraction, control, has_control=plan.control and not cell.control)
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
                    "verdict": verdict(value, rule, better),
                    "conditional": value.conditional,
                    "loads": value.loads,
                    "rounds": value.rounds,
                    "degrees_of_freedom": value.degrees_of_freedom,
                }
            )
    return effects


def _cells_that_write(used: Mapping[tuple[int, str], TrialRecord]) -> set[str]:
    """The cells whose transactions wrote WAL: a byte each at the least."""
    key = (None, "wal_bytes_per_transaction")
    return {cell for (_, cell), trial in used.items() if values_of(trial).get(key, 0.0) >= 1}


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


def _limits(
    plan: Plan, cells: Sequence[Cell], used: Mapping[tuple[int, str], TrialRecord], written: set[str]
) -> list[str]:
    limits = ["The answer holds for this machine, compiler and filesystem; another one may answer otherwise."]
    loads = min(plan.loads, plan.rounds)
    if loads < LOADS_FOR_GENERAL:
        spoken = "One load speaks for itself" if loads == 1 else f"{loads} loads speak for themselves"
        limits.insert(0, f"{spoken} only: the verdicts are conditional on {'it' if loads == 1 else 'them'}.")
    if not plan.control:
        limits.append("The plan has no control (A/A), so there is no noise floor.")
    if any(cell.levels["memory"] == "none" for cell in cells):
        limits.append(
            "No memory limit: what does not fit shared_buffers is read from the kernel's page cache when memory allows."
        )
    if any(cell.levels["wal_regime"] == "after-checkpoint" for cell in cells if cell.id in written):
        limits.append(
            "WAL regime after-checkpoint: the first change of each page writes a full-page image, "
            "which favours small blocks; a server that is long past a checkpoint writes less WAL."
        )
    if written:
        limits.append(
            "Bytes written at the device are those of the measured time: pages that were still dirty at its end, "
            "in shared_buffers or in the page cache, are not in them."
        )
    if any(values_of(trial).get((None, "wal_segments_created"), 0) > 0 for trial in used.values()):
        limits.append(
            "Some trials wrote more WAL than there were recycled segments, and had to create new ones while measured."
        )
    return limits


def _find(cells: Sequence[Cell], identifier: str) -> Cell:
    return next(cell for cell in cells if cell.id == identifier)


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")

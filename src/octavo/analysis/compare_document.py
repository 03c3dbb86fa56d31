"""The document of a comparison: everything that it shows, as one plain dict. Its keys are a contract."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from octavo.analysis.compare import (
    Comparison,
    StoredRun,
    compare,
    distinguishing_factors,
    newly_cancelled,
    shared_names,
    unlike_units,
)
from octavo.analysis.limitations import CANCELLED, recorded_hosts, warnings
from octavo.analysis.trials import cut_off, used_trials
from octavo.errors import UsageError
from octavo.plan.model import restore_plan
from octavo.store.store import Store

SCHEMA_VERSION = 1
_DECIDED = ("faster", "slower", "better", "worse", "more", "less", "same")
_HOST = ("hostname", "cpu", "cores", "memory_bytes", "kernel", "virtualization")


def make_comparison(store: Store, ids: Sequence[str], margin: float | None = None) -> dict[str, Any]:
    """The runs against the first of them. `margin`: the fraction from where on a worse value is a regression.

    Raises UsageError when the runs have nothing in common that could be compared, or no value of theirs is worse.
    """
    if len(set(ids)) < len(ids):
        raise UsageError("a run cannot be compared with itself; name different runs, octavo runs lists them")
    runs = [_load(store, one) for one in ids]
    reference, others = runs[0], runs[1:]
    metric = next(iter(reference.record.metrics))
    better = reference.record.metrics[metric].get("better")
    if margin is not None and better is None:
        raise UsageError(f"neither more nor less of {metric} is better, so no value of {reference.record.id} is a "
                         "regression; leave --fail-on out")  # fmt: skip
    telling = distinguishing_factors(runs)
    for other in others:
        if metric not in other.record.metrics:
            raise UsageError(f"{other.record.id} has no {metric}, which {reference.record.id} measured: "
                             "runs of different workloads cannot be compared")  # fmt: skip
        if metric in unlike_units(reference, other):
            here, there = (f"{run.record.metrics[metric]['unit']} in {run.record.id}" for run in (reference, other))
            raise UsageError(f"{metric} is in {here}, and in {there}; runs in one unit can be compared")
        if not shared_names(reference, other, telling):
            raise UsageError(f"{reference.record.id} and {other.record.id} have no cell in common; "
                             "compare runs whose plans share levels")  # fmt: skip
    found = _compared(reference, others, metric, telling)
    rows = [row for one in found for row in one.comparisons]
    headline = _headline(rows, metric)
    late = [row for other in others for row in newly_cancelled(reference, other, telling)]
    if margin is not None:
        for row in headline:
            row["regression"] = regression(row, margin, lower_is_better=better == "lower")
        for row in late:
            row["regression"] = regression_at_limit(row, margin)
    return {
        "schema_version": SCHEMA_VERSION,
        "runs": [_run(run) for run in runs],
        "metrics": {name: dict(its) for name, its in reference.record.metrics.items()},
        "primary_metric": metric,
        "cells": list({(cell["condition"], cell["cell"]): cell for one in found for cell in one.shared}.values()),
        "comparisons": rows,
        "tally": dict(Counter(row["verdict"].split(" (")[0] for row in headline)),
        "decided": sum(_is_decided(row) for row in headline),
        "compared": len(headline),
        "fail_on": None if margin is None else {"regression": margin},
        "regressions": [row for row in headline if row.get("regression") == "yes"],
        "newly_cancelled": late,
        "only_in": _only(found),
        "not_valid": _not_valid(found),
        "differences": _differences(runs),
        "limits": _limits(runs, headline),
    }


def _compared(
    reference: StoredRun, others: Sequence[StoredRun], metric: str, telling: Sequence[str]
) -> list[Comparison]:
    """Each run against the reference. The intervals hold at once for all cells of all runs, and where verdicts are
    those of items, for all of these."""
    cells = sum(shared_names(reference, other, telling) for other in others)
    found = [compare(reference, other, metric, cells, telling) for other in others]
    judged = len(_headline([row for one in found for row in one.comparisons], metric))
    if judged <= cells:
        return found
    return [compare(reference, other, metric, judged, telling) for other in others]


def _is_decided(row: Mapping[str, Any]) -> bool:
    """Whether a row answers what was asked: for a regression of that size, whichever verdict it has besides."""
    if "regression" in row:
        return row["regression"] in ("yes", "no")
    return row["verdict"].startswith(_DECIDED)


def regression(row: Mapping[str, Any], margin: float, *, lower_is_better: bool) -> str:
    """`yes`: the interval excludes 1, and the value is worse by more than the margin and than the noise floor of either
    run, which are known. `no`: the whole interval is better than the margin. Else `undecided`."""
    if row["low"] is None:
        return "undecided"
    worse, worst, best = (
        (row["ratio"], row["high"], row["low"])
        if lower_is_better
        else (1 / row["ratio"], 1 / row["low"], 1 / row["high"])
    )
    if worst < 1 + margin:
        return "no"
    floor = row["noise_floor"]
    return "yes" if floor is not None and best > 1 and worse > 1 + max(margin, floor) else "undecided"


def regression_at_limit(row: Mapping[str, Any], margin: float) -> str:
    """`yes`: the cancelled runs took longer than every run of the reference by more than the margin. `undecided`: the
    time limit is too close to the reference's longest run, or below it, for that."""
    limit = row["limit"]
    return "yes" if limit is None or limit > row["longest"] * (1 + margin) else "undecided"


def exit_code(document: Mapping[str, Any]) -> int:
    """1: a regression that was asked for; 4: nothing could be decided (if a regression was asked for: neither that
    there is one nor that there is none, in any row), or a regression was asked for, and a cell of the reference has no
    valid trial in another run; else 0."""
    if document["regressions"] or any(row.get("regression") == "yes" for row in document["newly_cancelled"]):
        return 1
    lost = document["fail_on"] and any(one["run"] != document["runs"][0]["id"] for one in document["not_valid"])
    return 0 if document["decided"] and not lost else 4


def _load(store: Store, identifier: str) -> StoredRun:
    record = store.run(identifier)
    return StoredRun(record, restore_plan(record.plan), store.cells(identifier), store.trials(identifier))


def _headline(rows: Sequence[dict[str, Any]], metric: str) -> list[dict[str, Any]]:
    """The rows that verdicts and the exit code speak of: values of the primary metric, of items where no trial has
    one of its own."""
    values = [row for row in rows if row["kind"] == "value" and row["metric"] == metric]
    whole = [row for row in values if row["item"] is None]
    return whole or values


def _run(run: StoredRun) -> dict[str, Any]:
    record = run.record
    used = used_trials(run.trials)
    return {
        "id": record.id,
        "name": record.name,
        "status": record.status,
        "workload": run.plan.workload,
        "started": datetime.fromtimestamp(record.started, UTC).isoformat(timespec="seconds"),
        "trials": sum(trial.status != "skipped" for trial in run.trials),
        "used": len(used),
        "loads": len({trial.load for trial in used.values()}),
        "baseline": dict(run.plan.baseline),
        "host": {name: record.environment.get("host", {}).get(name) for name in _HOST},
    }


def _only(found: Sequence[Comparison]) -> list[dict[str, Any]]:
    """By run the cells that no comparison could use."""
    cells: dict[str, list[str]] = {}
    for one in found:
        for run, only in one.only.items():
            cells[run] = [cell for cell in cells[run] if cell in only] if run in cells else only
    return [{"run": run, "cells": only} for run, only in cells.items() if only]


def _not_valid(found: Sequence[Comparison]) -> list[dict[str, Any]]:
    """By run the cells that are valid in the run that it is compared with only."""
    cells: dict[str, dict[str, None]] = {}
    for one in found:
        for run, lost in one.lost.items():
            cells.setdefault(run, {}).update(dict.fromkeys(lost))
    return [{"run": run, "cells": list(lost)} for run, lost in cells.items() if lost]


def _differences(runs: Sequence[StoredRun]) -> list[dict[str, Any]]:
    """What the runs were told to do, and where, that is not alike: a row for each with a value for each run."""
    sentences = [_environment_facts(run) for run in runs]
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys(name for one in sentences for name in one):
        values = [one.get(name) for one in sentences]
        if len(set(values)) > 1:
            rows.append({"what": name, "values": values})
    return rows


def _environment_facts(run: StoredRun) -> dict[str, str]:
    """By name: of a fleet what its hosts have, each value once."""
    environment = run.record.environment
    hosts = recorded_hosts(environment).values()
    found: dict[str, str] = {}
    for name in _HOST:
        if known := {str(value) for its in hosts if (value := its.get("host", {}).get(name)) is not None}:
            found[name] = ", ".join(sorted(known))
    levels: dict[str, set[str]] = {}
    for cell in run.cells:
        for name, level in cell.levels.items():
            levels.setdefault(name, set()).add(level)
    found |= {name: next(iter(its)) for name, its in levels.items() if len(its) == 1}
    found |= {f"settings: {name}": str(its) for name, its in environment.get("pinned", {}).items()}
    for name in ("version", "compiler"):
        if builds := {str(build.get(name)) for its in hosts for build in its.get("builds") or ()}:
            found[f"build: {name}"] = ", ".join(sorted(builds))
    return found | {"Octavo": str(environment.get("octavo", ""))}


def _limits(runs: Sequence[StoredRun], headline: Sequence[Mapping[str, Any]]) -> list[str]:
    found: list[str] = []
    machines = [_machines(run) for run in runs]
    if any(None in names for names in machines):
        found.append("Not every run records its machine: a difference may be due to the machine.")
    elif len(set(machines)) > 1:
        found.append("The runs are from different machines: a difference may come from anything that differs below.")
    else:
        where = "one machine" if len(machines[0]) == 1 else "the same machines"
        found.append(
            f"The intervals do not cover differences between two runs on {where} that are not due to rounds or "
            "loads (temperature, neighbours, placement of memory and files): compare two runs of the same plan to "
            "see them."
        )
    found += warned_of(runs)
    if any(row["conditional"] for row in headline):
        found.append("Too few loads to generalise: the intervals hold for the loads that were measured.")
    unfinished = (run.record for run in runs if run.record.status != "finished")
    found += [f"{record.id} is {record.status}: more trials may change this." for record in unfinished]
    return found


def _machines(run: StoredRun) -> frozenset[str | None]:
    """The names of the machines that a run was on, of a fleet all that measured; None for one that is not known."""
    return frozenset(its.get("host", {}).get("hostname") for its in recorded_hosts(run.record.environment).values())


def warned_of(runs: Sequence[StoredRun]) -> list[str]:
    """The warnings of the runs' own reports, with the name of the run: a query that was cancelled in one run is not
    compared."""
    found = [
        f"{run.record.id}: {text[0].lower()}{text[1:]}"
        for run in runs
        for kind in ("alarm", "limit")
        for text in warnings(run.trials, run.cells, run.record.metrics, kind)
    ]
    return [*found, CANCELLED] if any(cut_off(used_trials(run.trials)) for run in runs) else found

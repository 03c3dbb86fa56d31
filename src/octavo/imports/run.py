"""The result of an importer, and storing it as a finished run."""

import json
import re
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from octavo import __version__
from octavo.errors import UsageError
from octavo.imports.rows import ImportSource
from octavo.observation import Metric
from octavo.plan.cells import Cell
from octavo.plan.model import Plan
from octavo.plan.thresholds import Thresholds
from octavo.store.address import StoreAddress
from octavo.store.records import RunRecord, TrialRecord
from octavo.store.store import Store
from octavo.units import human_count, parse_percentage

NOT_RANDOMISED = (
    "These results were imported: their order was not randomised, so that drift of the machine may look like an "
    "effect of a cell."
)
# More refused rows than these are counted, not listed, in a report.
_MOST_TOLD = 20
# The rules for our own trials hold for those of others.
SHORTEST_DURATION = parse_percentage(Thresholds().shortest_duration)
# What a plan allows (`Plan`).
_MOST_LOADS, _MOST_ROUNDS = 100, 10_000
# What a cell of Octavo's own always has, and imported results do not tell.
_NOT_TOLD = {"memory": "none", "wal_regime": "not recorded"}


@dataclass(frozen=True, slots=True)
class Imported:
    """Everything of a run but its id. `repeat` is the command that imports it again, `limits` are sentences."""

    plan: Plan
    cells: Sequence[Cell]
    trials: Sequence[TrialRecord]
    metrics: Sequence[Metric]
    sources: Sequence[ImportSource]
    repeat: str
    limits: Sequence[str] = ()
    # The factor by which the runs of a load are split, its levels, and the metric whose minima others publish.
    best_of: Mapping[str, Any] | None = None
    settings: Mapping[str, str] = field(default_factory=dict[str, str])


def run_name(text: str) -> str:
    """A name that a plan may have, from a file's or directory's.

    >>> run_name("vondra tpch (i5)"), run_name("…")
    ('vondra-tpch-i5', 'imported')
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:100] or "imported"


def make_cells(
    combinations: Iterable[Mapping[str, str]],
    baseline: Mapping[str, str],
    conditions: Sequence[str],
) -> list[Cell]:
    """A cell for every combination of levels, each with loads of its own, which its conditions share.

    `baseline` has the compared factors.
    """
    cells: list[Cell] = []
    for levels in combinations:
        point = {name: levels[name] for name in baseline}
        cells.append(
            Cell(
                id=" ".join(f"{name}={levels[name]}" for name in (*baseline, *conditions)),
                label="/".join(point.values()),
                levels={**levels, **{name: level for name, level in _NOT_TOLD.items() if name not in levels}},
                condition=", ".join(_word(name, levels[name]) for name in conditions),
                baseline=point == dict(baseline),
                control=False,
                dataset=" ".join(f"{name}={level}" for name, level in point.items()),
            )
        )
    return cells


def check_rounds(file: Path, loads: int, rounds: int, way_out: str) -> None:
    """Raises UsageError for more loads or rounds than a plan may have."""
    if loads > _MOST_LOADS or rounds > _MOST_ROUNDS:
        raise UsageError(
            f"{file} has {human_count(loads, 'load')} and {human_count(rounds, 'round')}; at most {_MOST_LOADS} and "
            f"{_MOST_ROUNDS:,} are supported: {way_out}"
        )


def too_short(seconds: float, asked: float) -> str | None:
    """Why a trial of so many seconds is invalid."""
    return f"ran {seconds:.2f} s of the {asked:g} s requested" if seconds < SHORTEST_DURATION * asked else None


def save(imported: Imported, address: StoreAddress) -> str:
    """Writes the run whole or not at all, and returns its id. Raises OctavoError."""
    now = time.time()
    name = imported.plan.name
    run = f"{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}-{name}-{secrets.token_hex(2)}"
    lines = [problem for source in imported.sources for problem in source.problems]
    limits = [NOT_RANDOMISED, *_when(imported.trials, now), *imported.limits, *_left_out(lines)]
    record = RunRecord(
        id=run,
        name=name,
        status="finished",
        token="imported",  # noqa: S106  # the name of no journal: no process of ours works on it
        seed=0,
        started=now,
        ended=now,
        plan=json.loads(imported.plan.model_dump_json()),
        plan_text=_plan_text(imported),
        repeat=imported.repeat,
        metrics={m.name: m.as_dict() for m in imported.metrics},
        environment=_environment(imported, limits),
    )
    with closing(Store.open(address)) as store:
        store.add_finished_run(record, imported.cells, imported.trials)
    return run


def _environment(imported: Imported, limits: list[str]) -> dict[str, Any]:
    times = [moment for trial in imported.trials for moment in (trial.started, trial.ended)]
    return {
        "octavo": __version__,
        "host": {},
        "pinned": dict(imported.settings),
        "limits": limits,
        **({"best_of": dict(imported.best_of)} if imported.best_of else {}),
        "imported": {
            "files": [
                {"name": one.name, "sha256": one.sha256, "rows": one.rows, "problems": one.problems[:_MOST_TOLD]}
                for one in imported.sources
            ],
            "measured_from": min(times),
            "measured_until": max(times),
        },
    }


def _when(trials: Sequence[TrialRecord], now: float) -> list[str]:
    """Between which days it was measured, where the trials tell: those that do not have the time of the import."""
    days = [datetime.fromtimestamp(moment, UTC).date() for trial in trials for moment in (trial.started, trial.ended)]
    if max(days) >= datetime.fromtimestamp(now, UTC).date():
        return []
    return [f"The results are of {min(days)} to {max(days)}; the date of the run is that of the import."]


def _left_out(told: Sequence[str]) -> list[str]:
    if not told:
        return []
    rows = human_count(len(told), "row")
    more = f"; and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
    return [f"{rows} of the files could not be used: {'; '.join(told[:_MOST_TOLD])}{more}."]


def _plan_text(imported: Imported) -> str:
    """The imported files, and the plan that they amount to; a comment each, as nothing of it can be run."""
    files = [f"# {one.name}: {one.rows} rows, sha256 {one.sha256}" for one in imported.sources]
    levels = [f"# {name}: {', '.join(found)}" for name, found in imported.plan.factors.items()]
    lines = [f"# imported: {imported.plan.question}", *files, *levels]
    return "".join("".join(one if one.isprintable() else "\ufffd" for one in line) + "\n" for line in lines)


def _word(name: str, level: str) -> str:
    return f"{name} {level}" if level[:1].isdigit() else level

"""The record of a run, on this host or on a fleet: what is stored when it begins, and facts that may explain its
numbers."""

import json
import math
import random
import secrets
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from octavo import __version__, workloads
from octavo.analysis.decide import open_cells
from octavo.errors import UsageError
from octavo.home import make_directory, octavo_home
from octavo.host.checks.base import CheckFinding
from octavo.host.facts import host_facts
from octavo.instruments import instruments
from octavo.instruments.running import InstrumentSet
from octavo.lab.budget import Forecast, seconds_measured
from octavo.lab.given_up import without_verdict
from octavo.plan.cells import Cell
from octavo.plan.model import Plan
from octavo.plan.server_settings import settings_of
from octavo.postgres.builds.cache import Build
from octavo.postgres.pinned import not_pinned, pinned_settings
from octavo.store.records import RunRecord, TrialRecord
from octavo.store.run_files import remember_plan
from octavo.store.store import Store
from octavo.units import human_duration, parse_duration


def new_run(
    plan: Plan, plan_text: str, repeat: str, seed: int | None, token: str, environment: dict[str, Any]
) -> RunRecord:
    """The record of a run that begins now. Without a seed one is drawn, and added to the command that repeats the
    run."""
    chosen = random.SystemRandom().randrange(1, 2**31) if seed is None else seed
    now = time.time()
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d-%H%M%S")
    return RunRecord(
        id=f"{stamp}-{plan.name}-{secrets.token_hex(2)}",
        name=plan.name,
        status="running",
        token=token,
        seed=chosen,
        started=now,
        ended=None,
        plan=json.loads(plan.model_dump_json()),
        plan_text=plan_text,
        repeat=f"{repeat} --seed {chosen}" if seed is None else repeat,
        metrics=_metrics(plan),
        environment=environment,
    )


def extended(
    store: Store, run: str, plan: Plan, cells: Sequence[Cell], budget: str | None, *, retry: bool = False
) -> Plan:
    """The plan with this budget and without a limit of its rounds, which is also stored; unchanged without a budget.

    `cells` are the stored cells of the run. Raises UsageError when the run has measured for longer already, because a
    budget includes that, or has reached the last round of a plan that is analysed once; with `retry` there is something
    to do nevertheless.
    """
    if budget is None:
        return plan
    trials = [trial for trial in store.trials(run, metrics=()) if trial.status != "skipped"]
    if not retry and plan.stopping == "fixed" and any(trial.round >= plan.rounds for trial in trials):
        raise UsageError(
            f'--budget {budget}: {run} has reached its last round, after which a plan with stopping = "fixed" is '
            "analysed, and no budget extends it; start a new run with more rounds, or leave --budget out to complete "
            "this one"
        )
    measured = seconds_measured(trials)
    if not retry and parse_duration(budget) <= measured:
        raise UsageError(
            f"--budget {budget}: {run} has measured for {human_duration(measured)}, which a budget includes; give a "
            "longer one"
        )
    # An analysis after what was the last round has spent its part of alpha.
    longer = plan.model_copy(update={"budget": budget, "most_rounds": None, "first_look": plan.first_analysis})
    content = json.loads(longer.model_dump_json())
    remember_plan(store.address, run, content, cells)
    store.set_plan(run, content)
    return longer


def forecaster(record: RunRecord, plan: Plan, cells: Sequence[Cell]) -> Callable[[Sequence[TrialRecord]], Forecast]:
    """The function that decides, from the trials so far, which cells are still measured. Without comparisons no cell is
    decided."""
    metric = next(iter(record.metrics))
    compared = [cell for cell in cells if not cell.baseline and not cell.control]

    def still_open(trials: Sequence[TrialRecord]) -> Forecast:
        if compared and plan.stopping != "fixed":
            return open_cells(plan, cells, trials, metric)
        lost = without_verdict(cells, trials)
        # Without comparisons the baseline itself is of interest.
        return {cell.id: math.inf for cell in compared or cells if cell.id not in lost}

    return still_open


def _metrics(plan: Plan) -> dict[str, dict[str, Any]]:
    """The meaning of the observations, by metric; the first one is what verdicts are about."""
    observers = InstrumentSet(instruments(plan.instruments), lambda _: None)
    found = (*workloads.find(plan.workload).metrics, *observers.metrics)
    return {one.name: one.as_dict() for one in sorted(found, key=lambda one: one.name != plan.metric)}


def environment_of(
    plan: Plan, cells: Sequence[Cell], builds: Sequence[Build], found: Sequence[CheckFinding]
) -> dict[str, Any]:
    """Facts that could explain the numbers of this host, for the store."""
    return {
        "octavo": __version__,
        "host": host_facts(make_directory(octavo_home())),
        "host_checks": [one.as_dict() for one in found],
        "builds": [
            {
                "name": build.name,
                **{
                    name: build.manifest[name]
                    for name in ("version", "data_block", "wal_block", "origin", "compiler", "options")
                },
            }
            for build in builds
        ],
        **pinned_and_varying(plan, cells),
        "not_pinned": not_pinned(),
    }


def pinned_and_varying(plan: Plan, cells: Sequence[Cell]) -> dict[str, dict[str, str]]:
    """`pinned`: the settings that are the same in every cell. `varying`: those that follow another factor, such as the
    data block, with their values. Settings that are factors with several levels are in neither."""
    of_cells = [
        {
            **pinned_settings(cell.levels["version"], cell.levels["data_block"]),
            **plan.settings_at(cell.levels),
        }
        for cell in cells
    ]
    chosen = {name for cell in cells for name in settings_of(cell.levels)}
    pinned: dict[str, str] = {}
    varying: dict[str, str] = {}
    for name in dict.fromkeys(name for settings in of_cells for name in settings):
        values = list(dict.fromkeys(settings.get(name, "default") for settings in of_cells))
        if len(values) == 1:
            pinned[name] = values[0]
        elif name not in chosen:
            varying[name] = " / ".join(values)
    return {"pinned": pinned, "varying": varying}

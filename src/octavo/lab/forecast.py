"""The smallest effect that a plan's budget can decide on this host, from the scatter of earlier runs."""

import math
import platform
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import median

import numpy as np

from octavo import workloads
from octavo.analysis.alpha_spending import next_analysis
from octavo.analysis.condition import Condition, conditions_of, layout_of
from octavo.analysis.interim import Role
from octavo.analysis.interval import CONFIDENCE, critical_value
from octavo.analysis.trials import used_trials, values_by_key
from octavo.analysis.variance_components import FEWEST_BETWEEN_LOADS, Components, variance_components
from octavo.errors import HostError, OctavoError
from octavo.plan.cells import Cell
from octavo.plan.condition_text import condition_text
from octavo.plan.model import Plan, restore_plan
from octavo.store.address import StoreAddress
from octavo.store.failures import content_of
from octavo.store.listing import list_runs
from octavo.store.records import TrialRecord
from octavo.store.store import Store
from octavo.units import human_count

# The number of this host's runs to examine: the newest first, those of the same plan before all others.
_MOST_RUNS = 20
# The most conditions that get a line.
_MOST_LINES = 12
# Standard errors added to the decision limit so that four of five runs reach it; and the median deviation of a control.
_FOUR_OF_FIVE = 0.84
_CONTROL_OFF = 0.67


@dataclass(frozen=True, slots=True)
class Scatter:
    """Variances on the log scale: of a trial, and between loads."""

    of_trials: float
    of_loads: float


@dataclass(frozen=True, slots=True)
class RunScatter:
    """The scatter of a run, by condition."""

    run: str
    by_condition: Mapping[str, Scatter]

    def of(self, condition: str) -> Scatter:
        """The scatter of the condition; if the run had none of this name, the median of its conditions."""
        if condition in self.by_condition:
            return self.by_condition[condition]
        every = self.by_condition.values()
        return Scatter(median(one.of_trials for one in every), median(one.of_loads for one in every))


@dataclass(frozen=True, slots=True)
class DetectableEffect:
    """`smallest`: the difference, as a fraction, that four of five runs detect. `same`: whether they also decide that
    there is no difference of interest."""

    smallest: float
    same: bool


def forecast_lines(plan: Plan, cells: Sequence[Cell], seconds_a_round: float, store: StoreAddress) -> list[str]:
    """The effects that the plan's budget, or its rounds, can decide here: a heading and a line for each condition.
    Raises OctavoError when the store cannot be read."""
    conditions = [one for one in conditions_of(plan, cells, ()) if one.question.targets]
    if not conditions:
        return []
    history = find_history(plan, store)
    if history is None:
        return ["smallest difference that can be decided: unknown until this workload has run on this host"]
    rounds = plan.rounds
    if plan.budget_seconds is not None and seconds_a_round > 0:
        rounds = max(1, int(plan.budget_seconds / seconds_a_round))
        rounds = min(rounds, plan.last_round or rounds)
    heading = (
        f"smallest difference that {human_count(rounds, 'round')} can decide, if trials scatter as in {history.run}:"
    )
    found = [(condition_text(one.name) or "all", reach(one, history.of(one.name), plan, rounds)) for one in conditions]
    if len(found) > _MOST_LINES:
        known = sorted((seen for _, seen in found if seen), key=lambda seen: seen.smallest)
        if not known:
            return [heading, f"  none in any of {len(found)} conditions: too few rounds"]
        return [
            heading,
            f"  {_percent(known[0].smallest)} to {_percent(known[-1].smallest)}, by condition; enough to decide 'same "
            f"within {plan.threshold.replace('%', ' %')}' in {sum(seen.same for seen in known)} of {len(found)}",
        ]
    return [heading, *(f"  {name}: {_words(seen, plan)}" for name, seen in found)]


def find_history(plan: Plan, store: StoreAddress) -> RunScatter | None:
    """The scatter of the newest run of the plan's workload on this host, preferring runs of the same name; None without
    one."""
    listed = [row for row in list_runs(store) if row["ok"]]
    listed.sort(key=lambda row: row["name"] != plan.name)  # stable: newest first among equals
    if not listed:
        return None
    with closing(Store.open_to_read(store)) as opened:
        for row in listed[:_MOST_RUNS]:
            try:
                with content_of(row["id"], store):
                    found = _scatter_of_run(plan, opened, row["id"])
            except HostError:
                raise
            except OctavoError:  # of another version, or not written by Octavo
                continue
            if found:
                return RunScatter(row["id"], found)
    return None


def _scatter_of_run(plan: Plan, store: Store, run: str) -> dict[str, Scatter]:
    """The scatter of one stored run; empty for another workload or another host."""
    record = store.run(run)
    here = record.environment.get("host", {}).get("hostname") == platform.node()
    if not here or "imported" in record.environment or record.plan.get("workload") != plan.workload:
        return {}
    metric = plan.metric or workloads.find(plan.workload).metrics[0].name
    return scatter_of(restore_plan(record.plan), store.cells(run), store.trials(run), metric)


def scatter_of(plan: Plan, cells: Sequence[Cell], trials: Sequence[TrialRecord], metric: str) -> dict[str, Scatter]:
    """The scatter of a metric in each condition of a run where it is known."""
    used = used_trials(trials)
    values = values_by_key(used).get((None, metric), {})
    found: dict[str, Scatter] = {}
    for condition in conditions_of(plan, cells, trials):
        layout = layout_of(condition, used, values)
        if layout is None:
            continue
        parts = variance_components(layout)
        if parts.residual_square is not None:
            found[condition.name] = Scatter(parts.residual_square, parts.load_variance or 0.0)
        elif parts.load_square is not None:  # one trial per load: the two cannot be separated, and need not be
            found[condition.name] = Scatter(parts.load_square, 0.0)
    return found


def reach(condition: Condition, scatter: Scatter, plan: Plan, rounds: int) -> DetectableEffect | None:
    """The smallest difference that so many rounds detect in a condition; None if they are too few for an interval."""
    question = condition.question
    loads = min(plan.loads, rounds)
    own = [condition.cells[row] for row in question.targets]
    baseline = condition.cells[question.rows(Role.BASELINE)[0]]
    foreign = any(cell.dataset != baseline.dataset for cell in own)
    count, datasets = len(condition.cells), len({cell.dataset for cell in condition.cells})
    between = (datasets - 1) * (loads - 1)
    residual = (count - 1) * (rounds - 1) - between
    each = rounds / loads
    parts = Components(
        scatter.of_trials if residual > 0 else None,
        max(0, residual),
        scatter.of_trials + each * scatter.of_loads if between else None,
        between,
        each,
    )
    general = parts.general or not foreign
    variances, freedoms = parts.variance(
        np.array([2 / loads if foreign and general and loads > 1 else 0.0]), np.array([2 / rounds])
    )
    variance, freedom = float(variances[0]), int(freedoms[0])
    first = question.first_look
    if question.waits_for_loads:
        first = max(first, 1 + math.ceil(FEWEST_BETWEEN_LOADS / (datasets - 1)))
    if freedom < 1 or not math.isfinite(variance) or rounds < first:
        return None
    number, at = 1, first
    while (at := next_analysis(at)) <= rounds:
        number += 1
    error = math.sqrt(variance)
    half = critical_value(len(own), freedom, question.confidence, first, 0 if question.once else number) * error
    floor = (critical_value(1, freedom, CONFIDENCE) + _CONTROL_OFF) * error if question.has_floor else 0.0
    decides = max(half, floor) + _FOUR_OF_FIVE * error
    return DetectableEffect(math.expm1(min(decides, 700.0)), decides <= math.log1p(question.threshold))


def _words(seen: DetectableEffect | None, plan: Plan) -> str:
    if seen is None:
        return "none, too few rounds for an interval"
    same = f"; enough to decide 'same within {plan.threshold.replace('%', ' %')}'" if seen.same else ""
    return f"{_percent(seen.smallest)}{same}"


def _percent(fraction: float) -> str:
    """The difference as a line has it.

    >>> _percent(0.012), _percent(0.0996), _percent(0.996), _percent(1.5)
    ('1.2 %', '10 %', '100 %', '150 %')
    """
    return f"{fraction * 100:.2g} %" if fraction < 0.1 else f"{fraction * 100:.0f} %"

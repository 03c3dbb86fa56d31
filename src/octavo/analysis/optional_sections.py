"""What a document says beyond effects, for runs whose trials have items, plans, or several runs of one load."""

from collections.abc import Mapping, Sequence
from typing import Any

from octavo.analysis.best_of import best_of
from octavo.analysis.condition import grouping_factor
from octavo.analysis.item_bottlenecks import item_bottlenecks
from octavo.analysis.plan_identity import add_plan_comparison, plans_of
from octavo.analysis.trials import TrialKey
from octavo.analysis.two_groups import two_groups
from octavo.plan.cells import Cell
from octavo.plan.model import Plan
from octavo.store.records import RunRecord, TrialRecord


def optional_sections(
    record: RunRecord,
    plan: Plan,
    cells: Sequence[Cell],
    trials: Sequence[TrialRecord],
    used: Mapping[TrialKey, TrialRecord],
    effects: Sequence[dict[str, Any]],
    bottlenecks: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """`plans`, `two_groups`, `bottlenecks` (as it is given), `item_bottlenecks`, and `best_of` (None where a run has no
    such thing); effects of items get their `plan` relative to the baseline's."""
    plans = plans_of(cells, used)
    add_plan_comparison(effects, plans, cells)
    among = record.environment.get("best_of")
    by = grouping_factor(plan)
    primary = next(iter(record.metrics))
    return {
        "plans": plans,
        "bottlenecks": bottlenecks,
        "item_bottlenecks": item_bottlenecks(cells, used),
        "two_groups": two_groups(cells, used, primary, by, plan.threshold_fraction),
        "best_of": best_of(plan, cells, trials, record.metrics, among) if among else None,
    }

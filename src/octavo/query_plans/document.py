"""The table of plans and sizes as a document: what `octavo plans table` prints, as text or JSON."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from octavo.analysis.plan_identity import letter
from octavo.postgres.plan_diff import differences
from octavo.query_plans.effects import DEFAULT, chosen, effects, means
from octavo.query_plans.parting import parting
from octavo.query_plans.table import Table
from octavo.units import format_size


def document(tables: Sequence[Table], base: int, costs: Sequence[str], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The document. `base` is the block that others are divided by; `facts` are added."""
    blocks = sorted({entry.block for table in tables for entry in table.entries})
    found = {table.query: effects(table, base) for table in tables}
    forced = [table.forced() for table in tables]
    return {
        "schema_version": 1,
        **facts,
        "base": format_size(base),
        "data_blocks": [format_size(block) for block in blocks],
        "forced": sum(done for done, _ in forced),
        "to_force": sum(wanted for _, wanted in forced),
        "sizes": [
            _of_size(block, [one for each in found.values() for one in each]) for block in blocks if block != base
        ],
        "costs": [_of_costs(tables, name, block, base) for name in costs for block in blocks],
        "queries": [_of_query(table, base, found[table.query]) for table in tables],
    }


def _of_size(block: int, found: Sequence[Any]) -> dict[str, Any]:
    here = [one for one in found if one.block == block]
    both = means(here)
    return {
        "data_block": format_size(block),
        "queries": len(here),
        "same_plan": sum(one.same_plan for one in here),
        "with_both": sum(one.page is not None for one in here),
        "page": both and both[0],
        "plan": both and both[1],
    }


def _of_costs(tables: Sequence[Table], costs: str, block: int, base: int) -> dict[str, Any]:
    found = chosen(tables, costs, block, base)
    return {**asdict(found), "data_block": format_size(block), "regret": found.regret}


def _of_query(table: Table, base: int, found: Sequence[Any]) -> dict[str, Any]:
    at_base = table.chosen(DEFAULT)[base]
    order = [at_base, *(plan for plan in table.plans if plan != at_base)]
    letters = {plan: letter(number) for number, plan in enumerate(order)}
    plans = [
        {
            "letter": letters[plan],
            "identity": plan,
            "lines": table.plans[plan].lines(),
            "differences": differences(table.plans[at_base], table.plans[plan]),
            "parting": _parting(table, at_base, plan),
        }
        for plan in order
    ]
    entries = [
        {
            "data_block": format_size(entry.block),
            "plan": letters[entry.plan],
            "chosen_by": list(entry.chosen_by),
            "forced_by": None if entry.forced is None else dict(entry.forced.settings),
            "tries": None if entry.forced is None else entry.forced.tries,
            "seconds": entry.seconds,
            "median": _median(entry.seconds),
        }
        for entry in table.entries
    ]
    return {
        "query": table.query,
        "plans": plans,
        "entries": entries,
        "effects": [{**asdict(one), "data_block": format_size(one.block)} for one in found],
    }


def _median(seconds: Sequence[float | None]) -> float | None:
    ended = [one for one in seconds if one is not None]
    return statistics.median(ended) if ended and len(ended) == len(seconds) else None


def _parting(table: Table, first: str, second: str) -> list[dict[str, Any]] | None:
    """The joins at which a plan parts from the base's: of the base's plan, then of this one."""
    if first == second or first not in table.joins or second not in table.joins:
        return None
    found = parting(table.joins[first], table.joins[second])
    return found and [{**asdict(one), "factor": one.factor} for one in found]

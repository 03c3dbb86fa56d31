"""Which plan each query had in each cell, and whether a difference in time comes with a difference in plan.

A plan's identity is any text that is equal for equal plans: `Shape.identity` (`postgres/plan_shape`) in our own trials,
the published hash in published results. Where trials also have the shapes (`plan_shapes` among their facts, by
identity), the differences between two plans are described in words.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from octavo.analysis.trials import TrialKey
from octavo.plan.cells import Cell
from octavo.plan.parts import host_of_part
from octavo.postgres.plan_diff import differences
from octavo.postgres.plan_shape import from_dict
from octavo.store.records import TrialRecord

Rows = list[dict[str, Any]]
# The host in its fleet, 0 without one, and the number of the load there: each host has made its own.
Load = tuple[int, int]


def plans_of(cells: Sequence[Cell], used: Mapping[TrialKey, TrialRecord]) -> Rows:
    """A row for each condition and item: the number of plans, and by cell the letter of each load's plan.

    Trials have their plans' identities as `plans` among their facts, by item. The letters of an item begin with the
    baseline's; they name plans of that item only. Several plans on one load get one letter together. `shapes` has, by
    letter, the lines of the plan and its differences from plan A in words, for plans whose shape is known. Loads of a
    fleet are named `HOST.LOAD`. Empty if no trial has them.
    """
    seen: dict[tuple[str, str], dict[str, dict[Load, str]]] = {}
    shapes: dict[str, Mapping[str, Any]] = {}
    by_id = {cell.id: cell for cell in cells}
    for trial in used.values():
        reported: Mapping[str, str] = (trial.facts or {}).get("plans", {})
        shapes |= (trial.facts or {}).get("plan_shapes", {})
        for item, plan in reported.items():
            if plan:
                by_load = seen.setdefault((by_id[trial.cell].condition, item), {}).setdefault(trial.cell, {})
                load = host_of_part(trial.part), trial.load
                by_load[load] = together(by_load.get(load, plan), plan)
    letters = _letters(cells, seen)
    return [
        {
            "condition": condition,
            "item": item,
            "distinct": len({plan for loads in by_cell.values() for plan in loads.values()}),
            "cells": [
                {
                    "cell": cell.id,
                    "by_load": {_name(load): letters[item][plan] for load, plan in sorted(by_cell[cell.id].items())},
                }
                for cell in cells
                if cell.id in by_cell
            ],
            "shapes": _shapes(letters[item], shapes),
        }
        for (condition, item), by_cell in sorted(seen.items(), key=lambda pair: (pair[0][0], _number(pair[0][1])))
    ]


def add_plan_comparison(effects: Sequence[dict[str, Any]], plans: Rows, cells: Sequence[Cell]) -> None:
    """Adds `plan` to every effect of an item, which compares with the baseline's plan on the same load: `same`,
    `other` on every load, or `some` where it is another one on some loads only; None where it is not known."""
    if not plans:
        return
    baseline = {cell.condition: cell.id for cell in cells if cell.baseline}
    by_item = {(row["condition"], row["item"]): {one["cell"]: one["by_load"] for one in row["cells"]} for row in plans}
    for effect in effects:
        by_cell = by_item.get((effect["condition"], effect["item"]), {})
        mine = by_cell.get(effect["cell"], {})
        base = by_cell.get(baseline.get(effect["condition"], ""), {})
        same = {plan == base[load] for load, plan in mine.items() if load in base}
        effect["plan"] = None if not same else "some" if len(same) == 2 else "same" if True in same else "other"


def letter(number: int) -> str:
    """The name of the n-th plan, or compared run, from 0.

    >>> letter(0), letter(25), letter(26)
    ('A', 'Z', 'A1')
    """
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")


def together(*plans: str) -> str:
    """Plans with a stroke between them, as a trial has them whose runs do not agree: each once, in an order of their
    own, not that of the runs.

    >>> together("b/a"), together("a", "b/a")
    ('a/b', 'a/b')
    """
    return "/".join(sorted({one for each in plans for one in each.split("/")}))


def _name(load: Load) -> str:
    host, number = load
    return f"{host}.{number}" if host else str(number)


def _letters(
    cells: Sequence[Cell], seen: Mapping[tuple[str, str], Mapping[str, Mapping[Load, str]]]
) -> dict[str, dict[str, str]]:
    """By item: the letter of each plan, in the order of the cells with the baselines first; conditions share them."""
    order = sorted(cells, key=lambda cell: not cell.baseline)
    found: dict[str, dict[str, str]] = {}
    for (_, item), by_cell in seen.items():
        mine = found.setdefault(item, {})
        for cell in order:
            for _, plan in sorted(by_cell.get(cell.id, {}).items()):
                mine.setdefault(plan, letter(len(mine)))
    return found


def _shapes(letters: Mapping[str, str], known: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """By letter: the identity, the lines, and the differences from the first plan."""
    found = {name: from_dict(known[plan]) for plan, name in letters.items() if plan in known}
    first = found.get(letter(0))
    return {
        name: {
            "identity": shape.identity,
            "lines": shape.lines(),
            "differences": [] if first is None else differences(first, shape),
        }
        for name, shape in found.items()
    }


def _number(item: str) -> tuple[int, str]:
    digits = "".join(one for one in item if one.isascii() and one.isdecimal())
    return int(digits or 0), item

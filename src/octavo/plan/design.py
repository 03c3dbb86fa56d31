"""Designs: which combinations of levels become cells.

The compared factors are those that the baseline names; a design chooses among their combinations. All other
factors with several levels are conditions, and every condition gets every chosen combination.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from octavo.errors import UsageError
from octavo.factor import Factor
from octavo.plan.model import Plan
from octavo.plan.server_settings import PREFIX

Combination = dict[str, str]

# A cell takes seconds a round: more cells than these are a slip of the pen.
_MOST_CELLS = 10_000


def levels_of(plan: Plan, known: Mapping[str, Factor]) -> dict[str, list[str]]:
    """Every factor of the plan with its levels, in the order of `known`."""
    return {name: plan.factors.get(name) or [factor.default] for name, factor in known.items() if _is_used(plan, name)}


def compared_factors(plan: Plan, levels: Mapping[str, Sequence[str]]) -> list[str]:
    """The factors that cells are compared by: those of the baseline that vary, or all of it when none does."""
    return [name for name in levels if len(levels[name]) > 1 and name in plan.baseline] or list(plan.baseline)


def condition_factors(plan: Plan, levels: Mapping[str, Sequence[str]]) -> list[str]:
    """The factors whose levels are analysed separately."""
    return [name for name in levels if len(levels[name]) > 1 and name not in plan.baseline]


def combinations(plan: Plan, known: Mapping[str, Factor]) -> list[Combination]:
    """The combinations of levels that the plan's design, `include` and `exclude` leave, in the order of the grid.

    Raises UsageError when there are too many or none, or when a condition has lost its baseline.
    """
    levels = levels_of(plan, known)
    conditions = condition_factors(plan, levels)
    points = _POINTS["cells" if plan.cells else plan.design]
    most = math.prod(len(levels[name]) for name in conditions) * points[0](plan, levels)
    if most > _MOST_CELLS:
        raise UsageError(f"the plan has {most:,} cells; at most {_MOST_CELLS:,} can be run: remove some levels")
    constant = {name: options[0] for name, options in levels.items()}
    whole = [
        {**constant, **point, **dict(zip(conditions, condition, strict=True))}
        for point in points[1](plan, levels)
        for condition in itertools.product(*(levels[name] for name in conditions))
    ]
    rank = {name: {level: place for place, level in enumerate(options)} for name, options in levels.items()}
    whole.sort(key=lambda combination: [rank[name][level] for name, level in combination.items()])
    return _filtered(plan, whole, conditions)


def is_baseline(plan: Plan, combination: Mapping[str, str]) -> bool:
    """Whether the combination has every level that the baseline names."""
    return all(combination[name] == level for name, level in plan.baseline.items())


def _is_used(plan: Plan, name: str) -> bool:
    """A setting is a factor only in the plans that list its levels."""
    return not name.startswith(PREFIX) or name in plan.factors


def _grid_size(plan: Plan, levels: Mapping[str, Sequence[str]]) -> int:
    return math.prod(len(levels[name]) for name in plan.baseline)


def _grid(plan: Plan, levels: Mapping[str, Sequence[str]]) -> Iterator[Combination]:
    for point in itertools.product(*(levels[name] for name in plan.baseline)):
        yield dict(zip(plan.baseline, point, strict=True))


def _star_size(plan: Plan, levels: Mapping[str, Sequence[str]]) -> int:
    return 1 + sum(len(levels[name]) - 1 for name in plan.baseline)


def _star(plan: Plan, levels: Mapping[str, Sequence[str]]) -> Iterator[Combination]:
    """The baseline, and each other level of each compared factor with all else at the baseline."""
    yield dict(plan.baseline)
    for name, own in plan.baseline.items():
        yield from ({**plan.baseline, name: level} for level in levels[name] if level != own)


def _listed_size(plan: Plan, _: Mapping[str, Sequence[str]]) -> int:
    return 1 + len(plan.cells)


def _listed(plan: Plan, _: Mapping[str, Sequence[str]]) -> Iterator[Combination]:
    yield dict(plan.baseline)
    yield from ({**plan.baseline, **cell} for cell in plan.cells)


# By design: how many points it has, without making them, and the points.
_POINTS = {
    "grid": (_grid_size, _grid),
    "one-at-a-time": (_star_size, _star),
    "cells": (_listed_size, _listed),
}


def _filtered(plan: Plan, whole: list[Combination], conditions: Sequence[str]) -> list[Combination]:
    def condition(combination: Combination) -> tuple[str, ...]:
        return tuple(combination[name] for name in conditions)

    kept = whole
    if plan.include:
        wanted = {condition(each) for each in whole if _matches_any(each, plan.include)}
        kept = [
            each
            for each in whole
            if _matches_any(each, plan.include) or (is_baseline(plan, each) and condition(each) in wanted)
        ]
        if not kept:
            raise UsageError("include: no cell matches any [[include]] table")
    kept = [each for each in kept if not _matches_any(each, plan.exclude)]
    if not kept:
        raise UsageError("exclude: every cell matches an [[exclude]] table")
    if len(kept) == len(whole):
        return kept
    with_baseline = {condition(each) for each in kept if is_baseline(plan, each)}
    compared = {condition(each) for each in kept if not is_baseline(plan, each)}
    compared_before = {condition(each) for each in whole if not is_baseline(plan, each)}
    for here in dict.fromkeys(map(condition, kept)):
        where = _words(conditions, here)
        if here not in with_baseline:
            raise UsageError(f"exclude: the baseline{where} is excluded, but not all cells compared with it")
        if here in compared_before and here not in compared:
            table = "exclude" if plan.exclude else "include"
            raise UsageError(f"{table}: no cell is left to compare with the baseline{where}; exclude it too")
    return kept


def _matches_any(combination: Combination, tables: Sequence[Mapping[str, Sequence[str]]]) -> bool:
    return any(all(combination.get(name) in levels for name, levels in table.items()) for table in tables)


def _words(conditions: Sequence[str], levels: Sequence[str]) -> str:
    pairs = [f"{name}={level}" for name, level in zip(conditions, levels, strict=True)]
    return f" of {' '.join(pairs)}" if pairs else ""

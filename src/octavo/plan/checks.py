"""Consistency of a plan's keys: levels that exist, a baseline among them, no duplicate cells."""

from collections.abc import Iterable, Mapping

from octavo import workloads
from octavo.errors import UsageError, choices
from octavo.factor import Factor
from octavo.plan import negative
from octavo.plan.design import combinations
from octavo.plan.factors import HOST_CLASS
from octavo.plan.model import Plan
from octavo.plan.server_settings import PREFIX, check_setting, setting_factors
from octavo.plan.thresholds import RULE_NAMES


def checked(plan: Plan, known: Mapping[str, Factor], changes: Mapping[str, list[str]]) -> Plan:
    """The plan with every level in its one spelling, and levels replaced by `changes`. A server setting among the
    changes replaces the plan's own value in `[settings]`, and explicit cells at other levels are left out. Where a
    baseline's level is not among the changes, the first one given is the baseline.

    Raises UsageError, which names the key and what is allowed.
    """
    wanted = {**plan.factors, **changes}
    tables = (wanted, plan.baseline, *plan.cells, *plan.include, *plan.exclude)
    known = _all_known(known, [name for table in tables for name in table])
    factors = {name: [known[name].level(level) for level in levels] for name, levels in wanted.items()}
    baseline = {name: known[name].level(level) for name, level in plan.baseline.items()}
    cells = [{name: known[name].level(level) for name, level in cell.items()} for cell in plan.cells]
    include, exclude = (
        [{name: [known[name].level(level) for level in levels] for name, levels in table.items()} for table in given]
        for given in (plan.include, plan.exclude)
    )
    for name, levels in factors.items():
        if len(set(levels)) < len(levels):
            raise UsageError(f"{name}: duplicate level in {', '.join(levels)}")
    if cells:
        if plan.design != "grid":
            raise UsageError(f"design: {plan.design} and [[cells]] are two designs; remove one of them")
        cells = [cell for cell in cells if all(cell[name] in factors[name] for name in cell if name in changes)]
        if not cells:
            given = ", ".join(f"{name}={','.join(levels)}" for name, levels in changes.items())
            raise UsageError(f"cells: none has the levels {given}")
        factors |= _levels_of_cells(cells, baseline, factors)
    else:
        lost = [name for name in changes if name in baseline and baseline[name] not in factors[name]]
        baseline |= {name: factors[name][0] for name in lost}
    if HOST_CLASS in baseline:
        raise UsageError(
            f"baseline.{HOST_CLASS}: ratios are taken within hosts only; list the classes in [factors]; each "
            "is then analysed separately"
        )
    for name, level in baseline.items():
        levels = factors.get(name) or ([] if name.startswith(PREFIX) else [known[name].default])
        if not levels:
            raise UsageError(f"baseline.{name}: list the levels of {name} in [factors]")
        if level not in levels:
            raise UsageError(f"baseline.{name}: {level} is not among the levels {', '.join(levels)}")
    for table, entries in (("include", include), ("exclude", exclude)):
        for name in dict.fromkeys(name for entry in entries for name in entry):
            if name.startswith(PREFIX) and name not in factors:
                raise UsageError(f"{table}: {name} has no levels in [factors]")
    settings = {name: value for name, value in plan.settings.items() if PREFIX + name not in changes}
    _check_settings(settings, factors)
    _check_metric(plan)
    for rule in plan.outcomes:
        if rule not in RULE_NAMES:
            raise UsageError(f"outcomes: unknown rule {rule!r}; allowed: {', '.join(RULE_NAMES)}")
    whole = plan.model_copy(
        update={
            "factors": factors,
            "baseline": baseline,
            "cells": cells,
            "include": include,
            "exclude": exclude,
            "settings": settings,
            "negative": checked_negative(plan.negative, baseline, factors, changes),
        }
    )
    combinations(whole, known)
    return whole


def _all_known(known: Mapping[str, Factor], names: Iterable[str]) -> dict[str, Factor]:
    every = {**known, **setting_factors(names)}
    for name in names:
        if name not in every:
            raise UsageError(
                f"unknown factor {name!r}; {choices(name, sorted(known))} (for a server setting write {PREFIX}NAME)"
            )
    return every


def _levels_of_cells(
    cells: list[dict[str, str]], baseline: Mapping[str, str], factors: Mapping[str, list[str]]
) -> dict[str, list[str]]:
    """The levels that explicit cells compare, by factor: the baseline's first.

    Raises UsageError for a cell that is there twice, and for levels that do not agree with [factors].
    """
    seen = {tuple(baseline.values()): "the baseline"}
    for number, cell in enumerate(cells, 1):
        for name in cell:
            if name not in baseline:
                raise UsageError(f"cells.{number}: {name} is not in [baseline], which names what cells compare")
        point = tuple({**baseline, **cell}.values())
        if point in seen:
            raise UsageError(f"cells.{number} duplicates {seen[point]}")
        seen[point] = f"cells.{number}"
    levels: dict[str, list[str]] = {}
    for name, level in baseline.items():
        used = list(dict.fromkeys([level, *(cell[name] for cell in cells if name in cell)]))
        listed = factors.get(name, used)
        for wrong in used:
            if wrong not in listed:
                raise UsageError(f"cells: {name}={wrong} is not among the levels {', '.join(listed)} of factors.{name}")
        for wrong in listed:
            if wrong not in used:
                raise UsageError(f"factors.{name}: {wrong} is in no [[cells]] table; remove it or add one")
        levels[name] = listed
    return levels


def _check_metric(plan: Plan) -> None:
    names = [one.name for one in workloads.find(plan.workload).metrics]
    if plan.metric is not None and plan.metric not in names:
        raise UsageError(f"metric: the workload {plan.workload} has no {plan.metric!r}; {choices(plan.metric, names)}")


def _check_settings(settings: Mapping[str, str], factors: Mapping[str, list[str]]) -> None:
    chosen = {name.lower(): name for name in factors}
    for name in settings:
        try:
            check_setting(name)
        except UsageError as error:
            raise UsageError(f"[settings]: {error}") from None
        if factor := chosen.get(f"{PREFIX}{name}".lower()):
            raise UsageError(f"[settings]: {name} is also the factor {factor}; leave one of them out")


def checked_negative(
    entries: list[str],
    baseline: Mapping[str, str],
    factors: Mapping[str, list[str]],
    changes: Mapping[str, list[str]],
) -> list[str]:
    """The factors that cannot matter. One that `changes` left a single level is no control any more, nor is one that
    cannot matter only at a level that they removed. Raises UsageError for one that could be no control."""
    kept: list[str] = []
    for entry in entries:
        name, factor, level = negative.split(entry)
        applies = not (factor or level) or level in factors.get(factor, [])
        if not applies and factor not in changes:
            raise UsageError(f"negative: {entry}: {level or 'nothing'} is not among the levels of {factor}")
        if name not in baseline:
            raise UsageError(f"negative: {name} is not in [baseline], so nothing compares its levels")
        if len(factors.get(name, [])) < 2 and name not in changes:
            raise UsageError(f"negative: {name} has one level only; a negative control needs several")
        if applies and len(factors.get(name, [])) > 1:
            kept.append(entry)
    return kept

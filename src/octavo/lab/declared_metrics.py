"""Checks that a workload returned the metrics that it declares, in their units, including the first of them."""

import inspect
import math
from collections.abc import Iterable
from pathlib import Path

from octavo.errors import OctavoError
from octavo.observation import Observation
from octavo.workloads.base import CountsBySlices, RunsInTurns, Workload

_PACKAGES = Path(__file__).parents[2]


def undeclared(workload: Workload, observations: Iterable[Observation]) -> str | None:
    """A returned metric that the workload's `metrics` do not declare, with the fix; None if all are declared."""
    units = {metric.name: metric.unit for metric in workload.metrics}
    for one in observations:
        if one.metric not in units:
            return f"{_class_of(workload)} returned {one.metric}, which is not declared; add it to metrics"
        if one.unit != units[one.metric]:
            return (
                f"{_class_of(workload)} returned {one.metric} in {one.unit!r}, but declares {units[one.metric]!r}; "
                "make observations with observe()"
            )
    return None


def no_primary(
    workload: Workload, observations: Iterable[Observation], metric: str | None = None, *, slices: bool = False
) -> str | None:
    """Why a trial has no value of the plan's `metric`, else of the workload's first one, with the fix; None if it has
    one.

    A metric that warns (`Metric.warns`) explains why there is none, such as queries that all timed out.
    """
    primary = metric or workload.metrics[0].name
    enough = {primary, *(metric.name for metric in workload.metrics if metric.warns)}
    if any(one.metric in enough for one in observations):
        return None
    if primary != workload.metrics[0].name:
        fix = 'set another metric, or interleave = "trials"' if slices else "set another metric"
        return f"the trial has no {primary}, which is the plan's metric; {fix}"
    if slices and isinstance(workload, RunsInTurns) and not isinstance(workload, CountsBySlices):
        return (
            f"{_class_of(workload)} has no of_slices, so a trial in slices has no {primary}, the workload's first "
            'metric; add of_slices (CountsBySlices in octavo/workloads/base.py), or set interleave = "trials"'
        )
    return (
        f"{_class_of(workload)} returned no {primary}, its first metric, which verdicts are about; "
        "return observe() of it"
    )


def require_numbers(observations: Iterable[Observation]) -> None:
    """Raises OctavoError with the name of a metric whose value is not a number, which no store accepts."""
    for one in observations:
        if not math.isfinite(one.value):
            raise OctavoError(f"{one.metric} is not a number ({one.value})")


def _class_of(workload: Workload) -> str:
    """The workload's class and file.

    >>> from octavo.workloads.pgbench import WORKLOAD
    >>> _class_of(WORKLOAD)
    'Pgbench (octavo/workloads/pgbench.py)'
    """
    kind = type(workload)
    path = Path(inspect.getfile(kind))
    file = path.relative_to(_PACKAGES) if path.is_relative_to(_PACKAGES) else path
    return f"{kind.__name__} ({file})"

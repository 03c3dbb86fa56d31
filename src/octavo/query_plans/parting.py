"""Where two plans part, and how many rows the planner expected there against those that came."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from octavo.postgres.plan_shape import shape_of

_MOST = 1e15


@dataclass(frozen=True, slots=True)
class Joined:
    """A join: the relations below it, its description in one line, and the estimated and actual rows of all loops."""

    relations: tuple[str, ...]
    line: str
    estimated: float
    actual: float

    @property
    def factor(self) -> float:
        """How many times more rows came than were expected; each with one row more, as there may be none."""
        return (self.actual + 1) / (self.estimated + 1)


def joins_of(plan: Mapping[str, Any]) -> tuple[Joined, ...]:
    """All joins of a plan that EXPLAIN ANALYZE ran, those of few relations first."""
    return tuple(sorted(_joins(plan), key=lambda join: (len(join.relations), join.relations)))


def parting(one: Sequence[Joined], other: Sequence[Joined]) -> tuple[Joined, Joined] | None:
    """The smallest joins that the other plan has not, of each plan; None where the plans differ in no join."""
    mine, theirs = {join.line for join in one}, {join.line for join in other}
    first = next((join for join in one if join.line not in theirs), None)
    second = next((join for join in other if join.line not in mine), None)
    return None if first is None or second is None else (first, second)


def _joins(node: Mapping[str, Any]) -> list[Joined]:
    found: list[Joined] = []
    if "Join Type" in node:
        shape = shape_of(dict(node))
        loops = _number(node, "Actual Loops")
        found.append(
            Joined(
                shape.relations(),
                shape.line(),
                _number(node, "Plan Rows") * loops,
                _number(node, "Actual Rows") * loops,
            )
        )
    for below in node.get("Plans", ()):
        found += _joins(below)
    return found


def _number(node: Mapping[str, Any], name: str) -> float:
    """A count; 0 for what is none."""
    value = node.get(name)
    return float(value) if isinstance(value, int | float) and 0 <= value < _MOST else 0.0

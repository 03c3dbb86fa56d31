"""Fitted costs as PostgreSQL's settings, in one unit for all block sizes so that plans' costs can be compared.

The manual defines no unit of cost except that seq_page_cost is 1 ("Planner Cost Constants"). A page of 32 kB is four
times one of 8 kB, so one unit is used for all sizes: cold, the time of 8 kB of a sequential scan; warm, where pages
cost next to nothing, the time of 100 rows, as with the default cpu_tuple_cost of 0.01.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from octavo.costs.fit import Fit, UnitCost
from octavo.costs.probes import CACHED, CACHED_RANDOM, INDEX_TUPLE, OPERATOR, RANDOM, SEQUENTIAL, TUPLE
from octavo.errors import OctavoError

_REFERENCE = 8192
_TUPLES = 100
_SETTINGS = {
    "seq_page_cost": (SEQUENTIAL, CACHED),
    "random_page_cost": (RANDOM, CACHED_RANDOM),
    "cpu_tuple_cost": (TUPLE, TUPLE),
    "cpu_index_tuple_cost": (INDEX_TUPLE, INDEX_TUPLE),
    "cpu_operator_cost": (OPERATOR, OPERATOR),
}


@dataclass(frozen=True, slots=True)
class CostSetting:
    """A setting with its interval, and whether that excludes zero."""

    name: str
    value: float
    low: float
    high: float
    resolved: bool


@dataclass(frozen=True, slots=True)
class CostUnit:
    """What a cost of 1 stands for: seconds, and the estimate that they follow from."""

    seconds: float
    of: UnitCost


def cost_unit(fits: Mapping[int, Fit], *, cold: bool) -> CostUnit:
    """The unit of all of these fits, by block in bytes. Raises OctavoError when it was not measured.

    Without an 8 kB block among them, the nearest one's sequential page by bytes.
    """
    block = min(fits, key=lambda one: abs(one - _REFERENCE))
    of = fits[block].estimates[SEQUENTIAL if cold else TUPLE]
    seconds = of.seconds * (_REFERENCE / block if cold else _TUPLES)
    if seconds <= 0:
        what = "a page" if cold else "a row"
        raise OctavoError(f"{what} takes too little time here to be measured; use more --rounds, or a quieter machine")
    return CostUnit(seconds, of)


def settings(found: Fit, unit: CostUnit, *, cold: bool) -> list[CostSetting]:
    """The planner's cost settings, in this unit."""
    made: list[CostSetting] = []
    for name, (when_cold, when_warm) in _SETTINGS.items():
        estimate = found.estimates[when_cold if cold else when_warm]
        made.append(_setting(name, estimate, unit))
    return made


def _setting(name: str, estimate: UnitCost, unit: CostUnit) -> CostSetting:
    """A quotient of two estimates, which are taken to be independent; what the unit was made from has no error."""
    value = estimate.seconds / unit.seconds
    half = 0.0
    if estimate is not unit.of:
        of_unit = value * (unit.of.high - unit.of.seconds) / unit.of.seconds
        half = math.hypot((estimate.high - estimate.seconds) / unit.seconds, of_unit)
    return CostSetting(name, value, max(0.0, value - half), value + half, estimate.resolved)


def conf_lines(made: Sequence[CostSetting]) -> list[str]:
    """For postgresql.conf; a cost that is indistinguishable from zero is given as measured, and marked."""
    return [
        f"{one.name} = {figure(one.value)}" + ("" if one.resolved else "  # indistinguishable from 0") for one in made
    ]


def figure(value: float) -> str:
    """Three significant digits, without an exponent.

    >>> figure(1.0), figure(10.237), figure(0.00012345), figure(0), figure(9.999), figure(1234.5)
    ('1.00', '10.2', '0.000123', '0', '10.0', '1230')
    """
    return "0" if value <= 0 else f"{Decimal(f'{value:#.3g}'):f}"

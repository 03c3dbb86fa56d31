"""Fitted costs as PostgreSQL's settings, in one unit for all block sizes so that plans' costs can be compared.

The manual has no unit for costs but that seq_page_cost is 1 ("Planner Cost Constants"); a page of 32 kB is four times
one of 8 kB, so that the unit is kept over the sizes: cold, what 8 kB of a sequential scan take; warm, where pages cost
next to nothing, what 100 rows take, as with the default cpu_tuple_cost of 0.01.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
class Setting:
    """A setting with its interval, and whether that excludes zero."""

    name: str
    value: float
    low: float
    high: float
    resolved: bool


def unit_seconds(fits: Mapping[int, Fit], *, cold: bool) -> float:
    """Seconds that a cost of 1 stands for; `fits` by block in bytes. Raises OctavoError when it was not measured.

    Without an 8 kB block among them, the nearest one's sequential page by bytes.
    """
    block = min(fits, key=lambda one: abs(one - _REFERENCE))
    estimates = fits[block].estimates
    found = estimates[SEQUENTIAL].seconds * _REFERENCE / block if cold else estimates[TUPLE].seconds * _TUPLES
    if found <= 0:
        what = "a page" if cold else "a row"
        raise OctavoError(f"{what} takes too little time here to be measured; use more --rounds, or a quieter machine")
    return found


def settings(found: Fit, unit: float, *, cold: bool) -> list[Setting]:
    """The planner's cost settings, in this unit."""
    made: list[Setting] = []
    for name, (when_cold, when_warm) in _SETTINGS.items():
        estimate = found.estimates[when_cold if cold else when_warm]
        made.append(_setting(name, estimate, unit))
    return made


def _setting(name: str, estimate: UnitCost, unit: float) -> Setting:
    return Setting(
        name, estimate.seconds / unit, max(0.0, estimate.low) / unit, estimate.high / unit, estimate.resolved
    )


def conf_lines(made: Sequence[Setting]) -> list[str]:
    """For postgresql.conf; a cost that cannot be told from zero is given as measured, and says so."""
    return [
        f"{one.name} = {figure(one.value)}" + ("" if one.resolved else "  # indistinguishable from 0") for one in made
    ]


def figure(value: float) -> str:
    """Three significant digits, without an exponent.

    >>> figure(1.0), figure(10.237), figure(0.00012345), figure(0)
    ('1.00', '10.2', '0.000123', '0')
    """
    if value <= 0:
        return "0"
    digits = 2
    while value * 10 ** (digits - 2) < 1 and digits < 12:
        digits += 1
    return f"{value:.{digits}f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"

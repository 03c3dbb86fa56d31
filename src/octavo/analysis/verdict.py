"""From an interval to a word: faster, slower (better, worse), same within x %, undecided (needs n more rounds)."""

import functools
import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from octavo.analysis.interval import Estimate
from octavo.analysis.layout import Flags, Floats, Integers
from octavo.units import human_count

_MOST = 1000  # a need beyond this is no plan
_SEARCHED = (20, 200, _MOST)  # most needs are small


@dataclass(frozen=True, slots=True)
class VerdictRule:
    """The rule by which an estimate becomes a verdict.

    `threshold`: the smallest difference of practical interest, as a fraction. `precision`: the half-width that is
    narrow enough, as a fraction. `controls`: the estimates of cells that cannot differ from the baseline; the farthest
    end of their intervals is the noise floor. `has_floor`: whether there should be any, so that controls without
    numbers do not count as a floor of zero. `most_loads`: the plan's number of loads.
    """

    threshold: float
    precision: float
    controls: tuple[Estimate, ...] = ()
    has_floor: bool = True
    most_loads: int = 1

    @property
    def floor(self) -> float | None:
        """The noise floor on the log scale; None while it is not known."""
        return noise_floor(self.controls) if self.has_floor else 0.0


@dataclass(frozen=True, slots=True)
class Decisions:
    """Which of the three a cell is, elementwise; none of them is undecided."""

    same: Flags
    different: Flags
    narrow: Flags

    @property
    def settled(self) -> Flags:
        """Whether it needs no more trials."""
        return self.same | self.different | self.narrow


def judge(
    log_ratio: Floats, half_width: Floats, floor: Floats | float, threshold: float, precision: float
) -> Decisions:
    """Same: the whole interval, and the noise floor, lie within the threshold. Different: the interval excludes 1 and
    the ratio lies beyond the noise floor. Narrow: neither, but the interval is as narrow as was asked for. NaN, and a
    floor of infinity, are undecided."""
    distance = np.abs(log_ratio)
    bound = math.log1p(threshold)
    same = (distance + half_width <= bound) & (floor <= bound)
    different = ~same & (distance > half_width) & (distance > floor)
    narrow = ~same & ~different & (half_width <= math.log1p(precision)) & np.isfinite(floor)
    return Decisions(same, different, narrow)


def verdict(estimate: Estimate, rule: VerdictRule, words: tuple[str, str]) -> str:
    """The word for an estimate; `words` are those for more and for less of the metric."""
    floor = rule.floor
    if estimate.half_width is None:
        return "undecided (needs more rounds for an interval)"
    if floor is None:
        missing = "more rounds of the control" if rule.controls else "a valid trial of the control"
        return f"undecided (needs {missing})"
    judged = judge(
        np.asarray(estimate.log_ratio), np.asarray(estimate.half_width), floor, rule.threshold, rule.precision
    )
    if judged.same:
        return f"same within {rule.threshold * 100:g} %"
    if judged.different:
        return words[0] if estimate.log_ratio > 0 else words[1]
    if judged.narrow:
        low, high = (_signed(math.expm1(estimate.log_ratio + side * estimate.half_width)) for side in (-1, 1))
        return f"undecided (within {low} to {high})"
    more = rounds_needed(estimate, rule)
    if more is not None:
        return f"undecided (needs {human_count(more, 'more round')})"
    if estimate.hosts_in_general:
        alike = replace(rule, controls=tuple(map(_alike, rule.controls)))
        if rounds_needed(_alike(estimate), alike) is not None:
            return "undecided (needs more hosts)"
    with_loads = rounds_needed(estimate, replace(rule, most_loads=_MOST))
    return f"undecided (needs {'more loads' if with_loads is not None else f'more than {_MOST} more rounds'})"


def noise_floor(controls: tuple[Estimate, ...]) -> float | None:
    """The farthest end of the controls' intervals on the log scale; None while it is not known."""
    ends = [abs(control.log_ratio) + control.half_width for control in controls if control.half_width is not None]
    return max(ends) if ends else None


def rounds_needed(estimate: Estimate, rule: VerdictRule) -> int | None:
    """The number of further rounds that would decide it, if estimates and spreads stay as they are; None if no number
    would, or while it or its noise floor has no interval.

    The trials' scatter shrinks with rounds, the loads' with new loads, as long as the plan has some; the deviation of a
    control's own estimate does not shrink, nor does what hosts differ by where the interval speaks of hosts in general.
    It is a forecast.
    """
    if estimate.half_width is None:
        return None
    for first, last in itertools.pairwise((0, *_SEARCHED)):
        if (found := _settled_after(estimate, rule, np.arange(first + 1, last + 1))) is not None:
            return found
    return None


def _settled_after(estimate: Estimate, rule: VerdictRule, more: Integers) -> int | None:
    """The first of these numbers of further rounds that would settle it; None when none would."""
    floor: Floats | float = 0.0
    if rule.has_floor:
        ends = [
            abs(control.log_ratio) + _shrunk(control, more, rule.most_loads)
            for control in rule.controls
            if control.half_width is not None
        ]
        floor = np.max(ends, axis=0) if ends else math.inf
    half_width = _shrunk(estimate, more, rule.most_loads)
    centre = np.full(half_width.shape, estimate.log_ratio)
    settled = judge(centre, half_width, floor, rule.threshold, rule.precision).settled
    return int(more[int(np.argmax(settled))]) if settled.any() else None


def _alike(estimate: Estimate) -> Estimate:
    """The same if hosts did not differ."""
    return replace(estimate, of_hosts=0.0) if estimate.hosts_in_general else estimate


def _signed(fraction: float) -> str:
    return f"{fraction * 100:+.1f} %".replace("-", "−")


def _shrunk(estimate: Estimate, more: Integers, most_loads: int) -> Floats:
    """The half-width after that many more rounds, at the level of the current analysis."""
    assert estimate.half_width is not None
    assert estimate.critical is not None
    if estimate.half_width == 0:
        return np.zeros(more.shape)
    variance = (estimate.half_width / estimate.critical) ** 2
    loads = np.maximum(estimate.loads, np.minimum(most_loads, estimate.loads + more))
    after = estimate.rounds + more
    of_hosts = min(variance, (estimate.of_hosts or 0.0) / estimate.hosts) if estimate.hosts_in_general else 0.0
    of_loads = min(estimate.of_loads, variance - of_hosts)
    of_trials = variance - of_hosts - of_loads
    shrunk = of_hosts + of_loads * estimate.loads / loads + of_trials * estimate.rounds / after
    if estimate.hosts_in_general:  # the degrees of freedom are the hosts'
        return estimate.critical * np.sqrt(np.maximum(shrunk, 0))
    critical = _critical_later(estimate.degrees_of_freedom, estimate.rounds, estimate.critical)[more - 1]
    return critical * np.sqrt(np.maximum(shrunk, 0))


@functools.cache
def _critical_later(freedom: int, rounds: int, critical: float) -> Floats:
    """The critical values after 1 to _MOST more rounds; the cells of a condition share most of them."""
    from scipy.special import stdtr, stdtrit

    later = freedom * (rounds + np.arange(_MOST)) / max(rounds - 1, 1)
    return np.asarray(-stdtrit(later, stdtr(freedom, -critical)))

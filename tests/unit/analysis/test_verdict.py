"""From an estimate to a verdict."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from octavo.analysis.interval import Estimate
from octavo.analysis.verdict import VerdictRule, rounds_needed, verdict

THRESHOLD, PRECISION = 0.03, 0.015
FASTER = ("faster", "slower")
WITHOUT_CONTROL = VerdictRule(THRESHOLD, PRECISION, has_floor=False)


def student(freedom: float) -> float:
    return -float(stdtrit(freedom, 0.025))


def interval(log_ratio: float, half_width: float, freedom: int = 8, *, of_loads: float = 0.0) -> Estimate:
    return Estimate(
        log_ratio, half_width, freedom, 2, 10, conditional=True, critical=student(freedom), of_loads=of_loads
    )


def rule(floor: float) -> VerdictRule:
    """A control without bias whose interval reaches that far."""
    return VerdictRule(THRESHOLD, PRECISION, (interval(0.0, floor),))


@pytest.mark.parametrize(
    ("estimated", "floor", "words", "word"),
    [
        (interval(0.10, 0.02), 0.03, FASTER, "faster"),
        (interval(-0.10, 0.02), 0.03, FASTER, "slower"),
        (interval(0.10, 0.02), 0.03, ("slower", "faster"), "slower"),
        (interval(0.10, 0.02), 0.03, ("more", "less"), "more"),
        (interval(-0.10, 0.02), 0.03, ("more", "less"), "less"),
        (interval(0.002, 0.01), 0.02, FASTER, "same within 3 %"),
        (interval(0.010, 0.005), 0.005, FASTER, "same within 3 %"),  # a difference, but not of interest
        (interval(0.020, 0.012), 0.05, FASTER, "undecided (within +0.8 % to +3.3 %)"),
        (interval(-0.020, 0.012), 0.05, FASTER, "undecided (within −3.1 % to −0.8 %)"),
    ],
)
def test_the_words_of_a_verdict(estimated: Estimate, floor: float, words: tuple[str, str], word: str) -> None:
    assert verdict(estimated, rule(floor), words) == word


@pytest.mark.parametrize("estimated", [interval(0.10, 0.02), interval(0.002, 0.016)])
def test_within_the_noise_floor_nothing_is_decided(estimated: Estimate) -> None:
    assert verdict(estimated, rule(0.11), FASTER).startswith("undecided (needs ")


def test_a_control_without_numbers_is_no_floor_of_zero() -> None:
    certain, unknown = interval(0.10, 0.001), replace(interval(0.0, 0.0), half_width=None, critical=None)
    assert verdict(certain, WITHOUT_CONTROL, FASTER) == "faster"
    for rule_, missing in (
        (VerdictRule(THRESHOLD, PRECISION), "a valid trial of the control"),
        (VerdictRule(THRESHOLD, PRECISION, (unknown,)), "more rounds of the control"),
    ):
        assert verdict(certain, rule_, FASTER) == f"undecided (needs {missing})"
        assert rounds_needed(certain, rule_) is None
    assert verdict(unknown, WITHOUT_CONTROL, FASTER) == "undecided (needs more rounds for an interval)"
    assert rounds_needed(unknown, WITHOUT_CONTROL) is None


def test_what_a_thousand_rounds_do_not_settle_is_not_for_want_of_loads() -> None:
    hopeless = interval(0.0, 30.0)
    assert verdict(hopeless, WITHOUT_CONTROL, FASTER) == "undecided (needs more than 1000 more rounds)"


def test_undecided_says_how_many_more_rounds_and_that_number_decides() -> None:
    more = rounds_needed(interval(0.05, 0.06), WITHOUT_CONTROL)
    assert more is not None
    assert verdict(interval(0.05, 0.06), WITHOUT_CONTROL, FASTER) == f"undecided (needs {more} more rounds)"

    def half_width(extra: int) -> float:
        rounds = 10 + extra
        wider = student(8 * (rounds - 1) / 9) / student(8)
        return wider * 0.06 * math.sqrt(10 / rounds)

    assert half_width(more) < 0.05 <= half_width(more - 1)


def test_what_loads_scatter_shrinks_with_loads_only() -> None:
    known = interval(0.05, 0.06)
    assert known.critical is not None
    all_of_loads = interval(0.05, 0.06, of_loads=(0.06 / known.critical) ** 2)
    few = VerdictRule(THRESHOLD, PRECISION, has_floor=False, most_loads=2)
    many = VerdictRule(THRESHOLD, PRECISION, has_floor=False, most_loads=50)
    assert rounds_needed(all_of_loads, few) is None
    assert verdict(all_of_loads, few, FASTER) == "undecided (needs more loads)"
    assert rounds_needed(all_of_loads, many) is not None


def test_what_hosts_differ_by_shrinks_with_hosts_only() -> None:
    """More rounds neither narrow it nor give more degrees of freedom, which are those of the hosts."""
    known = interval(0.05, 0.06, freedom=5)
    assert known.critical is not None
    variance = (0.06 / known.critical) ** 2
    fleet = replace(known, hosts=6, hosts_in_general=True, of_hosts=0.0)
    rounds = rounds_needed(fleet, WITHOUT_CONTROL)
    assert rounds is not None
    assert 0.06 * math.sqrt(10 / (10 + rounds)) < 0.05 <= 0.06 * math.sqrt(10 / (9 + rounds))
    apart = replace(fleet, of_hosts=6 * variance)
    assert rounds_needed(apart, WITHOUT_CONTROL) is None
    assert verdict(apart, WITHOUT_CONTROL, FASTER) == "undecided (needs more hosts)"
    half = replace(fleet, of_hosts=3 * variance)
    more = rounds_needed(half, WITHOUT_CONTROL)
    assert more is not None and more > rounds
    hopeless = replace(fleet, log_ratio=0.0, half_width=30.0)
    assert verdict(hopeless, WITHOUT_CONTROL, FASTER) == "undecided (needs more than 1000 more rounds)"


def test_a_biased_control_does_not_shrink_with_rounds() -> None:
    biased = VerdictRule(THRESHOLD, 0.0001, (interval(0.06, 0.01),))
    assert verdict(interval(0.05, 0.01), biased, FASTER).startswith("undecided (needs ")
    assert not verdict(interval(0.05, 0.01), biased, FASTER).startswith("undecided (needs 1 ")


@given(
    log_ratio=st.floats(-1, 1),
    half_width=st.floats(0, 1),
    floor=st.none() | st.floats(0, 1),
    freedom=st.integers(1, 50),
)
def test_a_decided_verdict_never_contradicts_its_interval(
    log_ratio: float, half_width: float, floor: float | None, freedom: int
) -> None:
    held = WITHOUT_CONTROL if floor is None else rule(floor)
    word = verdict(interval(log_ratio, half_width, freedom), held, FASTER)
    if word == "faster":
        assert log_ratio - half_width > 0
    elif word == "slower":
        assert log_ratio + half_width < 0
    elif word == "same within 3 %":
        assert math.exp(abs(log_ratio) + half_width) <= 1 + THRESHOLD + 1e-12
    elif word.startswith("undecided (within "):
        assert math.exp(half_width) <= 1 + PRECISION + 1e-12
    else:
        assert word.startswith("undecided (needs ")

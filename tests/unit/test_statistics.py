"""Known answers, and what must hold for any numbers."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.plans import small_plan

from octavo.analysis.interval import Estimate, estimate, student_quantile
from octavo.analysis.pairing import LogRatio, log_ratios, used_trials
from octavo.analysis.sentence import sentence
from octavo.analysis.verdict import Better, Rule, verdict
from octavo.observation import Observation
from octavo.plan.cells import make_cells
from octavo.store.records import TrialRecord, TrialStatus

THRESHOLD = 0.03
WITHOUT_CONTROL = Rule(THRESHOLD, has_control=False)


def ratios(*loads: list[float]) -> list[LogRatio]:
    """Log ratios, one list a load."""
    numbered = [(load, value) for load, values in enumerate(loads, 1) for value in values]
    return [LogRatio(number, load, value) for number, (load, value) in enumerate(numbered, 1)]


def test_students_t_as_tables_have_it() -> None:
    assert student_quantile(1) == pytest.approx(12.7062, abs=1e-4)
    assert student_quantile(3) == pytest.approx(3.18245, abs=1e-5)
    assert student_quantile(30) == pytest.approx(2.04227, abs=1e-5)


def test_one_load_is_the_textbook_interval_of_a_mean() -> None:
    # mean 0.02, standard deviation 0.01, n 3: half width 4.30265 × 0.01 / √3
    result = estimate(ratios([0.01, 0.02, 0.03]))
    assert result.log_ratio == pytest.approx(0.02)
    assert result.half_width == pytest.approx(4.30265 * 0.01 / math.sqrt(3), rel=1e-5)
    assert (result.degrees_of_freedom, result.loads, result.rounds, result.conditional) == (2, 1, 3, True)


def test_two_loads_weigh_the_same_however_many_rounds_they_have() -> None:
    # load means 0.02 and 0.06; pooled variance (2 × 0.01² + 0) / 3 with sums of squares 0.0002 and 0.0002
    result = estimate(ratios([0.01, 0.02, 0.03], [0.05, 0.07]))
    assert result.log_ratio == pytest.approx(0.04)
    variance = (0.0002 + 0.0002) / 3
    assert result.half_width == pytest.approx(3.18245 * math.sqrt(variance * (1 / 3 + 1 / 2) / 4), rel=1e-5)
    assert result.conditional


def test_four_loads_are_the_replicates() -> None:
    # rounds within a load agree perfectly; the loads do not, and theirs is the spread that counts
    result = estimate(ratios([0.0, 0.0], [0.02, 0.02], [0.04, 0.04], [0.06, 0.06]))
    assert result.log_ratio == pytest.approx(0.03)
    deviation = math.sqrt((0.03**2 + 0.01**2) * 2 / 3)
    assert result.half_width == pytest.approx(3.18245 * deviation / 2, rel=1e-5)
    assert not result.conditional


def test_one_round_has_no_interval() -> None:
    result = estimate(ratios([0.5]))
    assert (result.half_width, result.low, result.high) == (None, None, None)
    assert verdict(result, WITHOUT_CONTROL, "higher") == "undecided (needs 1 more)"


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    source = random.Random(1)
    covered = 0
    experiments = 4000
    for _ in range(experiments):
        values = [[source.gauss(0.05, 0.02) for _ in range(rounds)] for rounds in (3, 2)]
        result = estimate(ratios(*values))
        assert result.half_width is not None
        covered += abs(result.log_ratio - 0.05) <= result.half_width
    assert 0.94 < covered / experiments < 0.96


def interval(log_ratio: float, half_width: float, freedom: int = 8) -> Estimate:
    return Estimate(log_ratio, half_width, freedom, 2, 10, conditional=True)


def rule(floor: float) -> Rule:
    """A control without bias whose interval reaches that far."""
    return Rule(THRESHOLD, interval(0.0, floor))


@pytest.mark.parametrize(
    ("estimated", "floor", "better", "word"),
    [
        (interval(0.10, 0.02), 0.03, "higher", "faster"),
        (interval(-0.10, 0.02), 0.03, "higher", "slower"),
        (interval(0.10, 0.02), 0.03, "lower", "slower"),
        (interval(0.10, 0.02), 0.03, None, "more"),
        (interval(-0.10, 0.02), 0.03, None, "less"),
        (interval(0.002, 0.01), 0.02, "higher", "same within 3 %"),
        (interval(0.010, 0.005), 0.005, "higher", "same within 3 %"),  # a difference, but of no interest
    ],
)
def test_the_words_of_a_verdict(estimated: Estimate, floor: float, better: Better, word: str) -> None:
    assert verdict(estimated, rule(floor), better) == word


@pytest.mark.parametrize("estimated", [interval(0.10, 0.02), interval(0.002, 0.01)])
def test_within_the_noise_floor_nothing_is_decided(estimated: Estimate) -> None:
    assert verdict(estimated, rule(0.11), "higher").startswith("undecided (needs ")


def test_a_control_without_numbers_is_no_floor_of_zero() -> None:
    certain = interval(0.10, 0.001)
    assert verdict(certain, Rule(THRESHOLD, None), "higher") == "undecided (needs 1 more)"
    assert verdict(certain, WITHOUT_CONTROL, "higher") == "faster"


def test_undecided_says_how_many_more_rounds_and_that_number_decides() -> None:
    word = verdict(interval(0.05, 0.06), WITHOUT_CONTROL, "higher")
    more = int(word.removeprefix("undecided (needs ").removesuffix(" more)"))
    spread = 0.06 / student_quantile(8)

    def half_width(extra: int) -> float:
        return student_quantile(8 + extra) * spread * math.sqrt(10 / (10 + extra))

    assert half_width(more) < 0.05 <= half_width(more - 1)


def test_a_biased_control_does_not_shrink_with_rounds() -> None:
    biased = Rule(THRESHOLD, interval(0.06, 0.01))
    assert verdict(interval(0.05, 0.01), biased, "higher") == "undecided (needs more loads)"


def test_beyond_these_loads_it_is_loads_that_are_needed() -> None:
    general = Estimate(0.05, 0.06, 3, 4, 20, conditional=False)
    assert verdict(general, WITHOUT_CONTROL, "higher").endswith(" more loads)")


def test_several_cells_against_one_baseline_share_the_risk() -> None:
    # Šidák: 0.95^(1/3) each; t for 8 degrees of freedom at 0.99152 is 3.0310
    assert student_quantile(8, 3) == pytest.approx(3.016, abs=0.02)
    values = ratios([0.01, 0.02, 0.03])
    one, three = estimate(values), estimate(values, 3)
    assert one.half_width is not None
    assert three.half_width == pytest.approx(one.half_width * student_quantile(2, 3) / student_quantile(2))


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
    word = verdict(interval(log_ratio, half_width, freedom), held, "higher")
    if word == "faster":
        assert log_ratio - half_width > 0
    elif word == "slower":
        assert log_ratio + half_width < 0
    elif word == "same within 3 %":
        assert math.exp(abs(log_ratio) + half_width) <= 1 + THRESHOLD + 1e-12
    else:
        assert word.startswith("undecided (needs ")


def trial(cell: str, round_number: int, tps: float, *, status: TrialStatus = "ok", attempt: int = 1) -> TrialRecord:
    observations = (Observation("tps", tps, "1/s"),)
    return TrialRecord(cell, round_number, attempt, 1, 1, status, None, 0.0, 1.0, 1, observations)


def test_ratios_are_taken_within_rounds_and_leave_out_what_is_not_believed() -> None:
    cells = make_cells(small_plan(mode=["read-only"]))
    small, baseline, control = (cell.id for cell in cells)
    trials = [
        trial(small, 1, 110), trial(baseline, 1, 100), trial(control, 1, 101),
        trial(small, 2, 220), trial(baseline, 2, 200, status="invalid"),  # no baseline in this round
        trial(small, 3, 999, attempt=1), trial(baseline, 3, 1, attempt=1),  # an attempt that was broken
        trial(small, 3, 330, attempt=2), trial(baseline, 3, 300, attempt=2),
    ]  # fmt: skip
    found = log_ratios(cells, trials)
    assert [(ratio.round, ratio.value) for ratio in found[small][None, "tps"]] == [
        (1, pytest.approx(math.log(1.1))),
        (3, pytest.approx(math.log(1.1))),
    ]
    assert [ratio.round for ratio in found[control][None, "tps"]] == [1]
    assert baseline not in found
    assert used_trials(trials)[3, small].attempt == 2


@given(drift=st.lists(st.floats(0.1, 10), min_size=2, max_size=8), true_ratio=st.floats(0.5, 2))
def test_drift_between_rounds_cancels(drift: list[float], true_ratio: float) -> None:
    cells = make_cells(small_plan(mode=["read-only"]))
    small, baseline, _ = (cell.id for cell in cells)
    trials = [
        trial(cell, number, 1000 * level * (true_ratio if cell == small else 1))
        for number, level in enumerate(drift, 1)
        for cell in (small, baseline)
    ]
    result = estimate(log_ratios(cells, trials)[small][None, "tps"])
    assert result.ratio == pytest.approx(true_ratio)
    assert result.half_width == pytest.approx(0, abs=1e-9)


def test_a_number_that_is_zero_in_any_round_has_no_ratio() -> None:
    cells = make_cells(small_plan(mode=["read-only"]))
    small, baseline, _ = (cell.id for cell in cells)
    trials = [trial(small, 1, 110), trial(baseline, 1, 100), trial(small, 2, 0), trial(baseline, 2, 100)]
    assert log_ratios(cells, trials)[small] == {}


@pytest.mark.parametrize(
    ("compared", "word", "claim"),
    [
        (["data_block"], "faster", "4kB data pages are faster than 8kB: TPS × 1.100"),
        (["data_block"], "same within 3 %", "4kB and 8kB data pages are the same within 3 %: "),
        (["clients"], "slower", "clients 4kB is slower than 8kB: "),
        (["clients"], "undecided (needs 2 more)", "clients 4kB against 8kB is undecided (needs 2 more): "),
    ],
)
def test_a_sentence_names_what_is_compared(compared: list[str], word: str, claim: str) -> None:
    cells = make_cells(small_plan(mode=["read-only"]))
    effect = {
        "cell": cells[0].id, "condition": "", "verdict": word, "ratio": 1.1, "low": 1.05, "high": 1.15,
        "loads": 2, "conditional": True,
    }  # fmt: skip
    text = sentence(effect, cells, compared, "TPS", 0.02, writes=False)
    assert text.startswith(claim)
    assert text.endswith("(95 % interval 1.050 to 1.150; noise floor 2.0 %), conditional on these 2 loads.")

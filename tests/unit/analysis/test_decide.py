"""The cells with which a run continues, determined by its trials alone."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.analysis import decide
from octavo.analysis.decide import AnalysedCondition, analysed_conditions, decision_progress, open_cells
from octavo.analysis.trials import used_trials, values_of
from octavo.plan.cells import Cell, make_cells
from octavo.plan.model import Plan
from octavo.store.records import TrialRecord

from ..plans import changed_plan
from .making import analyse_rounds, read_only_plan, trial

PLAN, (SMALL, BASELINE, CONTROL) = read_only_plan()
# One load, so that no cell waits for more of them.
ONE_LOAD = PLAN.model_copy(update={"loads": 1, "rounds": 30})
NOISE = 0.005


def a_round(number: int, ratio: float, source: random.Random) -> list[TrialRecord]:
    return [
        trial(
            cell,
            number,
            1000 * (ratio if cell is SMALL else 1) * (1 + source.gauss(0, NOISE)),
            load=1 + 9 * (cell is CONTROL),
        )
        for cell in (SMALL, BASELINE, CONTROL)
    ]


def open_after(plan: Plan, trials: list[TrialRecord]) -> set[str]:
    cells: list[Cell] = [SMALL, BASELINE, CONTROL]
    return set(open_cells(plan, cells, trials, "tps"))


def test_a_run_begins_with_every_cell_but_baselines_and_controls_open() -> None:
    assert open_after(ONE_LOAD, []) == {SMALL.id}


def test_where_only_negative_controls_are_compared_they_are_measured_until_they_are_known_well() -> None:
    plan = ONE_LOAD.model_copy(update={"negative": ["data_block"]})
    source = random.Random(1)
    trials: list[TrialRecord] = []
    for number in range(1, 21):
        assert open_after(plan, trials) == {SMALL.id}, number
        trials += a_round(number, 1.0, source)
        if not open_after(plan, trials):
            break
    standing = decision_progress(plan, [SMALL, BASELINE, CONTROL], trials, "tps")
    assert (standing.settled, standing.open) == (1, 0)
    assert len(trials) >= 6


def test_a_large_effect_is_decided_after_a_few_rounds_and_stays_so() -> None:
    source = random.Random(1)
    trials: list[TrialRecord] = []
    taken = 0
    while open_after(ONE_LOAD, trials):
        taken += 1
        trials += a_round(taken, 1.5, source)
    assert 2 <= taken <= 5
    for number in range(taken + 1, taken + 10):  # rounds in which another condition was measured, or noise
        trials += a_round(number, 1.0, source)
        assert open_after(ONE_LOAD, trials) == frozenset()


def test_a_round_that_has_not_ended_is_not_looked_at() -> None:
    source = random.Random(1)
    trials = [one for number in (1, 2, 3, 4, 5) for one in a_round(number, 1.5, source)]
    assert open_after(ONE_LOAD, trials) == frozenset()
    assert open_after(ONE_LOAD, [*a_round(1, 1.5, source), *a_round(2, 1.5, source)[:2]]) == {SMALL.id}


def test_before_the_first_look_nothing_is_decided() -> None:
    source = random.Random(1)
    late = ONE_LOAD.model_copy(update={"first_look": 8})
    trials = [one for number in range(1, 8) for one in a_round(number, 1.5, source)]
    assert open_after(late, trials) == {SMALL.id}
    assert open_after(late, [*trials, *a_round(8, 1.5, source)]) == frozenset()


def test_a_cell_that_fails_twice_is_not_waited_for() -> None:
    failing = [
        one
        for number in (1, 2)
        for one in (trial(SMALL, number, status="failed"), trial(BASELINE, number, 100), trial(CONTROL, number, 100))
    ]
    assert open_after(ONE_LOAD, failing[:3]) == {SMALL.id}
    assert open_after(ONE_LOAD, failing) == frozenset()


def test_a_baseline_that_fails_twice_ends_its_condition() -> None:
    failing = [
        one for number in (1, 2) for one in (trial(SMALL, number, 100), trial(BASELINE, number, status="failed"))
    ]
    assert open_after(ONE_LOAD, failing) == frozenset()


def test_cells_that_cannot_run_are_not_waited_for() -> None:
    assert open_after(ONE_LOAD, [trial(SMALL, 1, status="skipped")]) == frozenset()


def test_the_outlook_counts_and_foresees() -> None:
    source = random.Random(1)
    cells: list[Cell] = [SMALL, BASELINE, CONTROL]
    before = decision_progress(ONE_LOAD, cells, [], "tps")
    assert (before.settled, before.open, before.rounds) == (0, 1, None)
    trials = [*a_round(1, 1.01, source), *a_round(2, 1.01, source)]
    during = decision_progress(ONE_LOAD, cells, trials, "tps")
    assert (during.settled, during.open) == (0, 1)
    assert during.rounds is not None
    assert during.rounds >= 1
    for number in range(3, 31):
        trials += a_round(number, 1.01, source)
    after = decision_progress(ONE_LOAD, cells, trials, "tps")
    assert (after.settled, after.open, after.rounds) == (1, 0, None)


@pytest.mark.parametrize("lost", [SMALL, BASELINE])
def test_what_is_given_up_is_not_decided(lost: Cell) -> None:
    source = random.Random(1)
    trials = [
        replace(one, status="failed", observations=()) if one.cell == lost.id else one
        for number in (1, 2)
        for one in a_round(number, 1.5, source)
    ]
    found = decision_progress(ONE_LOAD, [SMALL, BASELINE, CONTROL], trials, "tps")
    assert (found.settled, found.open, found.given_up) == (0, 0, 1)


@settings(max_examples=25)
@given(seed=st.integers(0, 1000), ratio=st.floats(0.9, 1.1), shuffled=st.randoms(use_true_random=False))
def test_the_order_in_which_trials_are_read_changes_nothing(seed: int, ratio: float, shuffled: random.Random) -> None:
    source = random.Random(seed)
    trials = [one for number in range(1, 7) for one in a_round(number, ratio, source)]
    mixed = list(trials)
    shuffled.shuffle(mixed)
    assert open_after(ONE_LOAD, trials) == open_after(ONE_LOAD, mixed)


def conditions_with(ratios: dict[str, float], rounds: int = 6, noise: float = NOISE) -> list[AnalysedCondition]:
    """The analyses of two modes, in each of which 4 kB pages have the given ratio to 8 kB."""
    plan = changed_plan({}, mode=list(ratios)).model_copy(update={"loads": 1, "rounds": 30})
    cells, source = make_cells(plan), random.Random(3)
    trials = [
        trial(
            cell,
            number,
            1000 * (1 if cell.baseline or cell.control else ratios[cell.levels["mode"]]) * (1 + source.gauss(0, noise)),
            load=1 + 9 * cell.control,
        )
        for number in range(1, rounds + 1)
        for cell in cells
    ]
    used = used_trials(trials)
    values = {place: values_of(one, items=False)[None, "tps"] for place, one in used.items()}
    return analysed_conditions(plan, cells, trials, used, values)


def test_where_more_conditions_differ_each_has_more_of_the_error() -> None:
    for ratios, confidence in (
        ({"read-only": 1.3, "read-write": 1.2}, 0.95),
        ({"read-only": 1.3, "read-write": 1.0}, 0.975),
        ({"read-only": 1.0, "read-write": 1.0}, 0.975),
    ):
        found = conditions_with(ratios)
        assert [one.condition.question.confidence for one in found] == [confidence] * 2
        affected = [one.history.has_effect(one.condition.question) for one in found]
        assert affected == [ratio != 1.0 for ratio in ratios.values()]


@pytest.mark.parametrize("rounds", [3, 8])
@pytest.mark.parametrize("ratios", [(1.3, 1.2), (1.3, 1.0), (1.02, 1.03), (1.0, 1.0)])
def test_levels_that_are_kept_are_those_computed_again(
    ratios: tuple[float, float], rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> list[list[object]]:
        conditions = conditions_with(dict(zip(("read-only", "read-write"), ratios, strict=True)), rounds, noise=0.02)
        return [
            [one.condition.question.affected, one.history.stopped.tolist(), [repr(at) for at in one.history.analyses]]
            for one in conditions
        ]

    kept, confirmed = found(), decide.at_confirmed_level

    def without_memory(some: Sequence[AnalysedCondition], _: object) -> list[AnalysedCondition]:
        return confirmed(some, [{} for _ in some])

    monkeypatch.setattr(decide, "at_confirmed_level", without_memory)
    assert found() == kept


def test_an_effect_in_another_condition_does_not_change_earlier_analyses() -> None:
    """These trials all end at the same time: the rounds of read-only come first, when nothing is known of
    read-write."""
    read_only, read_write = conditions_with({"read-only": 1.035, "read-write": 1.6}, rounds=12, noise=0.03)
    question = read_only.condition.question
    assert (question.affected, read_write.history.stopped.max()) == (1, 2)
    assert read_only.history.open(question)
    assert read_only.layout is not None
    with_all_of_the_error = analyse_rounds(read_only.layout, replace(question, affected=2), range(1, 13))
    assert with_all_of_the_error.stopped.max() == 3

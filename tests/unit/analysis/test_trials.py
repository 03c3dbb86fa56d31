"""The trials that count, and where ratios are computed."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.analysis.condition import conditions_of, layout_of
from octavo.analysis.contrasts import contrasts
from octavo.analysis.interim import Role
from octavo.analysis.layout import Layout
from octavo.analysis.running_ratio import running_ratios
from octavo.analysis.trials import given_up, used_trials, values_by_key, values_of_wholes
from octavo.observation import Observation
from octavo.plan.cells import Cell
from octavo.store.records import TrialRecord

from .making import read_only_plan, trial

PLAN, (SMALL, BASELINE, CONTROL) = read_only_plan()
CELLS: list[Cell] = [SMALL, BASELINE, CONTROL]


def table(trials: list[TrialRecord]) -> Layout | None:
    (condition,) = conditions_of(PLAN, CELLS, trials)
    used = used_trials(trials)
    return layout_of(condition, used, values_by_key(used).get((None, "tps"), {}))


def test_ratios_are_taken_within_rounds_and_leave_out_what_is_not_believed() -> None:
    trials = [
        trial(SMALL, 1, 110), trial(BASELINE, 1, 100), trial(CONTROL, 1, 101),
        trial(SMALL, 2, 220), trial(BASELINE, 2, 200, status="invalid"),  # no baseline in this round
        trial(SMALL, 3, 999, attempt=1), trial(BASELINE, 3, 1, attempt=1),  # an attempt that was broken off
        trial(SMALL, 3, 330, attempt=2), trial(BASELINE, 3, 300, attempt=2),
    ]  # fmt: skip
    made = table(trials)
    assert made is not None
    assert made.baseline == CELLS.index(BASELINE)
    difference = made.values - made.values[made.baseline]
    assert difference[0] == pytest.approx([math.log(1.1), np.nan, math.log(1.1)], nan_ok=True)
    assert difference[2] == pytest.approx([math.log(1.01), np.nan, np.nan], nan_ok=True)
    assert used_trials(trials)[3, 1, SMALL.id].attempt == 2


def test_slices_are_not_compared_with_those_that_were_repeated() -> None:
    trials = [
        trial(BASELINE, 1, 100), trial(SMALL, 1, 110), trial(CONTROL, 1, 1, status="invalid"),
        trial(BASELINE, 1, 50), trial(SMALL, 1, 1, status="invalid"), trial(CONTROL, 1, 50),
    ]  # fmt: skip
    assert used_trials(trials) == {(1, 1, BASELINE.id): trials[3], (1, 1, CONTROL.id): trials[5]}


def test_a_round_in_parts_compares_within_each() -> None:
    trials = [
        trial(SMALL, 1, 110, part=1), trial(BASELINE, 1, 100, part=1),
        trial(CONTROL, 1, 50, part=2), trial(BASELINE, 1, 50, part=2),
    ]  # fmt: skip
    made = table(trials)
    assert made is not None
    assert made.rounds.tolist() == [1, 1]
    found = contrasts(made)
    assert found.centre[0] == pytest.approx(math.log(1.1))
    assert found.centre[2] == pytest.approx(0)


@given(drift=st.lists(st.floats(0.1, 10), min_size=3, max_size=8), true_ratio=st.floats(0.5, 2))
def test_drift_between_rounds_cancels(drift: list[float], true_ratio: float) -> None:
    made = table(
        [
            trial(cell, number, 1000 * level * (true_ratio if cell is SMALL else 1))
            for number, level in enumerate(drift, 1)
            for cell in (SMALL, BASELINE)
        ]
    )
    assert made is not None
    found = contrasts(made)
    assert math.exp(found.centre[0]) == pytest.approx(true_ratio)
    assert found.variance[0] == pytest.approx(0, abs=1e-9)


def test_a_number_that_is_zero_in_any_trial_has_no_ratio() -> None:
    made = table([trial(SMALL, 1, 110), trial(BASELINE, 1, 100), trial(SMALL, 2, 0), trial(BASELINE, 2, 100)])
    assert made is not None
    assert np.isnan(made.values[0]).all()
    assert table([trial(SMALL, 1, 110), trial(BASELINE, 1, 100), trial(SMALL, 2, 9), trial(BASELINE, 2, 0)]) is None


def queries(cell: Cell, number: int, seconds: float, *, cancelled: str = "") -> TrialRecord:
    """A trial of two queries, each run twice; one run may have been cancelled."""
    seen = [
        Observation("seconds", seconds, "s", item, repetition)
        for item in ("q1", "q2")
        for repetition in ((2,) if item == cancelled else (1, 2))
    ]
    if cancelled:
        seen += [Observation("seconds_min", seconds, "s", cancelled), Observation("timed_out", 1.0, "1", cancelled)]
    else:
        seen.append(Observation("seconds", 2 * seconds, "s"))
    return replace(trial(cell, number, 1), observations=tuple(seen))


def test_a_query_of_which_a_run_was_cancelled_has_no_time_in_that_cell() -> None:
    """It had ended in 1 s on the other load: half of the baseline's time, if only that load counted."""
    trials = [queries(cell, number, seconds, cancelled="q1" if (cell, number) == (SMALL, 2) else "")
              for cell, seconds in ((SMALL, 1.0), (BASELINE, 2.0)) for number in (1, 2)]  # fmt: skip
    used = used_trials(trials)
    values = values_by_key(used)
    only_baseline = {(number, 1, BASELINE.id) for number in (1, 2)}
    assert values["q1", "seconds"].keys() == values[None, "seconds"].keys() == only_baseline
    assert ("q1", "seconds_min") not in values
    assert len(values["q2", "seconds"]) == 4
    assert values["q1", "timed_out"] == {(2, 1, SMALL.id): 1.0}
    assert values_of_wholes(used, "seconds") == values[None, "seconds"]
    assert running_ratios(CELLS, trials, "seconds") == {}
    assert values_by_key(used_trials([one for one in trials if one.round == 1]))["q1", "seconds"].keys() == {
        (1, 1, cell.id) for cell in (SMALL, BASELINE)
    }


def test_without_a_trial_there_is_no_table() -> None:
    assert table([trial(BASELINE, 1, status="failed"), trial(SMALL, 1, status="failed")]) is None


def test_a_cell_that_fails_twice_is_given_up_and_one_that_recovers_is_not() -> None:
    failing = [trial(SMALL, number, status="failed", attempt=at) for number in (1, 2) for at in (1, 2)]
    assert given_up(failing) == {SMALL.id}
    assert given_up(failing[:2]) == set()
    assert given_up([trial(SMALL, 1, status="failed"), trial(SMALL, 1, 100), trial(SMALL, 2, status="failed")]) == set()


def invalid(round_number: int, rule: str, *, attempt: int = 1, **facts: object) -> TrialRecord:
    return replace(trial(SMALL, round_number, status="invalid", attempt=attempt), facts={"rule": rule, **facts})


def test_a_cell_is_given_up_that_is_invalid_in_three_rounds_for_a_reason_that_lasts() -> None:
    lasting = [invalid(number, "transactions", attempt=at) for number in (1, 2, 3) for at in (1, 2)]
    assert given_up(lasting) == {SMALL.id}
    assert given_up(lasting[:4]) == set()
    assert given_up([trial(SMALL, 1, 100), *(replace(one, round=one.round + 1) for one in lasting)]) == {SMALL.id}
    assert given_up([*lasting, trial(SMALL, 3, 100)]) == set()  # repeated, and valid
    assert given_up([*lasting[:4], invalid(3, "duration"), invalid(4, "duration")]) == set()


@pytest.mark.parametrize("rule", ["clock", "steal", "foreign_cpu", "foreign_io", "knobs"])
def test_what_others_did_is_waited_for(rule: str) -> None:
    assert given_up([invalid(number, rule) for number in range(1, 10)]) == set()
    assert given_up([invalid(1, "transactions"), invalid(2, "transactions"), invalid(3, rule)]) == set()


def test_turns_that_others_disturbed_make_no_lasting_reason() -> None:
    assert given_up([invalid(number, "duration", turns_dropped=7) for number in range(1, 10)]) == set()
    assert given_up([invalid(number, "duration", turns_dropped=0) for number in range(1, 4)]) == {SMALL.id}


def test_failures_are_of_one_reason_whatever_numbers_they_name() -> None:
    fine = trial(SMALL, 1, 100)
    failures = [
        replace(trial(SMALL, number, status="failed"), reason=f"the server (pid {number}) is gone")
        for number in (2, 3, 4)
    ]
    assert given_up([fine, *failures]) == {SMALL.id}
    assert given_up([fine, *failures[:2], replace(failures[2], reason="the disk is gone")]) == set()


def test_cells_have_roles_and_a_factor_that_cannot_matter_makes_a_negative_control() -> None:
    trials = [trial(cell, 1, 100) for cell in CELLS]
    (condition,) = conditions_of(PLAN, CELLS, trials)
    assert condition.question.roles == (Role.COMPARED, Role.BASELINE, Role.CONTROL)
    negative = PLAN.model_copy(update={"negative": ["data_block"]})
    (condition,) = conditions_of(negative, CELLS, trials)
    assert condition.question.roles == (Role.NEGATIVE, Role.BASELINE, Role.CONTROL)


@pytest.mark.parametrize(("loads", "rounds", "waits"), [(4, 30, True), (3, 30, True), (2, 30, False), (4, 2, False)])
def test_loads_in_general_are_waited_for_where_there_will_be_enough(loads: int, rounds: int, waits: bool) -> None:
    """Three datasets have four degrees of freedom between loads after three of them; a round uses one."""
    plan = PLAN.model_copy(update={"loads": loads, "rounds": rounds})
    (condition,) = conditions_of(plan, CELLS, [])
    assert condition.question.waits_for_loads is waits


def test_a_cell_that_cannot_run_here_is_in_no_family() -> None:
    (condition,) = conditions_of(PLAN, CELLS, [trial(SMALL, 1, status="skipped")])
    assert condition.cells == (BASELINE, CONTROL)


def test_the_ratio_so_far_is_a_geometric_mean() -> None:
    trials = [trial(SMALL, 1, 200), trial(BASELINE, 1, 100), trial(SMALL, 2, 100), trial(BASELINE, 2, 200)]
    assert running_ratios(CELLS, trials, "tps") == {("", SMALL.label): pytest.approx(1)}

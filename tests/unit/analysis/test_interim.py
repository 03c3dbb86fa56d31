"""Interim analyses: what is decided remains so, and is no longer measured."""

from dataclasses import replace

import numpy as np
import pytest

from octavo.analysis.contrasts import contrasts
from octavo.analysis.dunnett import dunnett
from octavo.analysis.interim import Question, Role, after_round, analyse, begin, single_analysis

from .making import analyse_rounds, compared, layout

SOURCE = np.random.default_rng(1)
# A baseline, a cell that is twice as fast, one that is the same, one that stays near the threshold.
ROUNDS = 12
VALUES = np.array([0.0, 0.7, 0.0, 0.03])[:, None] + SOURCE.normal(0, 0.01, (4, ROUNDS))
MADE = layout(VALUES, [1] * ROUNDS)


def test_a_single_look_is_dunnett() -> None:
    now = single_analysis(MADE, compared(3, once=True))
    freedom = 3 * (ROUNDS - 1)
    assert now.critical[1:] == pytest.approx([dunnett(3, freedom, 0.95)] * 3)
    assert now.half_widths[1] == pytest.approx(now.critical[1] * np.sqrt(now.contrasts.variance[1]))


def test_a_large_effect_is_settled_first_and_its_later_trials_do_not_count() -> None:
    question = compared(3)
    history = analyse_rounds(MADE, question, range(1, ROUNDS + 1))
    fast, equal, _ = history.stopped[1:]
    assert 2 <= fast < equal
    assert history.open(question) == [row for row in (1, 2, 3) if not history.stopped[row]]
    garbage = MADE.values.copy()
    garbage[1, fast:] = 99.0
    again = analyse_rounds(layout(garbage, [1] * ROUNDS), question, range(1, ROUNDS + 1))
    assert again.stopped.tolist() == history.stopped.tolist()


def test_going_on_is_the_same_as_beginning_anew() -> None:
    question = compared(3)
    history = begin(question)
    for number in range(1, ROUNDS + 1):
        history = after_round(history, MADE.until(np.full(4, number)), question, number)
        assert history.stopped.tolist() == analyse_rounds(MADE, question, range(1, number + 1)).stopped.tolist()


def test_there_is_no_look_before_the_first_one() -> None:
    question = compared(3, first_look=6)
    history = analyse_rounds(MADE, question, range(1, ROUNDS + 1))
    assert history.analyses[0].round == history.analyses[0].first == 6


def test_of_many_rounds_some_are_looked_at() -> None:
    rounds = 60
    noise = np.random.default_rng(2).normal(scale=0.5, size=(2, rounds))
    history = analyse_rounds(layout(noise, [1] * rounds), compared(1), range(1, rounds + 1))
    assert [analyse.round for analyse in history.analyses] == [*range(2, 41), *range(42, rounds + 1, 2)]


def test_nothing_is_settled_while_loads_in_general_are_not_known() -> None:
    """Two rounds of a load show the scatter of its trials, with which a run that does not wait decides at once."""
    made = layout(VALUES, np.repeat(range(1, ROUNDS // 2 + 1), 2).tolist())
    waiting = replace(compared(3), loads=ROUNDS // 2, waits_for_loads=True)
    first, hasty = (analyse_rounds(made, asked, range(1, ROUNDS + 1)).analyses[0] for asked in (waiting, compared(3)))
    assert hasty.round == 2 and hasty.contrasts.conditional[1:].all()
    assert first.round > 2 and first.contrasts.components.general
    assert not first.contrasts.conditional[1:].any()


def test_the_families_of_a_look_hold_apart() -> None:
    roles = (Role.BASELINE, Role.COMPARED, Role.COMPARED, Role.NEGATIVE, Role.CONTROL)
    values = SOURCE.normal(0, 0.01, (5, 6))
    now = analyse(contrasts(layout(values, [1] * 6)), Question(roles, 0.03, 0.015, once=True), 6, 6, 0)
    assert now.critical[1] == now.critical[2] == dunnett(2, 20, 0.95)
    assert now.critical[3] == now.critical[4] == dunnett(1, 20, 0.95)


def test_the_noise_floor_does_not_pay_for_looking() -> None:
    """Compared cells have intervals that hold after every analysis; a control's holds for one analysis alone."""
    roles = (Role.BASELINE, Role.COMPARED, Role.CONTROL)
    question = Question(roles, 0.03, 0.0001)
    values = np.random.default_rng(4).normal(0, 0.05, (3, 6))
    third = analyse_rounds(layout(values, [1] * 6), question, range(1, 5)).analyses[2]
    assert third.number == 3
    assert third.critical[2] == dunnett(1, 6, 0.95) < third.critical[1]
    # If nothing else is compared, the negative controls are the cells in question.
    negative = Question((Role.BASELINE, Role.NEGATIVE, Role.CONTROL), 0.03, 0.0001)
    third = analyse_rounds(layout(values, [1] * 6), negative, range(1, 5)).analyses[2]
    assert third.critical[2] == dunnett(1, 6, 0.95) < third.critical[1]


def test_three_loads_of_three_cells_decide_a_large_effect() -> None:
    values = np.array([0.0, 0.1, 0.0])[:, None] + np.random.default_rng(6).normal(0, 0.005, (3, 4))
    question = Question((Role.BASELINE, Role.COMPARED, Role.CONTROL), 0.03, 0.015, loads=4, waits_for_loads=True)
    history = analyse_rounds(layout(values, [1, 2, 3, 4]), question, range(1, 5))
    assert history.stopped.tolist() == [0, 3, 0]
    assert not history.analyses[0].contrasts.conditional[1]


def test_conditions_share_the_confidence() -> None:
    alone = single_analysis(MADE, compared(3, once=True))
    shared = single_analysis(MADE, compared(3, conditions=4, once=True))
    assert shared.critical[1] == pytest.approx(dunnett(3, 3 * (ROUNDS - 1), 1 - 0.05 / 4))
    assert shared.critical[1] > alone.critical[1]


def test_the_noise_floor_is_the_farthest_end_of_any_control_and_unknown_without_one() -> None:
    roles = (Role.BASELINE, Role.COMPARED, Role.NEGATIVE, Role.CONTROL)
    question = Question(roles, 0.03, 0.015, once=True)
    values = SOURCE.normal(0, 0.01, (4, 6))
    now = analyse(contrasts(layout(values, [1] * 6)), question, 6, 6, 0)
    ends = np.abs(now.contrasts.centre) + now.half_widths
    assert now.floor(question) == max(ends[2], ends[3])
    values[2:] = np.nan
    assert analyse(contrasts(layout(values, [1] * 6)), question, 6, 6, 0).floor(question) == np.inf


def test_controls_of_many_conditions_do_not_alarm_for_nothing() -> None:
    """One analysis, no difference: of nine conditions about one experiment in twenty may alarm, not one in three."""
    source = np.random.default_rng(3)
    roles = (Role.BASELINE, Role.CONTROL, Role.COMPARED)
    nine = Question(roles, 0.03, 0.015, conditions=9, once=True)
    looks = [single_analysis(layout(source.normal(0, 0.01, (3, 5)), [1] * 5), nine) for _ in range(9 * 200)]
    alarms = np.array([analyse.is_alarm(nine, 1) for analyse in looks])
    alone = np.array([abs(analyse.contrasts.centre[1]) > analyse.half_widths[1] for analyse in looks])
    assert alarms.reshape(200, 9).any(axis=1).mean() < 0.1 < 0.25 < alone.reshape(200, 9).any(axis=1).mean()
    assert not any(analyse.is_alarm(nine, row) for analyse in looks[:50] for row in (0, 2))


def test_a_control_that_is_far_off_alarms() -> None:
    values = np.array([0.0, 0.5, 0.0])[:, None] + SOURCE.normal(0, 0.01, (3, ROUNDS))
    question = Question((Role.BASELINE, Role.CONTROL, Role.NEGATIVE), 0.03, 0.015, conditions=9)
    now = analyse_rounds(layout(values, [1] * ROUNDS), question, range(1, ROUNDS + 1)).analyses[-1]
    assert [now.is_alarm(question, row) for row in (0, 1, 2)] == [False, True, False]

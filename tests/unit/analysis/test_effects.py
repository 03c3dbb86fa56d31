"""The rows of the document: effects, noise floors, and the model on which they are based."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from scipy.special import stdtrit
from tests.unit.plans import changed_plan

from octavo.analysis.effects import BEFORE_THE_FIRST, Effects, effects_of
from octavo.analysis.trials import used_trials, values_by_key
from octavo.observation import Observation
from octavo.plan.cells import make_cells
from octavo.plan.model import Plan
from octavo.store.records import TrialRecord

from .making import read_only_plan, trial

PLAN, CELLS = read_only_plan()
SMALL, BASELINE, CONTROL = CELLS
ONE_LOAD = PLAN.model_copy(update={"loads": 1, "rounds": 30})
FIXED = ONE_LOAD.model_copy(update={"stopping": "fixed"})
METRICS = {"tps": {"title": "TPS", "unit": "1/s", "better": "higher"}}


def rounds(numbers: Sequence[int], ratio: float, *, seed: int = 1, scatter: float = 0.005) -> list[TrialRecord]:
    source = random.Random(seed)
    return [
        trial(cell, number, 1000 * (ratio if cell is SMALL else 1) * math.exp(source.gauss(0, scatter)), load=1)
        for number in numbers
        for cell in CELLS
    ]


def effects(plan: Plan, trials: list[TrialRecord]) -> Effects:
    used = used_trials(trials)
    return effects_of(plan, CELLS, trials, used, values_by_key(used), METRICS)


def of_small(found: Effects) -> dict[str, Any]:
    (row,) = [row for row in found.effects if row["cell"] == SMALL.id]
    return row


def test_an_effect_has_what_it_rests_on() -> None:
    found = effects(ONE_LOAD, rounds(range(1, 6), 1.5))
    row = of_small(found)
    assert row["low"] < 1.5 < row["high"]
    assert (row["verdict"], row["conditional"], row["loads"], row["negative_control"]) == ("faster", True, 1, False)
    assert row["look"] == row["rounds"] - 1
    assert row["degrees_of_freedom"] == 2 * (row["rounds"] - 1)
    assert [floor["cell"] for floor in found.noise_floor] == [CONTROL.id]
    (model,) = found.model
    assert (model["residual_degrees_of_freedom"], model["comparisons"]) == (row["degrees_of_freedom"], 1)
    assert 0.2 < model["residual_deviation_percent"] < 1.5
    assert model["critical_value"] > 2


def test_trials_after_a_cell_was_settled_change_nothing_of_it() -> None:
    before = effects(ONE_LOAD, rounds(range(1, 6), 1.5))
    settled = of_small(before)
    assert settled["rounds"] < 5
    assert of_small(effects(ONE_LOAD, rounds(range(1, 6), 1.5) + rounds([6], 0.1))) == settled


def test_before_the_first_analysis_there_is_an_interval_and_no_verdict() -> None:
    """A run that its budget ends so early has decided nothing: `first_look` waits for a cell that scatters more."""
    late = ONE_LOAD.model_copy(update={"first_look": 8})
    before, after = (of_small(effects(late, rounds(range(1, end), 1.5))) for end in (8, 9))
    assert before["low"] > 1
    assert (before["verdict"], before["look"]) == (BEFORE_THE_FIRST, 0)
    assert (after["verdict"], after["look"]) == ("faster", 1)


def test_a_control_beside_which_nothing_is_compared_waits_for_no_analysis() -> None:
    alone = [one for one in rounds(range(1, 6), 1.0) if one.cell != SMALL.id]
    used = used_trials(alone)
    (row,) = effects_of(ONE_LOAD, [BASELINE, CONTROL], alone, used, values_by_key(used), METRICS).effects
    assert row["low"] < row["high"]
    assert row["verdict"] != BEFORE_THE_FIRST


def test_a_run_of_fewer_rounds_is_analysed_after_its_last_one() -> None:
    few = ONE_LOAD.model_copy(update={"first_look": 8, "most_rounds": 4, "rounds": 4})
    row = of_small(effects(few, rounds(range(1, 5), 1.5)))
    assert (row["verdict"], row["look"]) == ("faster", 1)


def test_another_metric_is_taken_at_the_analysis_that_settled_the_cell() -> None:
    """There are later trials of the cell only because another one was still open."""

    def latency_of_small(trials: list[TrialRecord]) -> dict[str, Any]:
        used = used_trials(trials)
        metrics = {**METRICS, "latency": {"title": "latency", "unit": "ms", "better": "lower"}}
        found = effects_of(ONE_LOAD, CELLS, trials, used, values_by_key(used), metrics)
        (row,) = [row for row in found.effects if (row["cell"], row["metric"]) == (SMALL.id, "latency")]
        return row

    def with_latency(trials: list[TrialRecord], ratio: float) -> list[TrialRecord]:
        source = random.Random(7)
        values = [(2.0 * ratio if one.cell == SMALL.id else 2.0) * math.exp(source.gauss(0, 0.01)) for one in trials]
        return [
            replace(one, observations=(*one.observations, Observation("latency", value, "ms")))
            for one, value in zip(trials, values, strict=True)
        ]

    before = with_latency(rounds(range(1, 6), 1.5), 0.7)
    settled = latency_of_small(before)
    assert settled["rounds"] < 5
    assert settled["low"] < 0.7 < settled["high"]
    assert latency_of_small([*before, *with_latency(rounds([6], 1.5), 30.0)]) == settled


def test_a_fixed_plan_has_one_look_with_students_t() -> None:
    found = effects(FIXED, rounds(range(1, 6), 1.01))
    row = of_small(found)
    assert (row["look"], row["rounds"]) == (0, 5)
    freedom: int = row["degrees_of_freedom"]
    assert found.model[0]["critical_value"] == pytest.approx(-float(stdtrit(freedom, 0.025)))


def test_a_factor_that_cannot_matter_makes_a_floor_and_no_comparison() -> None:
    plan = ONE_LOAD.model_copy(update={"negative": ["data_block"], "control": False})
    found = effects(plan, rounds(range(1, 6), 1.01))
    assert of_small(found)["negative_control"]
    assert [floor["cell"] for floor in found.noise_floor] == [SMALL.id]
    assert found.model[0]["comparisons"] == 0


def test_the_noise_floor_is_of_a_control_with_an_interval() -> None:
    """A negative control that one load alone has gives no interval, however far off it is."""
    plan = FIXED.model_copy(update={"loads": 6, "rounds": 6, "negative": ["data_block"]})
    source = random.Random(3)
    trials = [
        trial(cell, number, 1000 * (3 if cell is SMALL else 1) * math.exp(source.gauss(0, 0.005)), load=number)
        for number in range(1, 7)
        for cell in CELLS
        if cell is not SMALL or number == 1
    ]
    found = effects(plan, trials)
    assert of_small(found)["low"] is None
    (floor,) = found.noise_floor
    assert floor["cell"] == CONTROL.id
    assert floor["low"] < floor["high"] < 1.1
    assert floor["floor"] == pytest.approx(max(floor["high"], 1 / floor["low"]) - 1)


def test_a_round_counts_as_finished_once_all_of_its_cells_were_measured() -> None:
    trials = rounds(range(1, 4), 1.01)
    assert effects(ONE_LOAD, trials).rounds_finished == 3
    assert effects(ONE_LOAD, trials[:-1]).rounds_finished == 2


def test_an_interval_of_more_than_a_million_times_is_none() -> None:
    found = effects(ONE_LOAD, rounds((1, 2), 1.0, scatter=5))
    row = of_small(found)
    assert (row["low"], row["high"], row["noise_floor"]) == (None, None, None)
    assert row["verdict"].startswith("undecided")
    assert [(floor["low"], floor["high"], floor["floor"]) for floor in found.noise_floor] == [(None, None, None)]


def test_without_trials_nothing_is_said() -> None:
    assert effects(ONE_LOAD, []) == Effects([], [], [], 0)


def test_a_baseline_alone_has_no_effect() -> None:
    plan = changed_plan({"\n[baseline]": "\ncontrol = false\n\n[baseline]"}, mode=["read-only"], data_block=["8kB"])
    (alone,) = cells = make_cells(plan)
    trials = [trial(alone, number, 1000.0 + number, load=1) for number in range(1, 4)]
    used = used_trials(trials)
    assert effects_of(plan, cells, trials, used, values_by_key(used), METRICS) == Effects([], [], [], 3)

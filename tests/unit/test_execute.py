"""The order of trials, and resuming, on a bench and a clock that take no time."""

from pathlib import Path

import pytest
from tests.unit.fake_lab import Laboratory, planned
from tests.unit.plans import small_plan

from octavo.lab.part import BROKEN_AFTER_SECONDS


def test_every_round_is_every_cell_once_in_the_seeds_order(laboratory: Laboratory) -> None:
    laboratory.execute()
    assert [cell for cell, _ in laboratory.bench.measured] == planned(laboratory)
    assert [trial.cell for trial in laboratory.trials()] == planned(laboratory)
    assert {trial.load for trial in laboratory.trials()} == {1, 2, 3, 4}


@pytest.mark.parametrize("moment", range(24))
def test_a_stopped_run_goes_on_where_it_was(laboratory: Laboratory, moment: int) -> None:
    laboratory.bench.die_at = moment
    with pytest.raises(KeyboardInterrupt):
        laboratory.execute()
    kept = laboratory.trials()
    assert len(kept) == moment
    laboratory.clock.time += 60
    laboratory.execute()
    assert laboratory.trials()[:moment] == kept
    assert [trial.cell for trial in laboratory.trials()] == planned(laboratory)
    assert {trial.attempt for trial in laboratory.trials()} == {1}


def test_a_round_broken_for_too_long_is_run_again_and_its_trials_are_kept(laboratory: Laboratory) -> None:
    laboratory.bench.die_at = 8  # two trials into the second round of six
    with pytest.raises(KeyboardInterrupt):
        laboratory.execute()
    laboratory.clock.time += BROKEN_AFTER_SECONDS + 1
    laboratory.execute()
    second = [trial for trial in laboratory.trials() if trial.round == 2]
    assert [trial.attempt for trial in second] == [1, 1, 2, 2, 2, 2, 2, 2]
    assert len({trial.cell for trial in second if trial.attempt == 2}) == 6


def test_an_extended_run_keeps_the_rounds_in_which_a_condition_was_waiting(tmp_path: Path) -> None:
    plan = small_plan().model_copy(update={"budget": "300s"})
    laboratory = Laboratory(tmp_path / "store.sqlite", plan)
    near, far = (cell.id for cell in laboratory.cells if not cell.baseline and not cell.control)
    laboratory.decided_after = {near: 6, far: 12}
    laboratory.execute()
    before = laboratory.trials()
    assert {trial.cell for trial in before if trial.round == 2}.isdisjoint({far})
    laboratory.plan = plan.model_copy(update={"budget": "3h"})
    laboratory.clock.time += BROKEN_AFTER_SECONDS + 1
    assert laboratory.execute().ending == "decided"
    trials = laboratory.trials()
    assert trials[: len(before)] == before
    assert {trial.attempt for trial in trials} == {1}
    assert [trial.round for trial in trials if trial.cell == near] == list(range(1, 7))
    assert sorted(trial.round for trial in trials if trial.cell == far) == list(range(1, 13))
    laboratory.store.close()


def test_a_cell_that_joins_later_leaves_the_rounds_so_far_as_they_are(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path / "store.sqlite", small_plan(data_block=["2kB", "4kB", "8kB"]))
    joined = laboratory.cells[0]
    laboratory.bench.refused = {joined.id: "a program is not installed"}
    laboratory.execute()
    before = laboratory.trials()
    laboratory.bench.refused = {}
    laboratory.clock.time += BROKEN_AFTER_SECONDS + 1
    laboratory.execute()
    added = laboratory.trials()[len(before) :]
    assert laboratory.trials()[: len(before)] == before
    # The last round may have been interrupted: it is repeated whole.
    places = {(trial.round, trial.part, trial.attempt) for trial in added}
    assert places == {(1, 2, 1), (2, 2, 1), (3, 2, 1), (4, 1, 2)}
    compared = [cell for cell in laboratory.cells if cell.condition == joined.condition]
    beside = {cell.id for cell in compared if cell is joined or cell.baseline or cell.control}
    assert {trial.cell for trial in added if trial.round == 1} == beside
    laboratory.store.close()


@pytest.mark.parametrize("moment", range(1, 13))
def test_a_cell_that_joins_later_is_compared_in_every_round_also_after_a_stop(tmp_path: Path, moment: int) -> None:
    """At the tenth trial it has been measured in the fourth round, and not yet its baseline."""
    plan = small_plan(data_block=["2kB", "4kB", "8kB"]).model_copy(update={"rounds": 5})
    laboratory = Laboratory(tmp_path / "store.sqlite", plan)
    joined = laboratory.cells[0]
    laboratory.bench.refused = {joined.id: "a program is not installed"}
    laboratory.execute()
    laboratory.bench.refused = {}
    laboratory.bench.die_at = len(laboratory.bench.measured) + moment
    with pytest.raises(KeyboardInterrupt):
        laboratory.execute()
    laboratory.execute()
    (baseline,) = (cell.id for cell in laboratory.cells if cell.baseline and cell.condition == joined.condition)
    places = {(one.round, one.part, one.cell) for one in laboratory.trials() if one.status != "skipped"}
    compared = {number for number, part, cell in places if cell == joined.id and (number, part, baseline) in places}
    assert compared == {1, 2, 3, 4, 5}
    laboratory.store.close()


def test_a_run_that_stopped_between_rounds_repeats_nothing(laboratory: Laboratory) -> None:
    laboratory.bench.die_at = 6
    with pytest.raises(KeyboardInterrupt):
        laboratory.execute()
    laboratory.clock.time += 10 * BROKEN_AFTER_SECONDS
    laboratory.execute()
    assert len(laboratory.trials()) == 24


def test_a_resume_that_may_do_less_keeps_the_rounds_that_are_complete(laboratory: Laboratory) -> None:
    laboratory.bench.die_at = 8
    with pytest.raises(KeyboardInterrupt):
        laboratory.execute()
    laboratory.clock.time += BROKEN_AFTER_SECONDS + 1
    refused = next(cell.id for cell in laboratory.cells if not cell.baseline)
    laboratory.bench.refused = {refused: "needs root"}
    laboratory.execute()
    assert {trial.attempt for trial in laboratory.trials() if trial.round == 1} == {1}


def test_a_resume_with_less_room_keeps_the_rounds_that_are_complete(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path / "store.sqlite", small_plan(data_block=["2kB", "4kB", "8kB", "16kB"]))
    laboratory.bench.die_at = 12  # two trials into the second round of ten
    with pytest.raises(KeyboardInterrupt):
        laboratory.execute()
    laboratory.bench.room = 3  # a round now has three parts
    laboratory.execute()
    assert sum(trial.round == 1 for trial in laboratory.trials()) == 10
    laboratory.store.close()


@pytest.mark.parametrize("moment", range(0, 40, 3))
def test_a_round_in_parts_has_each_parts_baselines_and_goes_on_where_it_was(tmp_path: Path, moment: int) -> None:
    plan = small_plan(data_block=["2kB", "4kB", "8kB", "16kB"])
    laboratory = Laboratory(tmp_path / "store.sqlite", plan)
    laboratory.bench.room = 3  # the datasets of the baseline, the control and one more
    laboratory.bench.die_at = moment
    with pytest.raises(KeyboardInterrupt):
        laboratory.execute()
    laboratory.execute()
    trials = laboratory.trials()
    for number in range(1, plan.rounds + 1):
        for part in (1, 2, 3):
            members = [cell for trial in trials if (trial.round, trial.part) == (number, part)
                       for cell in laboratory.cells if cell.id == trial.cell]  # fmt: skip
            assert sorted(cell.condition for cell in members if cell.baseline) == ["read-only", "read-write"]
            assert len({cell.dataset for cell in members}) == 3
            assert len(members) == len({cell.id for cell in members})
    assert {cell.id for cell in laboratory.cells} == {trial.cell for trial in trials}
    laboratory.store.close()


def test_cells_that_take_turns_are_measured_together_and_share_the_time(laboratory: Laboratory) -> None:
    laboratory.bench.by_turns = True
    laboratory.execute()
    trials = laboratory.trials()
    assert len(trials) == 24
    baselines = {cell.id for cell in laboratory.cells if cell.baseline}
    assert [trial.cell in baselines for trial in trials] == [True, False, False] * 8
    assert [trial.ended - trial.started for trial in trials] == [10.0] * 24
    assert [trial.position for trial in trials] == [1, 2, 3, 4, 5, 6] * 4


def test_an_invalid_trial_of_a_turn_is_repeated_with_those_it_is_compared_with(laboratory: Laboratory) -> None:
    laboratory.bench.by_turns = True
    laboratory.bench.invalid = {1}
    laboratory.execute()
    first = [trial for trial in laboratory.trials() if trial.round == 1]
    assert len(first) == 9
    again = {trial.cell for trial in first[-3:]}
    assert again == {trial.cell for trial in first if trial.cell in again}
    assert first[1].cell in again


def test_a_run_that_died_among_turns_repeats_the_whole_of_them(laboratory: Laboratory) -> None:
    laboratory.bench.by_turns = True
    laboratory.bench.die_at = 4
    with pytest.raises(KeyboardInterrupt):
        laboratory.execute()
    assert len(laboratory.trials()) == 3
    laboratory.clock.time += 60
    laboratory.execute()
    assert len(laboratory.trials()) == 24

"""Trials that fail, are invalid or cannot run: what is repeated, given up or skipped."""

from pathlib import Path

import pytest
from tests.unit.fake_lab import SEED, Laboratory, planned
from tests.unit.plans import small_plan

from octavo.analysis.trials import used_trials
from octavo.errors import HostError
from octavo.lab.events import Notice, RoundStarted, TrialEnded
from octavo.lab.execute import RunOutcome, Undecided
from octavo.lab.part import BROKEN_AFTER_SECONDS
from octavo.lab.run_record import forecaster
from octavo.store.records import RunRecord


def test_an_invalid_baseline_is_retried_within_its_round(laboratory: Laboratory) -> None:
    baseline = next(cell.id for cell in laboratory.cells if cell.baseline)
    laboratory.bench.invalid = {planned(laboratory).index(baseline)}
    laboratory.execute()
    first = [trial for trial in laboratory.trials() if trial.round == 1]
    assert [trial.cell for trial in first][-1] == baseline
    assert [trial.status for trial in first if trial.cell == baseline] == ["invalid", "ok"]
    assert len(first) == 7


def test_what_stays_invalid_does_not_hold_up_the_run(laboratory: Laboratory) -> None:
    laboratory.bench.invalid = set(range(1000))
    laboratory.execute()
    for cell in laboratory.cells:
        tries = sum(trial.cell == cell.id for trial in laboratory.trials())
        assert tries == laboratory.plan.rounds * (3 if cell.baseline or cell.control else 2)


def test_a_repetition_is_no_further_trial_of_the_round(laboratory: Laboratory) -> None:
    baseline = next(cell.id for cell in laboratory.cells if cell.baseline)
    laboratory.bench.invalid = {planned(laboratory).index(baseline)}
    laboratory.execute()
    ended = [event for event in laboratory.events if isinstance(event, TrialEnded) and event.record.round == 1]
    assert [event.cell.id for event in ended if event.repetition] == [baseline]
    assert [event.number for event in ended if not event.repetition] == [1, 2, 3, 4, 5, 6]


def test_a_run_without_a_valid_trial_is_a_failure(laboratory: Laboratory) -> None:
    laboratory.bench.invalid = set(range(1000))
    outcome = laboratory.execute()
    assert outcome.failure("RUN", "the CPU was taken") == (
        f"no trial is valid ({outcome.invalid} invalid), for example: the CPU was taken; octavo report RUN lists the "
        "reasons, octavo run --retry-failed RUN repeats them"
    )


def test_a_run_with_one_failed_trial_is_a_failure_and_with_one_invalid_trial_is_none() -> None:
    assert RunOutcome("rounds", 5, 1, 0, 0).failure("RUN", "") is None
    failure = RunOutcome("rounds", 5, 0, 1, 0).failure("RUN", "")
    assert failure is not None and failure.startswith("1 trial failed; octavo report RUN")


def as_runs_are(laboratory: Laboratory) -> Undecided:
    """The open cells, as in a run."""
    record = RunRecord("run", "", "running", "", SEED, 0.0, None, {}, "", "", {"tps": {}}, {})
    return forecaster(record, laboratory.plan, laboratory.cells)


@pytest.mark.parametrize("stopping", ["decided", "fixed"])
def test_a_condition_that_stays_invalid_does_not_use_up_the_budget(tmp_path: Path, stopping: str) -> None:
    """Ten hours are 600 rounds."""
    plan = small_plan().model_copy(update={"budget": "10h", "stopping": stopping, "rounds": 600})
    laboratory = Laboratory(tmp_path / "store.sqlite", plan)
    laboratory.bench.too_slow = {cell.condition for cell in laboratory.cells}
    outcome = laboratory.execute(undecided=as_runs_are(laboratory))
    assert {trial.round for trial in laboratory.trials()} == {1, 2, 3}
    failure = outcome.failure("run", "only 7 transactions")
    assert failure is not None and failure.startswith("no trial is valid")
    (said,) = [event.text for event in laboratory.events if isinstance(event, Notice)]
    assert said.startswith("no longer measured, because no trial was valid round after round: ")
    assert said.endswith(
        "; for example: only 7 transactions, fewer than 100; fix this, then octavo run --retry-failed run repeats them"
    )
    laboratory.store.close()


def test_other_conditions_go_on_and_what_was_given_up_comes_back_on_request(tmp_path: Path) -> None:
    plan = small_plan().model_copy(update={"stopping": "fixed", "rounds": 5})
    laboratory = Laboratory(tmp_path / "store.sqlite", plan)
    slow, other = dict.fromkeys(cell.condition for cell in laboratory.cells)
    laboratory.bench.too_slow = {slow}
    laboratory.execute(undecided=as_runs_are(laboratory))
    condition_of = {cell.id: cell.condition for cell in laboratory.cells}

    def rounds(condition: str, status: str) -> set[int]:
        trials = [one for one in laboratory.trials() if one.status == status]
        return {one.round for one in trials if condition_of[one.cell] == condition}

    assert (rounds(slow, "invalid"), rounds(other, "ok")) == ({1, 2, 3}, {1, 2, 3, 4, 5})
    begun = [event for event in laboratory.events if isinstance(event, RoundStarted)]
    # A cell that is given up has no verdict, and no other condition is decided before the end of a fixed plan.
    assert [(event.undecided, event.decided) for event in begun] == [(2, 0), (2, 0), (2, 0), (1, 0), (1, 0)]
    laboratory.bench.too_slow = set()
    laboratory.clock.time += BROKEN_AFTER_SECONDS + 1
    of_other = [one for one in laboratory.trials() if condition_of[one.cell] == other]
    laboratory.execute(undecided=as_runs_are(laboratory), retry=True)
    assert rounds(slow, "ok") == {1, 2, 3, 4, 5}
    assert [one for one in laboratory.trials() if condition_of[one.cell] == other] == of_other
    laboratory.store.close()


def test_a_retry_after_a_long_break_is_no_part_of_the_broken_round(laboratory: Laboratory) -> None:
    baseline = next(cell.id for cell in laboratory.cells if cell.baseline)
    laboratory.bench.invalid = {planned(laboratory).index(baseline)}
    laboratory.bench.die_at = 6  # in the retry
    with pytest.raises(KeyboardInterrupt):
        laboratory.execute()
    laboratory.clock.time += BROKEN_AFTER_SECONDS + 1
    laboratory.execute()
    first = [trial for trial in laboratory.trials() if trial.round == 1]
    assert [trial.attempt for trial in first] == [1] * 6 + [2] * 6


def test_a_cell_that_cannot_run_here_is_skipped_once_with_its_reason(laboratory: Laboratory) -> None:
    refused = next(cell.id for cell in laboratory.cells if not cell.baseline)
    laboratory.bench.refused = {refused: "needs root"}
    laboratory.execute()
    laboratory.execute()
    skipped = [trial for trial in laboratory.trials() if trial.cell == refused]
    assert [(trial.status, trial.reason) for trial in skipped] == [("skipped", "needs root")]
    # its condition has no other cell to compare; the other one has three cells
    assert len(laboratory.trials()) == 3 * 4 + 1


def test_a_cell_that_can_no_longer_run_is_reported(laboratory: Laboratory) -> None:
    laboratory.bench.die_at = 8
    with pytest.raises(KeyboardInterrupt):
        laboratory.execute()
    refused = next(cell.id for cell in laboratory.cells if not cell.baseline)
    laboratory.bench.refused = {refused: "needs root"}
    laboratory.execute()
    assert Notice(f"skipped {refused}: needs root") in laboratory.events
    assert {trial.status for trial in laboratory.trials() if trial.cell == refused} == {"ok"}


def test_a_cell_that_could_not_run_at_first_and_can_no_longer_is_reported(laboratory: Laboratory) -> None:
    refused = next(cell.id for cell in laboratory.cells if not cell.baseline)
    for reason in ("needs root", None, "needs memory"):
        laboratory.bench.refused = {refused: reason} if reason else {}
        laboratory.execute()
    assert Notice(f"skipped {refused}: needs memory") in laboratory.events


def test_cells_without_their_baseline_are_not_measured(laboratory: Laboratory) -> None:
    baseline = next(cell for cell in laboratory.cells if cell.baseline)
    laboratory.bench.refused = {baseline.id: "needs root"}
    laboratory.execute()
    condition = {cell.id for cell in laboratory.cells if cell.condition == baseline.condition}
    assert {trial.cell for trial in laboratory.trials() if trial.status == "skipped"} == condition
    assert not condition & {cell for cell, _ in laboratory.bench.measured}


def test_a_plan_of_which_nothing_can_run_is_an_error(laboratory: Laboratory) -> None:
    laboratory.bench.refused = {cell.id: "needs root" for cell in laboratory.cells}
    with pytest.raises(HostError, match="needs root"):
        laboratory.execute()


def test_a_failing_cell_does_not_end_the_run_and_is_repeated_on_request(laboratory: Laboratory) -> None:
    broken = next(cell for cell in laboratory.cells if not cell.baseline and not cell.control)
    laboratory.bench.failing = {broken.id}
    outcome = laboratory.execute()
    assert (outcome.ending, outcome.failed, outcome.ok) == ("rounds", 4, 20)
    laboratory.bench.failing = set()
    before = laboratory.trials()
    assert laboratory.execute(retry=True).failure("run", "it broke") is None
    again = laboratory.trials()[len(before) :]
    # a ratio is computed within a part: the cell is measured with its baseline and control, in every round that lacks
    # it
    expected = {cell.id for cell in laboratory.cells if cell.condition == broken.condition}
    for number in range(1, 5):
        assert {trial.cell for trial in again if (trial.round, trial.part) == (number, 2)} == expected
    assert len(again) == 4 * len(expected)
    laboratory.execute(retry=True)
    assert len(laboratory.trials()) == len(before) + len(again)


def test_a_cell_that_was_valid_only_in_repeated_slices_is_repeated_on_request(laboratory: Laboratory) -> None:
    laboratory.bench.by_turns = True
    laboratory.bench.invalid = {2, 7}  # the control, and the compared cell when both are repeated
    laboratory.execute()
    before = laboratory.trials()
    assert [trial.status for trial in before if trial.cell == before[1].cell and trial.round == 1] == ["ok", "invalid"]
    laboratory.bench.invalid = set()
    laboratory.execute(retry=True)
    again = laboratory.trials()[len(before) :]
    assert {(trial.round, trial.part) for trial in again} == {(1, 2)}
    assert [trial.cell for trial in again] == [trial.cell for trial in before[:3]]


def test_a_round_that_lost_its_baseline_is_repeated_whole_on_request(laboratory: Laboratory) -> None:
    baseline = next(cell for cell in laboratory.cells if cell.baseline)
    laboratory.bench.failing = {baseline.id}
    laboratory.execute()
    laboratory.bench.failing = set()
    laboratory.execute(retry=True)
    condition = {cell.id for cell in laboratory.cells if cell.condition == baseline.condition}
    assert {trial.cell for trial in laboratory.trials() if trial.part == 2} == condition


@pytest.mark.parametrize("moment", range(1, 12))
def test_a_repetition_that_was_stopped_leaves_no_round_without_a_comparison(
    laboratory: Laboratory, moment: int
) -> None:
    baseline = next(cell for cell in laboratory.cells if cell.baseline)
    laboratory.bench.failing = {baseline.id}
    laboratory.execute()
    laboratory.bench.failing = set()
    laboratory.bench.die_at = len(laboratory.bench.measured) + moment
    with pytest.raises(KeyboardInterrupt):
        laboratory.execute(retry=True)
    laboratory.execute(retry=True)
    used = used_trials(laboratory.trials())
    for cell in (cell.id for cell in laboratory.cells if cell.condition == baseline.condition):
        assert {at for at, part, one in used if one == cell and (at, part, baseline.id) in used} == {1, 2, 3, 4}

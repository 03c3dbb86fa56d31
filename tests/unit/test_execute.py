"""The order of trials, resuming and retrying, on a bench and a clock without time."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.unit.plans import small_plan

from octavo.errors import HostError
from octavo.lab.bench import Measurement
from octavo.lab.events import Event, Notice, RoundStarted, TrialEnded
from octavo.lab.execute import RunOutcome, Undecided, execute
from octavo.lab.part import BROKEN_AFTER_SECONDS
from octavo.lab.run_record import forecaster
from octavo.observation import Observation
from octavo.plan.cells import Cell, make_cells, order_of_round
from octavo.plan.model import Plan
from octavo.plan.parts import parts_of_round
from octavo.store.records import RunRecord, TrialRecord, TrialStatus
from octavo.store.store import Store

SEED = 42


class FakeClock:
    """Moves only when told."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time


class FakeBench:
    """Takes exactly ten seconds a trial; dies or doubts where told."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.measured: list[tuple[str, int]] = []
        self.die_at: int | None = None
        self.invalid: set[int] = set()
        self.failing: set[str] = set()
        self.too_slow: set[str] = set()
        self.refused: dict[str, str] = {}
        self.prepared: list[tuple[int, frozenset[str]]] = []
        self.room = 1000
        self.by_turns = False

    def cannot_run(self, cell: Cell) -> str | None:
        return self.refused.get(cell.id)

    def parts(self, cells: Sequence[Cell]) -> list[list[Cell]]:
        return parts_of_round(cells, dict.fromkeys((cell.dataset for cell in cells), 1), self.room)

    def prepare(self, cells: Sequence[Cell], round_number: int) -> None:
        self.prepared.append((round_number, frozenset(cell.id for cell in cells)))

    def takes_turns(self, cells: Sequence[Cell]) -> bool:
        return self.by_turns

    def measure_by_turns(
        self, cells: Sequence[Cell], loads: Sequence[int], *, round_number: int, seed: int
    ) -> list[Measurement] | None:
        return [self.measure(cell, load=load, seed=seed) for cell, load in zip(cells, loads, strict=True)]

    def measure(self, cell: Cell, *, load: int, seed: int) -> Measurement:
        number = len(self.measured)
        if number == self.die_at:
            self.die_at = None
            raise KeyboardInterrupt
        self.measured.append((cell.id, load))
        self.clock.time += 10
        if cell.condition in self.too_slow:
            return Measurement("invalid", "only 7 transactions, fewer than 100", facts={"rule": "transactions"})
        if cell.id in self.failing:
            return Measurement("failed", "it broke")
        status: TrialStatus = "invalid" if number in self.invalid else "ok"
        return Measurement(status, "doubted" if status == "invalid" else None, (Observation("tps", 100.0, "1/s"),))


class Laboratory:
    """A store with one run of the small plan."""

    def __init__(self, path: Path, plan: Plan) -> None:
        self.plan = plan
        self.cells = make_cells(plan)
        self.store = Store.open(path)
        self.clock = FakeClock()
        self.bench = FakeBench(self.clock)
        self.events: list[Event] = []
        self.decided_after: dict[str, int] = {}
        record = RunRecord("run", plan.name, "running", "", SEED, 0.0, None, {}, "", "", {}, {})
        self.store.create_run(record, self.cells)

    def execute(self, *, retry: bool = False, undecided: Undecided | None = None) -> RunOutcome:
        return execute(
            "run", self.plan, self.cells, SEED, self.bench, self.store, self.clock, self.events.append,
            undecided or self.undecided, retry=retry,
        )  # fmt: skip

    def undecided(self, trials: Sequence[TrialRecord]) -> dict[str, float]:
        rounds = max((trial.round for trial in trials), default=0)
        compared = [cell.id for cell in self.cells if not cell.baseline and not cell.control]
        needed = {cell: float(self.decided_after.get(cell, 1000) - rounds) for cell in compared}
        return {cell: more for cell, more in needed.items() if more > 0}

    def trials(self) -> list[TrialRecord]:
        return self.store.trials("run")


@pytest.fixture
def laboratory(tmp_path: Path) -> Iterator[Laboratory]:
    made = Laboratory(tmp_path / "store.sqlite", small_plan())
    yield made
    made.store.close()


def planned(laboratory: Laboratory) -> list[str]:
    """The whole run's cells in the order that the seed gives."""
    rounds = range(1, laboratory.plan.rounds + 1)
    return [cell.id for number in rounds for cell in order_of_round(laboratory.cells, number, 1, SEED)]


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


def test_a_run_that_stopped_between_rounds_repeats_nothing(laboratory: Laboratory) -> None:
    laboratory.bench.die_at = 6
    with pytest.raises(KeyboardInterrupt):
        laboratory.execute()
    laboratory.clock.time += 10 * BROKEN_AFTER_SECONDS
    laboratory.execute()
    assert len(laboratory.trials()) == 24


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
    """What is open, as a run has it."""
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
    # What is given up has no verdict, and nothing of the other condition is decided before the end of a fixed plan.
    assert [(event.undecided, event.decided) for event in begun] == [(2, 0), (2, 0), (2, 0), (1, 0), (1, 0)]
    laboratory.bench.too_slow = set()
    laboratory.execute(undecided=as_runs_are(laboratory), retry=True)
    assert rounds(slow, "ok") == {1, 2, 3, 4, 5}
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
    # its condition has nothing left to compare; the other one has three cells
    assert len(laboratory.trials()) == 3 * 4 + 1


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


def test_a_resume_that_may_do_less_keeps_the_rounds_that_are_complete(laboratory: Laboratory) -> None:
    laboratory.bench.die_at = 8
    with pytest.raises(KeyboardInterrupt):
        laboratory.execute()
    laboratory.clock.time += BROKEN_AFTER_SECONDS + 1
    refused = next(cell.id for cell in laboratory.cells if not cell.baseline)
    laboratory.bench.refused = {refused: "needs root"}
    laboratory.execute()
    assert {trial.attempt for trial in laboratory.trials() if trial.round == 1} == {1}


def test_rounds_go_only_to_undecided_cells_and_their_baselines(laboratory: Laboratory) -> None:
    first, second = [cell for cell in laboratory.cells if not cell.baseline and not cell.control]
    laboratory.decided_after = {first.id: 2, second.id: 3}
    assert laboratory.execute().ending == "decided"
    per_round = [{trial.cell for trial in laboratory.trials() if trial.round == number} for number in range(1, 5)]
    everything = {cell.id for cell in laboratory.cells}
    of_second = {cell.id for cell in laboratory.cells if cell.condition == second.condition}
    assert per_round == [everything, everything, of_second, set()]


def test_the_most_rounds_end_an_undecided_run(laboratory: Laboratory) -> None:
    assert laboratory.execute().ending == "rounds"
    assert max(trial.round for trial in laboratory.trials()) == laboratory.plan.rounds


def test_no_round_begins_that_the_budget_has_no_room_for(tmp_path: Path) -> None:
    plan = small_plan().model_copy(update={"budget": "200s"})
    laboratory = Laboratory(tmp_path / "store.sqlite", plan)
    # a round of six trials takes sixty seconds: three of them fit 200 s, and the most rounds do not count
    assert laboratory.execute().ending == "budget"
    assert {trial.round for trial in laboratory.trials()} == {1, 2, 3}
    assert laboratory.execute().ending == "budget"  # what earlier sessions used is not given back
    assert len(laboratory.trials()) == 18
    laboratory.store.close()


def test_a_budget_may_run_longer_than_the_most_rounds(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path / "store.sqlite", small_plan().model_copy(update={"budget": "10m"}))
    laboratory.execute()
    assert max(trial.round for trial in laboratory.trials()) == 10
    laboratory.store.close()


def test_rounds_that_were_asked_for_end_a_run_that_has_budget_left(tmp_path: Path) -> None:
    plan = small_plan().model_copy(update={"budget": "10m", "most_rounds": 2})
    laboratory = Laboratory(tmp_path / "store.sqlite", plan)
    assert laboratory.execute().ending == "rounds"
    assert max(trial.round for trial in laboratory.trials()) == 2
    laboratory.store.close()


@pytest.mark.parametrize("moment", [None, 15, 20])
def test_the_budget_goes_to_the_condition_that_is_nearest_to_an_answer(tmp_path: Path, moment: int | None) -> None:
    """300 s are ten rounds of one condition: five of both decide nothing, eight of one of them do."""
    plan = small_plan().model_copy(update={"budget": "300s"})
    laboratory = Laboratory(tmp_path / "store.sqlite", plan)
    near, far = (cell.id for cell in laboratory.cells if not cell.baseline and not cell.control)
    laboratory.decided_after = {near: 6, far: 50}
    if moment is not None:
        laboratory.bench.die_at = moment
        with pytest.raises(KeyboardInterrupt):
            laboratory.execute()
    assert laboratory.execute().ending == "budget"
    rounds = {cell: {trial.round for trial in laboratory.trials() if trial.cell == cell} for cell in (near, far)}
    # The first round is of everything, and so is the last: nothing is in reach any more.
    assert rounds == {near: set(range(1, 7)), far: {1, *range(7, 10)}}
    waits = [event.text for event in laboratory.events if isinstance(event, Notice) and "wait" in event.text]
    assert "read-write" in waits[0]
    begun = {event.round: event for event in laboratory.events if isinstance(event, RoundStarted)}
    assert [(begun[one].undecided, begun[one].waiting, begun[one].decided) for one in (2, 6, 7)] == [
        (2, 1, 0), (2, 1, 0), (1, 0, 1),
    ]  # fmt: skip
    laboratory.store.close()


@pytest.mark.parametrize("moment", range(0, 40, 3))
def test_a_round_in_parts_has_each_parts_baselines_and_goes_on_where_it_was(tmp_path: Path, moment: int) -> None:
    plan = small_plan(data_block=["2kB", "4kB", "8kB", "16kB"])
    laboratory = Laboratory(tmp_path / "store.sqlite", plan)
    laboratory.bench.room = 3  # the baseline's and the control's dataset and one more
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


def test_a_failing_cell_does_not_end_the_run_and_is_repeated_on_request(laboratory: Laboratory) -> None:
    broken = next(cell for cell in laboratory.cells if not cell.baseline and not cell.control)
    laboratory.bench.failing = {broken.id}
    outcome = laboratory.execute()
    assert (outcome.ending, outcome.failed, outcome.ok) == ("rounds", 4, 20)
    laboratory.bench.failing = set()
    before = laboratory.trials()
    laboratory.execute(retry=True)
    again = laboratory.trials()[len(before) :]
    # a ratio is taken within a part: the cell comes with its baseline and control, in every round that lacks it
    expected = {cell.id for cell in laboratory.cells if cell.condition == broken.condition}
    for number in range(1, 5):
        assert {trial.cell for trial in again if (trial.round, trial.part) == (number, 2)} == expected
    assert len(again) == 4 * len(expected)
    laboratory.execute(retry=True)
    assert len(laboratory.trials()) == len(before) + len(again)


def test_a_round_that_lost_its_baseline_is_repeated_whole_on_request(laboratory: Laboratory) -> None:
    baseline = next(cell for cell in laboratory.cells if cell.baseline)
    laboratory.bench.failing = {baseline.id}
    laboratory.execute()
    laboratory.bench.failing = set()
    laboratory.execute(retry=True)
    condition = {cell.id for cell in laboratory.cells if cell.condition == baseline.condition}
    assert {trial.cell for trial in laboratory.trials() if trial.part == 2} == condition


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

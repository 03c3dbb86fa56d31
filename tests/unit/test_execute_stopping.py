"""When a run ends: verdicts, rounds, budget."""

from pathlib import Path

import pytest
from tests.unit.fake_lab import Laboratory
from tests.unit.plans import small_plan

from octavo.lab.events import Notice, RoundStarted


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
    # a round of six trials takes sixty seconds: three of them fit into 200 s, and the limit of rounds has no effect
    assert laboratory.execute().ending == "budget"
    assert {trial.round for trial in laboratory.trials()} == {1, 2, 3}
    assert laboratory.execute().ending == "budget"  # time used by earlier sessions is not given back
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
    # The first round is of all conditions, and so is the last: no decision is within reach any more.
    assert rounds == {near: set(range(1, 7)), far: {1, *range(7, 10)}}
    waits = [event.text for event in laboratory.events if isinstance(event, Notice) and "wait" in event.text]
    assert "read-write" in waits[0]
    begun = {event.round: event for event in laboratory.events if isinstance(event, RoundStarted)}
    assert [(begun[one].undecided, begun[one].waiting, begun[one].decided) for one in (2, 6, 7)] == [
        (2, 1, 0), (2, 1, 0), (1, 0, 1),
    ]  # fmt: skip
    laboratory.store.close()

"""A build's reports on its steps and on the remaining time."""

import pytest

from octavo.postgres.builds.stages import COMPILATION, CONFIGURATION, LOOKING, BuildStep, Stages, compiling_more, costs


def steps(stages: dict[str, float], *said: tuple[float, str, int, int]) -> list[BuildStep]:
    """The reported steps for these messages: at the second, the stage, its done and total."""
    told: list[BuildStep] = []
    now = [0.0]
    builder = Stages(stages, told.append, clock=lambda: now[0])
    for second, doing, done, total in said:
        now[0] = second
        builder(doing, done, total)
    return told


def test_each_step_names_the_next_stage() -> None:
    stages = costs(3, known=True)
    assert list(stages) == [CONFIGURATION, COMPILATION, LOOKING, "compilation of 2 more sizes"]
    told = steps(stages, *((1.0, name, 1, 2) for name in stages))
    assert [step.then for step in told] == [*list(stages)[1:], ""]
    assert compiling_more(1) == "compilation of 1 more size"


def test_the_time_left_follows_from_the_time_so_far() -> None:
    stages = {"first": 10.0, "second": 30.0}
    told = steps(stages, (10.0, "first", 1, 1), (20.0, "second", 1, 3), (80.0, "second", 3, 3))
    assert [step.left for step in told] == pytest.approx([30.0, 20.0, 0.0])


def test_before_anything_is_done_the_costs_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    told = steps({"first": 10.0, "second": 30.0}, (0.0, "first", 0, 7), (1.0, "first", 1, 7))
    assert [step.left for step in told] == pytest.approx([20.0, 19.0])


def test_what_is_no_stage_leaves_the_time_as_it_was() -> None:
    told = steps({"first": 10.0}, (5.0, "first", 1, 2), (5.0, "installation", 0, 1))
    assert told[1] == BuildStep("installation", 0, 1, told[0].left, "")
    assert steps({"first": 10.0}, (1.0, "first", 0, 0))[0].done == 0

"""What a run writes to a log while it continues."""

import math

import pytest
from tests.unit.analysis.making import read_only_plan

from octavo.cli.progress import RunProgress
from octavo.cli.ratio_lines import RatioLine, Rounds, drawn
from octavo.lab.events import BuildProgress, RoundsStarted, RoundStarted, TrialEnded, TurnsGoOn
from octavo.observation import Observation
from octavo.postgres.builds.stages import BuildStep
from octavo.store.records import TrialRecord


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (Observation("seconds", 0.0923, "seconds"), "seconds 92 ms"),
        (Observation("tps", 12076.4, "1/s"), "tps 12,100"),
        (Observation("page_tables_bytes", 2678030336, "bytes"), "page_tables_bytes 2.49 GB"),
    ],
)
def test_a_result_is_told_in_its_unit(seen: Observation, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    cells = tuple(read_only_plan()[1])
    cell = cells[0]
    record = TrialRecord(cell.id, 1, 1, 1, 1, "ok", None, 0.0, 10.0, 7, (seen,))
    progress = RunProgress()
    progress(RoundsStarted(cells, ()))
    progress(TrialEnded(cell, record, 1, 4))
    assert capsys.readouterr().err == f"round 1, trial 1 of 4: {cell.id}: {told}\n"


def test_a_repetition_has_no_number_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    cells = tuple(read_only_plan()[1])
    record = TrialRecord(cells[0].id, 1, 1, 5, 1, "invalid", "the CPU was taken", 0.0, 10.0, 7, ())
    progress = RunProgress()
    progress(RoundsStarted(cells, ()))
    progress(TrialEnded(cells[0], record, 4, 4, 2))
    assert capsys.readouterr().err == f"round 1, repetition 2: {cells[0].id}: invalid: the CPU was taken\n"


def test_one_cell_and_more(capsys: pytest.CaptureFixture[str]) -> None:
    RunProgress()(RoundStarted(2, 3, 1, 4, None))
    RunProgress()(RoundStarted(2, 3, 2, 3, None))
    RunProgress()(RoundStarted(4, None, 22, 23, 60.0, waiting=5))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "round 2 of at most 3: 1 cell undecided, 4 decided",
        "round 2 of at most 3: 2 cells undecided, 3 decided",
        "round 4: 22 cells undecided (5 waiting), 23 decided; 1 min of the budget left",
    ]


def test_an_interval_of_several_rounds_is_narrower_than_each() -> None:
    rounds = Rounds()
    line = RatioLine("4kB", 1.05, 1.0, 1.1025)
    assert rounds.with_now("a", line).high == pytest.approx(line.high)
    rounds.add("a", line)
    both = rounds.with_now("a", RatioLine("4kB", 1.05, 1.0, 1.1025))
    assert both.ratio == pytest.approx(1.05)
    assert math.log(both.high / both.low) == pytest.approx(math.log(line.high / line.low) / math.sqrt(2))
    assert rounds.with_now("another", line).high == pytest.approx(line.high)


def test_intervals_stay_on_their_scale() -> None:
    assert drawn(RatioLine("4kB", 3.0, 0.2, 9.0), 0.1, 21) == "─" * 10 + "│" + "─" * 9 + "●"
    assert drawn(RatioLine("4kB", 0.9, 0.9, 0.9), 0.2, 21).index("●") < 10


def test_the_last_word_of_a_round_in_slices_stays(capsys: pytest.CaptureFixture[str]) -> None:
    cell = read_only_plan()[1][1]
    progress = RunProgress()
    progress(TurnsGoOn(2, ((cell, 1.0432, 1.031, 1.0557),), 0.4, ended=False))
    progress(TurnsGoOn(2, ((cell, 1.0432, 1.031, 1.0557),), 1.0, ended=True))
    line = f"round 2, ratios of this round alone, about 95 % intervals: {cell.label} × 1.043 (1.031 to 1.056)\n"
    assert capsys.readouterr().err == line


def test_a_ratio_without_an_interval_is_shown_alone(capsys: pytest.CaptureFixture[str]) -> None:
    cell = read_only_plan()[1][1]
    RunProgress()(TurnsGoOn(2, ((cell, 1.0432, 1.0432, 1.0432),), 1.0, ended=True))
    assert capsys.readouterr().err == f"round 2, ratios of this round alone: {cell.label} × 1.043\n"
    rounds, line = Rounds(), RatioLine("4kB", 1.21, 1.21, 1.21)
    assert (line.interval, rounds.with_now("a", line)) == ("", line)
    rounds.add("a", RatioLine("4kB", 1.0, 1.0, 1.0))
    assert rounds.with_now("a", line).ratio == pytest.approx(1.1)


def test_a_build_says_what_is_next_and_how_long_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    progress = RunProgress()
    for done in (0, 1, 421, 422, 1683):
        progress(BuildProgress(BuildStep("compilation", done, 1683, 95.0 if done else 120.0, "finding")))
    assert capsys.readouterr().err.splitlines() == [
        "compilation: step 0 of 1683; builds ready in about 2 min; next: finding",
        "compilation: step 421 of 1683; builds ready in about 1 min 35 s; next: finding",
        "compilation: step 1683 of 1683; builds ready in about 1 min 35 s; next: finding",
    ]

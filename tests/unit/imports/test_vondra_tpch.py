from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.imports.making import DATA, QUERIES, RUNS, SEGMENTS, WAL, change_line, seconds, write_tpch

from octavo.errors import UsageError
from octavo.imports.vondra_tpch import read
from octavo.store.records import TrialRecord


def trial_of(trials: list[TrialRecord], cell: str, load: int) -> TrialRecord:
    (found,) = (trial for trial in trials if trial.cell == cell and trial.load == load)
    return found


def test_every_load_is_a_trial_of_each_phase(tmp_path: Path) -> None:
    made = read(write_tpch(tmp_path / "i5"))
    assert len(made.trials) == len(DATA) * len(WAL) * len(SEGMENTS) * 3
    assert {trial.status for trial in made.trials} == {"ok"}
    assert [cell.condition for cell in made.cells][::4] == ["queries", "first run", "load"]
    baselines = [cell for cell in made.cells if cell.baseline]
    assert {cell.label for cell in baselines} == {"8kB/8kB"}
    assert len(baselines) == 3
    assert made.plan.name == "i5"
    assert made.settings == {"shared_buffers": "1GB", "lc_time": "C"}


def test_wal_segments_are_loads_in_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    made = read(write_tpch(tmp_path))
    assert {(trial.load, trial.round, (trial.facts or {})["wal_segment"]) for trial in made.trials} == {
        (1, 1, "16MB"),
        (2, 2, "1MB"),
    }


def test_first_runs_are_never_in_one_trial_with_later_ones(tmp_path: Path) -> None:
    made = read(write_tpch(tmp_path))
    for trial in made.trials:
        repetitions = {one.repetition for one in trial.observations}
        phase = trial.cell.partition("phase=")[2]
        assert repetitions == {"first run": {1}, "queries": {2, 3}, "load": {1}}[phase]


def test_totals_are_sums_of_one_run(tmp_path: Path) -> None:
    made = read(write_tpch(tmp_path))
    trial = trial_of(list(made.trials), "data_block=4kB wal_block=64kB phase=queries", 2)
    totals = {one.repetition: one.value for one in trial.observations if one.item is None}
    assert totals == pytest.approx({run: sum(seconds(4, 64, 1, q, run) for q in QUERIES) for run in RUNS[1:]})
    assert (trial.facts or {})["plans"] == {"q1": "plan1", "q9": "plan94"}


def test_load_steps_have_time_and_wal_and_the_load_its_sizes(tmp_path: Path) -> None:
    made = read(write_tpch(tmp_path))
    trial = trial_of(list(made.trials), "data_block=8kB wal_block=8kB phase=load", 1)
    seen = {(one.item, one.metric): one.value for one in trial.observations}
    assert seen == {
        (None, "seconds"): 134,
        ("load.copy", "seconds"): 108,
        ("load.fkey", "seconds"): 26,
        (None, "wal_bytes"): 134_000,
        ("load.copy", "wal_bytes"): 108_000,
        ("load.fkey", "wal_bytes"): 26_000,
        (None, "table_bytes"): 65_536,
        (None, "index_bytes"): 32_768,
        (None, "database_bytes"): 131_072,
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("8;8;1;16;1;2;1600000000", "7 fields instead of 10"),
        ("8;8;1;16;1;2;1600000000.0;nan;p;r", "seconds is 'nan', not a number"),
        ("8;8;1;16;1;2;1600000000.0;1e-300;p;r", "seconds is '1e-300', not a number"),
        ("8;8;1;16;1;2;1600000000.0;1e-400;p;r", "seconds is '1e-400', not a number"),
        ("8;8;1;16;1;2;1600000000.0;-1;p;r", "seconds is '-1', not above zero"),
        ("7;8;1;16;1;2;1600000000.0;1;p;r", "data_block is '7', in kB it must be one of 1kB"),
        ("8;8;1;16;23;2;1600000000.0;1;p;r", "query is '23', not a whole number from 1 to 22"),
        ("8;8;1;16;1;٢;1600000000.0;1;p;r", "run is '٢', not a whole number"),
        ("8;8;1;16;1;2;1e30;1;p;r", "start is '1e30', not a time"),
        ("8;8;1;16;1;2;1e300;1;p;r", "start is '1e300', not a number"),
    ],
)
def test_a_malformed_row_is_named_and_left_out_and_its_trial_has_no_total(tmp_path: Path, text: str, why: str) -> None:
    directory = write_tpch(tmp_path)
    lines = (directory / "queries.csv").read_text().splitlines()
    place = next(number for number, line in enumerate(lines, 1) if line.startswith("8;8;1;16;1;2;"))
    change_line(directory / "queries.csv", place, text)
    made = read(directory)
    (problem,) = made.sources[0].problems
    assert problem.startswith(f"queries.csv:{place}: {why}")
    trial = trial_of(list(made.trials), "data_block=8kB wal_block=8kB phase=queries", 1)
    assert (trial.status, trial.reason) == ("invalid", "incomplete: q1 of run 2 missing, so it has no total")
    assert [one.repetition for one in trial.observations if one.item is None] == [3]
    assert sum(other.status == "invalid" for other in made.trials) == 1


def test_a_repeated_row_is_left_out(tmp_path: Path) -> None:
    directory = write_tpch(tmp_path)
    file = directory / "queries.csv"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines, lines[0]]) + "\n")
    made = read(directory)
    assert made.sources[0].problems == [f"queries.csv:{len(lines) + 1}: the same trial as line 1; left out"]
    assert made.sources[0].rows == len(lines)


def test_queries_alone_will_do(tmp_path: Path) -> None:
    directory = write_tpch(tmp_path)
    for name in ("load.csv", "size.csv", "settings.conf"):
        (directory / name).unlink()
    made = read(directory, named="only <queries>")
    assert {cell.condition for cell in made.cells} == {"queries", "first run"}
    assert made.plan.name == "only-queries"


def test_what_is_no_such_directory_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a directory"):
        read(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"queries\.csv cannot be read"):
        read(tmp_path)
    (tmp_path / "queries.csv").write_text("a,b\n")
    with pytest.raises(UsageError, match=r"has no row of the form data_block;.*queries\.csv:1: 1 fields"):
        read(tmp_path)


@given(st.text(max_size=300))
def test_no_text_breaks_it(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    directory = write_tpch(tmp_path_factory.mktemp("data"))
    file = directory / "queries.csv"
    file.write_text(file.read_text() + text, encoding="utf-8", errors="replace", newline="")
    made = read(directory)
    whole = len(DATA) * len(WAL) * len(SEGMENTS) * len(QUERIES) * len(RUNS)
    assert made.sources[0].rows >= whole

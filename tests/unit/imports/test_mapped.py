from contextlib import closing
from pathlib import Path

import pytest

from octavo.analysis.document import make_document
from octavo.errors import UsageError
from octavo.imports.mapped import read
from octavo.imports.run import save
from octavo.report.answer import answer
from octavo.report.statistical_model import model_sentence
from octavo.store.store import Store

MAP = """
baseline = { data_block = "8kB" }
[factors]
data_block = { column = "bs", unit = "kB" }
mode = "mode"
scale = { level = 100 }
[metrics.tps]
column = "tps"
unit = "1/s"
better = "higher"
[trial]
load = "load"
seconds = "took"
seconds_asked = 30
"""
TABLE = """bs,mode,load,tps,took,remark
8,"read, only",a,1000,30,
4,"read, only",a,1100,30.1,"a ""quoted"" one"
8,"read, only",b,990,30,
4,"read, only",b,1090,12,
8,"read, only",a,1010,30,
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "t.csv").write_text(TABLE)
    (tmp_path / "t.toml").write_text(MAP)
    return tmp_path / "t.csv", tmp_path / "t.toml"


def test_lines_are_trials_of_cells_loads_and_rounds(files: tuple[Path, Path]) -> None:
    made = read(*files)
    assert [cell.levels["data_block"] for cell in made.cells] == ["8kB", "4kB"]
    assert [cell.baseline for cell in made.cells] == [True, False]
    assert made.cells[0].levels["scale"] == "100"
    assert [(trial.cell, trial.load, trial.round) for trial in made.trials] == [
        ("data_block=8kB", 1, 1),
        ("data_block=4kB", 1, 1),
        ("data_block=8kB", 2, 3),
        ("data_block=4kB", 2, 3),
        ("data_block=8kB", 1, 2),
    ]
    assert [trial.observations[0].value for trial in made.trials] == [1000, 1100, 990, 1090, 1010]
    assert [trial.reason for trial in made.trials if trial.status == "invalid"] == ["ran 12.00 s of the 30 s requested"]


def test_lines_with_items_are_one_trial_with_a_total(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("8;q1;1;2.5\n8;q2;1;3\n8;q1;2;2\n8;q2;2;2\n4;q1;1;9\n")
    (tmp_path / "t.toml").write_text("""
baseline = { data_block = "8kB" }
[file]
delimiter = ";"
columns = ["bs", "query", "run", "s"]
[factors]
data_block = { column = "bs", unit = "kB" }
[metrics.seconds]
column = "s"
better = "lower"
total = true
[trial]
item = "query"
repetition = "run"
""")
    first, second = read(tmp_path / "t.csv", tmp_path / "t.toml").trials
    assert [(one.item, one.repetition, one.value) for one in first.observations] == [
        (None, 1, 5.5), (None, 2, 4.0), ("q1", 1, 2.5), ("q2", 1, 3.0), ("q1", 2, 2.0), ("q2", 2, 2.0),
    ]  # fmt: skip
    assert [one.item for one in second.observations] == ["q1"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('column = "tps"', 'column = "tsp"', "no column 'tsp'; columns: bs, mode, load, tps"),
        ('"8kB" }', '"16kB" }', "baseline.data_block: 16kB was not measured; levels that were: 8kB, 4kB"),
        ("[factors]", "[factor]", "t.toml: factors: field required"),
        ("better =", "beter =", "t.toml: metrics.tps.beter: extra inputs are not permitted"),
        ("{ level = 100 }", "{}", "t.toml: factors.scale: give either a column, or the level that all trials had"),
        ("{ level = 100 }", '{ column = "load", level = 100 }', "t.toml: factors.scale: give either a column, or"),
        ("{ level = 100 }", '{ level = 8, unit = "kB" }', "t.toml: factors.scale: a unit belongs to a column"),
        ("[metrics.tps]", "[file]\ndelimiter = '\"'\n[metrics.tps]", "t.toml: file.delimiter: string should match"),
        ("[trial]", "[trial", "t.toml: not TOML"),
        ("baseline", "negative = ['mod']\nbaseline", "t.toml: negative: mod is not in [baseline], so nothing compares"),
    ],
)
def test_a_map_that_does_not_fit_is_one_line(files: tuple[Path, Path], old: str, new: str, message: str) -> None:
    files[1].write_text(MAP.replace(old, new))
    with pytest.raises(UsageError) as caught:
        read(*files)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_lines_that_cannot_be_read_are_named(files: tuple[Path, Path]) -> None:
    files[0].write_text(TABLE + "x,y,a,1,30,\n8,y,a,1\n8,y,a,-1,30,\n")
    assert read(*files).sources[0].problems == [
        "t.csv:7: bs is 'x', 'xkB' is not a size; write a whole number with B, kB, MB, GB or TB, such as 8kB; left out",
        "t.csv:8: 4 fields instead of 6; left out",
        "t.csv:9: tps is '-1', below zero; left out",
    ]


def test_two_columns_of_one_name_are_refused(files: tuple[Path, Path]) -> None:
    """The last one would be taken."""
    files[0].write_text(TABLE.replace("remark", "tps", 1))
    with pytest.raises(UsageError, match=r"t\.csv: 2 columns are named 'tps'; rename all but the one that is meant"):
        read(*files)


def test_a_measurement_of_a_round_counts_once(files: tuple[Path, Path]) -> None:
    files[1].write_text(MAP.replace("[trial]", '[trial]\nround = "remark"'))
    files[0].write_text("bs,mode,load,tps,took,remark\n8,r,a,10,30,1\n8,r,a,99,30,1\n8,r,a,11,30,2\n4,r,a,12,30,1\n")
    made = read(*files)
    assert [trial.observations[0].value for trial in made.trials] == [10, 11, 12]
    assert made.sources[0].problems == ["t.csv:3: the same measurement as line 2; left out"]
    assert made.sources[0].rows == 3


def test_the_command_that_repeats_an_import_can_be_pasted(tmp_path: Path) -> None:
    table, described_by = tmp_path / "my results.csv", tmp_path / "t.toml"
    table.write_text(TABLE)
    described_by.write_text(MAP)
    assert read(table, described_by).repeat == f"octavo import csv '{table}' --map {described_by}"


def test_the_only_analysis_of_an_imported_run_is_no_interim_one(files: tuple[Path, Path], tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "octavo.sqlite")) as store:
        document = make_document(store, save(read(*files), store.address))
    assert "The answer holds for the machine on which it was measured." in document["limits"]
    assert not any("memory limit" in limit for limit in document["limits"])  # it is not known whether there was one
    (model,) = (row for row in document["model"] if row["metric"] == "tps")
    assert (model["looks"], model["first_look"]) == (0, None)
    assert str(model_sentence(document, "")).endswith("interim analyses: none.")


def test_a_trial_of_zero_is_named_where_it_leaves_cells_without_a_ratio(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    files[0].write_text(TABLE.replace(",1010,", ",0,"))
    with closing(Store.open(tmp_path / "octavo.sqlite")) as store:
        document = make_document(store, save(read(*files), store.address))
    assert document["effects"] == []
    assert "no ratio if one of its trials has a value of 0 or less" in answer(document).headline
    (sentence,) = (limit for limit in document["limits"] if "zero" in limit)
    assert sentence.startswith("Tps was zero or less in a trial of 8kB. ")

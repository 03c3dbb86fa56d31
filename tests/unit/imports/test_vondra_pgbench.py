import math
from pathlib import Path

import pytest

from octavo.errors import UsageError
from octavo.imports.vondra_pgbench import read

ROWS = [
    "1648831532;1648832432;8;8;16;50;ro;126325.97;900.05;6456",
    "1648832492;1648833392;8;8;16;50;ro;126710.27;900.05;0",
    "1648834414;1648836214;8;8;16;50;rw;20835.72;1800.04;9749742448",
    "1648836274;1648836274;4;8;16;50;rw;20782.21;0.07;9650",
    "1648838134;1648838591;4;8;16;50;rw;20709.90;457.1;9603197336",
    "1648840000;1648840100;4;8;16;50;ro;20709.90;900.0;0",
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "i5" / "series" / "results.csv"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(ROWS) + "\n")
    return path


def test_trials_that_ended_early_are_invalid_with_the_reason(file: Path) -> None:
    made = read(file)
    assert [(trial.status, trial.reason) for trial in made.trials] == [
        ("ok", None),
        ("ok", None),
        ("ok", None),
        ("invalid", "ran 0.07 s of the 1800 s requested"),
        ("invalid", "ran 457.10 s of the 1800 s requested"),
        ("invalid", "its start and end are 100 s apart, but it should have run 900 s"),
    ]


def test_scale_and_mode_are_conditions_and_runs_are_rounds(file: Path) -> None:
    made = read(file)
    assert [cell.condition for cell in made.cells] == ["read-only, scale 50"] * 2 + ["read-write, scale 50"] * 2
    assert [cell.label for cell in made.cells] == ["4kB/8kB", "8kB/8kB"] * 2
    assert [(trial.round, trial.load) for trial in made.trials] == [(1, 1), (2, 1), (1, 1), (1, 1), (2, 1), (1, 1)]
    assert made.plan.name == "i5-series"


def test_wal_per_transaction_is_of_the_transactions_that_tps_and_seconds_say(file: Path) -> None:
    seen = {one.metric: one.value for one in read(file).trials[2].observations}
    assert seen["tps"] == 20835.72
    assert seen["wal_bytes_per_transaction"] == pytest.approx(9749742448 / (20835.72 * 1800.04))


def test_numbers_stay_finite(file: Path) -> None:
    file.write_text("1;1801;8;8;16;50;rw;1e-99;1e-99;1e99\n1;1801;8;8;16;50;rw;1e99;1e99;1e99\n")
    seen = [one for trial in read(file).trials for one in trial.observations]
    assert len(seen) == 7 and all(math.isfinite(one.value) for one in seen)


def test_a_row_that_is_there_twice_is_one_trial(file: Path) -> None:
    """As of two copies of a file behind each other: they would count as repetitions that agree exactly."""
    file.write_text("\n".join([*ROWS, *ROWS]) + "\n")
    made = read(file)
    assert len(made.trials) == made.sources[0].rows == len(ROWS)
    assert made.sources[0].problems[0] == "results.csv:7: the same trial as line 1; left out"


def test_more_runs_than_a_plan_may_have_are_refused(file: Path) -> None:
    file.write_text("".join(f"{start};{start + 900};8;8;16;50;ro;1;900;0\n" for start in range(1, 10_002)))
    with pytest.raises(UsageError, match="has 1 load and 10,001 rounds; at most 100 and 10,000 are supported"):
        read(file)


def test_a_malformed_row_is_named(file: Path) -> None:
    file.write_text("\n".join([*ROWS, "1;2;8;8;16;50;rx;1;1800;1", "x"]) + "\n")
    assert read(file).sources[0].problems == [
        "results.csv:7: mode is 'rx', allowed: ro, rw, read-only, read-write; left out",
        "results.csv:8: 1 fields instead of 10; left out",
    ]

"""Runs compared on the command line: exit codes, formats, and hostile names."""

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.e2e.conftest import Octavo

pytestmark = pytest.mark.beside

MAP = """
baseline = { data_block = "8kB" }
[factors]
data_block = { column = "bs", unit = "kB" }
mode = "mode"
[metrics.tps]
column = "tps"
unit = "1/s"
better = "higher"
[trial]
load = "load"
"""
HOSTILE = '<script>alert("x")</script>'


def write(
    path: Path, seed: int, speed: float, *, rounds: int = 6, deviation: float = 0.005, mode: str = "reads"
) -> Path:
    """Pages of 4 and 8 kB on three loads; `speed` is a factor for all cells."""
    source = random.Random(seed)
    lines = ["bs,mode,load,tps"]
    for number in range(rounds):
        for block, factor in ((4, 1.1), (8, 1.0)):
            tps = 1000 * speed * factor * source.gauss(1, deviation)
            quoted = '"' + mode.replace('"', '""') + '"'
            lines.append(f"{block},{quoted},{number % 3},{tps:.3f}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def imported(octavo: Octavo, tmp_path: Path) -> "Importer":
    (tmp_path / "map.toml").write_text(MAP)
    return Importer(octavo, tmp_path)


class Importer:
    """A separate store with the runs of files."""

    def __init__(self, octavo: Octavo, directory: Path) -> None:
        self._octavo, self._directory = octavo, directory
        self.map = directory / "map.toml"

    def add(
        self, name: str, seed: int, speed: float, *, rounds: int = 6, deviation: float = 0.005, mode: str = "reads"
    ) -> str:
        file = write(self._directory / f"{name}.csv", seed, speed, rounds=rounds, deviation=deviation, mode=mode)
        code, out, err = self.call("import", "csv", file, "--map", self.map, "--format", "json")
        assert code == 0, err
        return json.loads(out)["run"]

    def call(self, *arguments: str | Path) -> tuple[int, str, str]:
        """Exit code, output and errors."""
        done = self._octavo(*arguments, OCTAVO_HOME=str(self._directory / "home"), COLUMNS="80")
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr


def _words(text: str) -> str:
    return " ".join(text.split())


def test_a_regression_exits_with_1_and_an_improvement_with_0(imported: Importer) -> None:
    before, after = imported.add("before", 1, 1.0), imported.add("after", 2, 0.9)
    code, out, _ = imported.call("compare", before, after, "--fail-on", "regression=3%")
    assert code == 1
    assert "Regression of more than 3 % in 2 of 2 comparisons" in _words(out)
    code, out, _ = imported.call("compare", after, before, "--fail-on", "regression=3%")
    assert code == 0
    assert "No regression of more than 3 % is decided." in _words(out)
    assert imported.call("compare", before, after)[0] == 0
    assert imported.call("compare", before, after, "--fail-on", "regression=20%")[0] == 0


def test_runs_that_are_alike_exit_with_0(imported: Importer) -> None:
    runs = [imported.add("before", 1, 1.0), imported.add("after", 2, 1.0)]
    code, out, _ = imported.call("compare", *runs, "--fail-on", "regression=3%")
    assert code == 0
    assert "Of 2 comparisons: 2 same within 3 %." in _words(out)


def test_what_decides_nothing_says_so_and_exits_with_4(imported: Importer) -> None:
    runs = [imported.add(name, seed, 1.0, rounds=3, deviation=0.2) for seed, name in enumerate(("before", "after"))]
    code, out, _ = imported.call("compare", *runs, "--fail-on", "regression=3%")
    assert code == 4
    assert "Nothing could be decided: no interval is narrow enough (2 comparisons)" in _words(out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{0}"], "compare needs two or more runs"),
        (["{0}", "{0}"], "a run cannot be compared with itself"),
        (["{0}", "nothing"], "no run 'nothing'"),
        (["{0}", "{1}"], "have no cell in common"),
        (["{0}", "{1}", "--fail-on", "regression=x"], "'x' is not a percentage"),
        (["{0}", "{1}", "--fail-on", "slower=3%"], "write regression=3%"),
    ],
)
def test_mistakes_are_one_line(imported: Importer, arguments: Sequence[str], message: str) -> None:
    first = imported.add("first", 1, 1.0)
    imported.map.write_text(MAP.replace('unit = "kB"', 'unit = "MB"').replace('"8kB"', '"8MB"'))
    second = imported.add("second", 1, 1.0)
    code, out, err = imported.call("compare", *(argument.format(first, second) for argument in arguments))
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_names_stay_text_in_every_format(imported: Importer, tmp_path: Path) -> None:
    mode = f"{HOSTILE}|*_`\x1b[31m{'long ' * 30}"
    runs = [imported.add(name, seed, 1.0, mode=mode) for seed, name in enumerate(("before", "after"))]
    for number, arguments in enumerate((["compare", *runs], ["report", "last"])):
        page = tmp_path / f"{number}.html"
        assert imported.call(*arguments, "--html", page)[0] == 0
        html = page.read_text()
        assert "<script" not in html
        assert "\x1b" not in html
        assert re.search(r"https?://", html) is None
    for arguments in (["compare", *runs], ["compare", *runs, "--format", "md"], ["report", "last"]):
        code, out, _ = imported.call(*arguments)
        assert code == 0
        assert "\x1b" not in out


def test_json_has_every_metric_and_both_questions(imported: Importer) -> None:
    runs = [imported.add("before", 1, 1.0), imported.add("after", 2, 0.9), imported.add("later", 3, 1.2)]
    code, out, _ = imported.call("compare", *runs, "--format", "json", "--fail-on", "regression=3%")
    document = json.loads(out)
    assert code == 1
    assert document["schema_version"] == 1
    assert [run["id"] for run in document["runs"]] == runs
    assert {(row["run"], row["kind"], row["cell"]) for row in document["comparisons"]} == {
        (run, kind, cell) for run in runs[1:] for kind, cell in (("value", "4kB"), ("value", "8kB"), ("effect", "4kB"))
    }
    assert {row["run"] for row in document["regressions"]} == {runs[1]}
    for row in document["comparisons"]:
        assert row["low"] < row["ratio"] < row["high"]

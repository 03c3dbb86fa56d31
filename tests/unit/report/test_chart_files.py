"""Charts as files: the list of them, their names, and that names in a document do no harm."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from octavo.errors import HostError
from octavo.report.chart_files import file_name, write_charts
from octavo.report.document import Document, conditions

from . import documents
from .making import build


def test_every_chart_of_the_page_is_a_file(tmp_path: Path, small: Document) -> None:
    written = write_charts(small, tmp_path / "charts", "svg")
    shown = len(conditions(small))
    names = sorted(path.name for path in written)
    assert len(set(names)) == len(names) >= shown + 3
    assert {"heatmap-tps.svg", "run-tps.svg", "drift-tps.svg"} <= set(names)
    assert sum(name.startswith("points-") for name in names) == shown
    for path in written:
        root = ElementTree.fromstring(path.read_text(encoding="utf-8"))  # noqa: S314, our own
        assert root.tag.endswith("svg")
        assert "#0100" not in path.read_text(encoding="utf-8")  # no placeholder of a colour remains


def test_a_grid_is_a_file_for_each_condition(tmp_path: Path, grid: Document) -> None:
    names = [path.name for path in write_charts(grid, tmp_path, "svg")]
    assert sum(name.startswith("heatmap-") for name in names) == len(conditions(grid))


def test_a_baseline_and_its_control_alone_have_no_heatmap(tmp_path: Path) -> None:
    """A run that asks how much the host scatters compares nothing else."""
    names = [path.name for path in write_charts(build("noise", ["8kB"], ["8kB"]), tmp_path, "svg")]
    assert not any(name.startswith("heatmap-") for name in names)
    assert "points-read-only-tps.svg" in names


def test_a_png_is_one(tmp_path: Path) -> None:
    written = write_charts(documents.small(), tmp_path, "png")
    assert all(path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n") for path in written)


def test_hostile_names_stay_below_the_directory(tmp_path: Path) -> None:
    written = write_charts(documents.hostile(), tmp_path / "charts", "svg")
    assert written
    assert {path.parent for path in written} == {tmp_path / "charts"}
    assert all(len(path.name) < 255 and "<" not in path.name for path in written)


@pytest.mark.parametrize("word", ["../../etc", "a/b", "-rf", "\x1b[31m", "'; rm", "…"])
def test_a_file_name_is_one_word(word: str) -> None:
    assert not set(file_name(["run", word])) - set("abcdefghijklmnopqrstuvwxyz0123456789-_ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert file_name(["run", word]).startswith("run")


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match="cannot be written"):
        write_charts(documents.small(), tmp_path / "file", "svg")

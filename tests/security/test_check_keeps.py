"""What `octavo build --check` keeps, as root, of tests whose names and files are a hostile tree's."""

# pyright: reportPrivateUsage=false

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from octavo.check import suites
from octavo.errors import OctavoError


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Where tests wrote."""
    path = tmp_path / "output"
    (path / "results").mkdir(parents=True)
    return path


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "kept"


def workspace(kept: Path) -> Any:
    return MagicMock(kept=kept)


@pytest.mark.parametrize("name", ["../../planted/x", "/etc/cron.d/x", "..", ".hidden", "a/b", "a\u00e9"])
def test_a_tests_name_is_no_path(name: str) -> None:
    assert not suites.results_of([f"not ok 1     - {name}      7 ms"])
    assert not suites.results_of([f"ok 1     + {name}      7 ms"])


def test_names_of_postgresqls_own_tests_are_read() -> None:
    lines = ["ok 1         - test_setup                  412 ms", "not ok 18    + collate.linux.utf8   5 ms # x",
             "ok 3         - read-only-anomaly-2   71 ms"]  # fmt: skip
    assert [found["test"] for found in suites.results_of(lines)] == [
        "test_setup", "collate.linux.utf8", "read-only-anomaly-2",
    ]  # fmt: skip


def test_a_run_keeps_nothing_under_a_name_that_leads_out(
    tmp_path: Path, output: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests" / "regress").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (output / "results" / "fine.out").write_text("kept")
    (output / "evil.out").write_text("root:*")
    place = MagicMock(kept=kept, tests=tmp_path / "tests")
    place.own.return_value = output
    printed = ["not ok 1  - ../evil   1 ms", f"not ok 2  - {output}/evil  1 ms", "not ok 3  - fine  1 ms", "1..3"]

    def run(*_: object, on_line: Any, **__: object) -> SimpleNamespace:
        for line in printed:
            on_line(line)
        return SimpleNamespace(returncode=1)

    monkeypatch.setattr(suites.children, "run", run)
    monkeypatch.setattr(suites, "crashed", MagicMock(return_value=[]))
    suite = suites.run_regression(place, MagicMock())
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.out")} == {
        "output/results/fine.out", "output/evil.out", "kept/regression/results/fine.out",
    }  # fmt: skip
    assert [failure.test for failure in suite.failures] == ["fine"]


def test_nothing_is_written_through_a_link_or_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "target").mkdir()
    (tmp_path / "kept" / "link").symlink_to(tmp_path / "target")
    (tmp_path / "kept" / "dangling").symlink_to(tmp_path / "target" / "made")
    (tmp_path / "kept" / "there").write_text("there")
    place = os.open(tmp_path / "kept", os.O_RDONLY)
    try:
        for name in ("link/x", "dangling", "there", "../x", f"{tmp_path}/x"):
            with pytest.raises(OctavoError):
                suites._new_file(place, Path(name))
        os.close(suites._new_file(place, Path("new/er")))
    finally:
        os.close(place)
    assert list((tmp_path / "target").iterdir()) == []
    assert (tmp_path / "kept" / "there").read_text() == "there"
    assert not (tmp_path / "x").exists()


def test_what_is_kept_has_a_size(output: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "_MOST_KEPT", 10)
    (output / "log").mkdir()
    for name in ("a", "b", "c"):
        (output / "log" / name).write_text("7 bytes")
    found = suites.keep(workspace(kept), "regression", [output / "log"], below=output)
    assert [(found / "log" / name).stat().st_size for name in ("a", "b", "c")] == [7, 3, 0]

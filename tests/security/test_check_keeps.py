"""What `octavo build --check`, run as root, keeps of tests whose names and files come from a hostile tree."""

# pyright: reportPrivateUsage=false

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from tests.security.test_endless import in_time

from octavo.check import perl_tests, suites
from octavo.errors import OctavoError
from octavo.host import children
from octavo.host.children import Account
from octavo.host.journal import Journal


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """The directory of the tests' output."""
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


def test_a_script_that_ignores_signals_does_not_hold_up_who_gives_up(
    tmp_path: Path, journal: Journal, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = {"first": "read line", "ignores": "trap '' TERM; echo; while :; do sleep 0.1; done"}
    running: dict[str, tuple[Any, int]] = {}

    def start(_: Any, __: Path, ___: Path, test: str, ____: Path) -> tuple[Any, int]:
        running[test] = children.start(
            ["sh", "-c", scripts[test]], journal, role="perl", account=account, stdin=subprocess.PIPE
        )
        if test == "ignores":
            assert running[test][0].stdout.readline() == "\n"  # from now on it ignores SIGTERM
            running["first"][0].stdin.close()
        return running[test]

    def give_up(*_: object) -> None:
        raise OctavoError("given up")

    monkeypatch.setattr(perl_tests, "_start", start)
    monkeypatch.setattr(children, "_PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with pytest.raises(OctavoError, match="given up"):
        in_time(
            lambda: perl_tests._run_all(
                MagicMock(journal=journal), tmp_path, tmp_path, dict.fromkeys(scripts, tmp_path), give_up
            )
        )
    assert running["ignores"][0].returncode == -signal.SIGKILL

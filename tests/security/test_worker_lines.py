"""The output of the process that makes a build is accepted only in the right form, and shown without control
characters."""

from pathlib import Path

import pytest

from octavo.errors import HostError, OctavoError
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres.builds.worker_client import NotShareableHere, WorkerClient


@pytest.fixture
def place(home: Path, tmp_path: Path) -> WorkerClient:
    with Journal() as journal:
        return WorkerClient(
            tmp_path, tmp_path / "tree", "a test", tmp_path / "log", Account("nobody", 65534, 65534), journal
        )


def said(place: WorkerClient, line: str) -> tuple[str, list[object]]:
    """How the line is interpreted, and what was called."""
    called: list[object] = []

    def progress(doing: str, done: int, total: int) -> None:
        called.append((doing, done, total))

    words = place.obey(line, progress, called.append)
    return words, called


def test_progress_and_what_is_ready_are_passed_on(place: WorkerClient) -> None:
    assert said(place, '{"doing": "compilation", "done": 3, "total": 9}\n') == ("", [("compilation", 3, 9)])
    assert said(place, '{"ready": 1}\n') == ("", [1])
    assert said(place, '{"doing": "\\u001b[2Jx", "done": 0, "total": 1}')[1] == [("[2Jx", 0, 1)]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Traceback (most recent call last):",
        "5",
        "null",
        "[]",
        "{}",
        '{"ready": "1"}',
        '{"ready": null}',
        '{"ready": [0]}',
        '{"doing": 1, "done": 1, "total": 1}',
        f'{{"doing": "compilation", "done": 1{"0" * 4000}, "total": 1}}',
        '{"tool": "make"}',
        '{"failed": "x"}',
        "[" * 100_000,
        "9" * 5_000,
        "\x1b]0;title\x07\x9b31m",
    ],
)
def test_anything_else_does_nothing_and_is_shown_without_controls(place: WorkerClient, line: str) -> None:
    words, called = said(place, line)
    assert called == []
    assert words.isprintable()
    assert len(words) <= 1000


def test_a_failure_is_the_error_that_it_was(place: WorkerClient) -> None:
    with pytest.raises(HostError, match="no such compiler"):
        said(place, '{"failed": "no such compiler", "host": true}')
    with pytest.raises(NotShareableHere, match="another file"):
        said(place, '{"not_shareable": "another file"}')
    with pytest.raises(OctavoError, match=r"compilation of a test failed: error: no; see .*log"):
        said(place, '{"tool": "compilation", "cause": "error: no", "log": "all \\ud800 of it"}')
    assert place.log.read_text() == "all ? of it"
    assert place.log.stat().st_mode & 0o777 == 0o600  # it contains lines of the sources


def test_a_builds_log_is_not_written_through_a_link(place: WorkerClient, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("before")
    place.log.symlink_to(tmp_path / "target")
    with pytest.raises(OctavoError, match="compilation of a test failed"):
        said(place, '{"tool": "compilation", "cause": "no", "log": "all of it"}')
    assert (tmp_path / "target").read_text() == "before"
    assert place.log.read_text() == "all of it"

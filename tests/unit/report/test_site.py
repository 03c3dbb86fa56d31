"""The site of all runs: its contents, what it replaces, and what it refuses to change."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.planted_runs import plant
from tests.unit.plans import changed_plan, small_plan

from octavo.cli.report import report
from octavo.errors import HostError, UsageError
from octavo.report.site import write_site
from octavo.report.site_directory import MARKER, refuse_foreign, replacing_directory
from octavo.store.store import Store

from .test_report_html import Page

FEW = 12  # metrics of each trial


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.open(tmp_path / "octavo.sqlite")) as opened:
        yield opened


def page_of(path: Path) -> Page:
    """The page, well nested, without scripts, and with links only into the site."""
    text = path.read_text()
    page = Page(text)
    assert page.open == []
    assert page.handlers == []
    assert not {"script", "img", "iframe", "link", "object", "embed", "base", "form"} & set(page.tags)
    assert "default-src 'none'" in text or path.parent.name == "compare"
    for link in page.loads:
        assert link.startswith("a href=")
        assert (path.parent / link.removeprefix("a href=")).resolve().is_file()
    return page


def test_every_run_is_listed_with_its_answer_and_compared_with_the_one_before(store: Store, tmp_path: Path) -> None:
    runs = [plant(store, small_plan(), metrics=FEW, number=n, status="finished") for n in (1, 2)]
    named = {'question = "Which?"': 'question = "Which <b>one</b>?"'}
    runs.append(plant(store, changed_plan(named), name="<script>alert(1)</script>", metrics=FEW, number=3))
    index = write_site(store, runs[::-1], tmp_path / "site")
    page = page_of(index)
    assert page.text.count("4 kB data blocks give") == 3
    assert "Which <b>one</b>?" in page.text
    assert "<script>alert(1)</script>" in page.text
    assert page.tags.count("svg") == 3
    files = {str(path.relative_to(index.parent)) for path in index.parent.rglob("*") if path.is_file()}
    assert len(files) == 2 + 3 + 2  # index and marker, pages, comparisons
    links = [link.removeprefix("a href=") for link in page.loads]
    assert f"compare/{runs[1]}.html" in links
    for name in files - {MARKER}:
        page_of(index.parent / name)
    assert json.loads((index.parent / MARKER).read_text())["files"] == sorted(files - {MARKER})
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".site")]


def test_a_site_is_replaced_whole_and_an_error_changes_nothing(store: Store, tmp_path: Path) -> None:
    first, second = (plant(store, small_plan(), metrics=FEW, number=n, name=f"run-{n}") for n in (1, 2))
    site = tmp_path / "site"
    write_site(store, [second, first], site)
    before = (site / "index.html").read_text()
    with pytest.raises(RuntimeError):
        write_site(store, [first], site, said=_fail)
    assert (site / "index.html").read_text() == before
    write_site(store, [first], site)
    assert [path.name for path in (site / "runs").iterdir()] == [f"{first}.html"]
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("octavo")) == ["site"]


def _fail(_: str) -> None:
    raise RuntimeError


def test_a_run_that_cannot_be_shown_is_listed_with_the_reason(store: Store, tmp_path: Path) -> None:
    from octavo.errors import OctavoError
    from octavo.report import site

    run = plant(store, small_plan(), metrics=FEW)

    def broken(*_: object, **__: object) -> str:
        raise OctavoError("the plan of this run is from another version")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site, "make_document", broken)
        page = page_of(write_site(store, [run], tmp_path / "site"))
    assert "This run cannot be shown: the plan of this run is from another version" in page.text
    assert page.loads == []


@pytest.mark.parametrize("kind", ["file", "link", "other files", "a link in it", "forged marker"])
def test_what_is_not_a_site_is_refused_and_kept(tmp_path: Path, kind: str) -> None:
    target, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("kept")
    if kind == "file":
        target.write_text("kept")
    elif kind == "link":
        target.symlink_to(elsewhere)
    else:
        target.mkdir()
        (target / "precious").write_text("kept")
        if kind == "a link in it":
            (target / "runs").symlink_to(elsewhere)
        if kind == "forged marker":
            (target / MARKER).symlink_to(elsewhere / "precious")
    seen = sorted(tmp_path.rglob("*"))
    with (
        pytest.raises(HostError, match=r"name a directory that is empty or does not exist"),
        replacing_directory(target),
    ):
        raise AssertionError("nothing is written")
    assert sorted(tmp_path.rglob("*")) == seen
    assert (elsewhere / "precious").read_text() == "kept"


def test_files_that_were_added_to_a_site_are_not_deleted(tmp_path: Path) -> None:
    target = tmp_path / "site"
    with replacing_directory(target) as directory:
        (directory / "index.html").write_text("1")
    with replacing_directory(target) as directory:
        (directory / "index.html").write_text("2")
    assert (target / "index.html").read_text() == "2"
    refuse_foreign(target)
    (target / "CNAME").write_text("pages.example.org")
    with pytest.raises(HostError, match=re.escape("has files that --site did not write (CNAME)")):
        refuse_foreign(target)


_KILLED = """
import os, signal, sys
from pathlib import Path
from octavo.report.site_directory import replacing_directory
with replacing_directory(Path(sys.argv[1])) as directory:
    (directory / "runs").mkdir()
    (directory / "runs" / "one.html").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def hidden(directory: Path) -> list[str]:
    """The names in the directory that begin with a dot."""
    return sorted(path.name for path in directory.iterdir() if path.name.startswith("."))


def test_what_a_kill_left_is_removed_by_the_next_call_for_the_same_target(tmp_path: Path) -> None:
    for name in ("site", "other"):
        killed = subprocess.run([sys.executable, "-c", _KILLED, tmp_path / name], check=False)
        assert killed.returncode == -signal.SIGKILL
    assert len(hidden(tmp_path)) == 2
    with replacing_directory(tmp_path / "site") as directory:
        assert len(hidden(tmp_path)) == 2 and directory.name in hidden(tmp_path)
        (directory / "index.html").write_text("whole")
    assert [name.split(".")[1] for name in hidden(tmp_path)] == ["other"]
    assert sorted(path.name for path in (tmp_path / "site").iterdir()) == ["index.html", MARKER]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(5, "I/O error")])
def test_where_directories_cannot_be_exchanged_the_earlier_site_is_never_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException | type[BaseException]
) -> None:
    target = tmp_path / "site"
    with replacing_directory(target) as directory:
        (directory / "index.html").write_text("earlier")
    monkeypatch.setattr("octavo.report.site_directory.ctypes.CDLL", Mock(return_value=object()))  # no renameat2
    rename = Path.rename

    def fail(self: Path, to: Path) -> Path:
        if self.suffix == ".new" and to == target:
            raise error
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises((KeyboardInterrupt, HostError)), replacing_directory(target) as directory:
        (directory / "index.html").write_text("next")
    assert [path.read_text() for path in tmp_path.rglob("index.html")] == ["earlier"]
    assert (target / "index.html").exists() == isinstance(error, OSError)


def test_what_is_being_written_is_not_taken_for_a_leftover(tmp_path: Path) -> None:
    target = tmp_path / "site"
    with replacing_directory(target) as first:
        (first / "index.html").write_text("first")
        with replacing_directory(target) as second:
            assert (first / "index.html").read_text() == "first"
            (second / "index.html").write_text("second")
        assert (target / "index.html").read_text() == "second"
    assert (target / "index.html").read_text() == "first"
    assert hidden(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "stays"),
    [
        ({}, False),  # killed before its marker
        ({MARKER: ""}, False),
        ({MARKER: {"unfinished": ".site.abcdefgh.new"}, "index.html": "x", f"{MARKER}.new": "{"}, False),
        ({MARKER: {"files": ["index.html", "runs/one.html"]}, "runs/one.html": "an earlier site"}, False),
        ({"index.html": "x"}, True),
        ({MARKER: {"unfinished": ".site.zzzzzzzz.new"}, "index.html": "moved here"}, True),
        ({MARKER: {"unfinished": ".site.abcdefgh.new"}, "index.html": "x", "notes.txt": "kept"}, True),
        ({MARKER: {"files": ["index.html"]}, "index.html": "x", "CNAME": "kept"}, True),
    ],
)
def test_only_what_is_certain_to_be_a_leftover_is_removed(
    tmp_path: Path, content: dict[str, str | dict[str, object]], stays: bool
) -> None:
    leftover = tmp_path / ".site.abcdefgh.new"
    leftover.mkdir(mode=0o700)
    for name, text in content.items():
        (leftover / name).parent.mkdir(exist_ok=True)
        made = text if isinstance(text, str) else json.dumps({"made_by": "octavo report --site", **text})
        (leftover / name).write_text(made)
    before = sorted(leftover.rglob("*"))
    with replacing_directory(tmp_path / "site"):
        pass
    assert leftover.exists() == stays
    assert sorted(leftover.rglob("*")) == (before if stays else [])


def test_a_leftover_is_not_reached_through_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in (".site.aaaaaaaa.new", ".site.bbbbbbbb.new"):
        marker = {"made_by": "octavo report --site", "unfinished": name}
        (elsewhere / MARKER).write_text(json.dumps(marker))
        if name == ".site.aaaaaaaa.new":
            (tmp_path / name).symlink_to(elsewhere)
        else:  # a link inside is removed, and nothing behind it
            (tmp_path / name).mkdir()
            (elsewhere / MARKER).rename(tmp_path / name / MARKER)
            (tmp_path / name / "runs").symlink_to(elsewhere)
    (elsewhere / "precious.html").write_text("kept")
    with replacing_directory(tmp_path / "site"):
        pass
    assert hidden(tmp_path) == [".site.aaaaaaaa.new"]
    assert [path.name for path in elsewhere.iterdir()] == ["precious.html"]


def test_site_goes_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="do not combine it with a run"):
        report("20260101", site=tmp_path / "site")
    with pytest.raises(UsageError, match="no runs yet"), pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_HOME", str(tmp_path))
        report(site=tmp_path / "site")


def test_a_run_of_another_version_is_listed_with_the_reason(store: Store, tmp_path: Path) -> None:
    good = plant(store, small_plan(), metrics=FEW, number=1, status="finished")
    other = plant(store, small_plan(), metrics=FEW, number=2, status="finished")
    store.set_plan(other, {"name": "later", "workload": "of a later Octavo"})
    page = page_of(write_site(store, [other, good], tmp_path / "site"))
    assert "is from another version of Octavo" in page.text
    assert [link for link in page.loads if "runs/" in link] == [f"a href=runs/{good}.html"]

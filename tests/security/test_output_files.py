"""Files that the user requested, in a directory where others could act first: no link is followed for writing."""

import os
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from tests.security.conftest import needs_root

from octavo import packaging
from octavo.errors import HostError
from octavo.host.journal import Journal
from octavo.report.text_file import make_directory_for_files, write_bytes, write_text


@pytest.fixture
def everybodys(shared: Path) -> Path:
    """A directory with the mode of /tmp."""
    directory = shared / "everybodys"
    directory.mkdir()
    directory.chmod(0o1777)
    return directory


@needs_root
@pytest.mark.parametrize("planted", ["link", "dangling link", "file", "pipe"])
def test_what_another_user_planted_is_refused_and_named(everybodys: Path, planted: str) -> None:
    target, file = everybodys.parent / "target", everybodys / "report.html"
    if "link" in planted:
        if planted == "link":
            target.write_text("root's")
        file.symlink_to(target)
    elif planted == "file":
        file.write_text("theirs")
    else:
        os.mkfifo(file)
    os.chown(file, 65534, 65534, follow_symlinks=False)
    with pytest.raises(HostError, match=r"report\.html is .* of user 65534 in a shared directory; name another place"):
        write_text("page", file)
    assert (target.read_text() if planted == "link" else target.exists()) == ("root's" if planted == "link" else False)
    assert list(everybodys.iterdir()) == [file]


@needs_root
@pytest.mark.parametrize("planted", ["link", "directory"])
def test_a_planted_directory_is_refused(everybodys: Path, planted: str) -> None:
    charts = everybodys / "charts"
    if planted == "link":
        (everybodys.parent / "secret").mkdir()
        charts.symlink_to(everybodys.parent / "secret")
    else:
        charts.mkdir()
    os.chown(charts, 65534, 65534, follow_symlinks=False)
    with pytest.raises(HostError, match="charts is"):
        make_directory_for_files(charts)
    with pytest.raises(HostError, match="charts is"):
        write_bytes(b"png", charts / "one.png")


def test_ones_own_link_is_replaced_and_what_it_led_to_stays(everybodys: Path) -> None:
    target, file = everybodys.parent / "target", everybodys / "report.html"
    target.write_text("before")
    file.symlink_to(target)
    (everybodys / f".report.html.{os.getpid()}").symlink_to(target)
    assert write_text("page", file) == file
    assert (target.read_text(), file.read_text(), file.is_symlink()) == ("before", "page", False)


def test_nothing_stays_of_a_file_that_cannot_be_written(everybodys: Path) -> None:
    (everybodys / "report.html").mkdir()
    with pytest.raises(HostError, match="cannot be written"):
        write_text("page", everybodys / "report.html")
    assert [path.name for path in everybodys.iterdir()] == ["report.html"]


def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(_build: object, directory: Path, *_: object) -> Path:
        (directory / "pg.deb").write_text("package")
        return directory / "pg.deb"

    monkeypatch.setitem(packaging.FORMATS, "deb", write)


def test_a_package_is_not_written_through_a_link_planted_beside_it(
    everybodys: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(monkeypatch)
    target = everybodys.parent / "target"
    target.write_text("root's")
    with Journal() as journal:  # the token reveals what an earlier version called the temporary file
        (everybodys / f".pg.deb.{journal.token[:8]}").symlink_to(target)
        written = packaging.package(MagicMock(manifest={}), "deb", everybodys, journal)
    assert target.read_text() == "root's"
    assert written.read_text() == "package"
    assert not written.is_symlink()
    assert own_home.exists()


@needs_root
def test_a_package_replaces_nothing_of_another_user_in_a_shared_directory(
    everybodys: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(monkeypatch)
    (everybodys / "pg.deb").symlink_to(own_home)
    (everybodys / "directory").mkdir()
    for planted in ("pg.deb", "directory"):
        os.chown(everybodys / planted, 65534, 65534, follow_symlinks=False)
    for directory in (everybodys, everybodys / "directory"):
        with Journal() as journal, pytest.raises(HostError, match="of user 65534 in a shared directory"):
            packaging.package(MagicMock(manifest={}), "deb", directory, journal)
    assert sorted(path.name for path in everybodys.iterdir()) == ["directory", "pg.deb"]

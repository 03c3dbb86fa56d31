"""Files that the user asked for, in a directory where others could be before us: no link is written through."""

import os
from pathlib import Path

import pytest
from tests.security.conftest import needs_root

from octavo.errors import HostError
from octavo.report.text_file import make_directory_for_files, write_bytes, write_text


@pytest.fixture
def everybodys(shared: Path) -> Path:
    """A directory as /tmp is."""
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

"""The home and the runtime directory: private to their owner, made private if they were not, otherwise refused."""

import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.security.conftest import AsNobody, needs_root

from octavo import home
from octavo.errors import HostError
from octavo.fleet.certificates import directory
from octavo.home import make_directory, octavo_home, runtime_directory, secure_home, store_path, write_durably
from octavo.host.journal import Journal
from octavo.store.store import Store


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture(autouse=True)
def plain_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_what_is_in_a_new_home_is_its_owners_alone(own_home: Path) -> None:
    with Journal():
        make_directory(own_home / "runs" / "one")
        make_directory(own_home / "sources")
        make_directory(own_home / "datasets" / "one")
        make_directory(own_home / "work")
        make_directory(own_home / "scratch" / "one")
        with closing(Store.open(store_path())):
            assert {mode(path) for path in own_home.glob("octavo.sqlite*")} == {0o600}
    assert mode(own_home) == 0o711
    assert [mode(own_home / name) for name in ("journal", "runs", "sources")] == [0o700] * 3
    assert [mode(own_home / name) for name in ("work", "scratch")] == [0o711] * 2
    assert mode(own_home / "datasets") == 0o755


@needs_root
def test_nobody_reads_the_store_and_the_servers_user_still_enters(own_home: Path, as_nobody: AsNobody) -> None:
    with Journal(), closing(Store.open(store_path())):
        (make_directory(own_home / "builds" / "one") / "file").write_text("for all")
    code = (
        "import sys, os\n"
        "for name in ('octavo.sqlite', 'journal', '', 'builds/one/file'):\n"
        "    path = sys.argv[1] + '/' + name\n"
        "    try: os.listdir(path) if os.path.isdir(path) else open(path).read(); print('read')\n"
        "    except PermissionError: print('refused')\n"
    )
    assert as_nobody(code, own_home).communicate()[0].split() == ["refused"] * 3 + ["read"]


def test_a_user_who_has_none_is_told_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OCTAVO_HOME", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    nobody_knows = 2**31
    monkeypatch.setattr("os.geteuid", lambda: nobody_knows)
    monkeypatch.setattr("os.getuid", lambda: nobody_knows)
    with pytest.raises(HostError, match=f"^user {nobody_knows} has no home directory; set OCTAVO_HOME"):
        octavo_home()


def test_an_earlier_versions_home_is_tightened_and_nothing_loosened(own_home: Path) -> None:
    for name in ("journal", "runs", "builds", "work", "scratch"):
        (own_home / name).mkdir(parents=True)
    store_path().write_bytes(b"")
    (own_home / "runs").chmod(0o500)
    secure_home()
    assert (mode(own_home), mode(own_home / "journal"), mode(own_home / "runs")) == (0o711, 0o700, 0o500)
    assert (mode(store_path()), mode(own_home / "builds")) == (0o600, 0o755)
    assert (mode(own_home / "work"), mode(own_home / "scratch")) == (0o711, 0o711)


def test_a_directory_that_holds_no_journal_is_left_as_it_is(own_home: Path) -> None:
    own_home.mkdir()
    secure_home()
    assert mode(own_home) == 0o755


@needs_root
@pytest.mark.parametrize("which", ["home", "above"])
@pytest.mark.parametrize("how", ["nobody's", "writable"])
def test_root_has_no_home_that_others_can_change(own_home: Path, which: str, how: str) -> None:
    own_home.mkdir()
    wrong = own_home if which == "home" else own_home.parent
    if how == "writable":
        wrong.chmod(0o777)
    else:
        os.chown(wrong, 65534, 65534)
    try:
        with pytest.raises(HostError, match=f"OCTAVO_HOME={own_home}: {wrong}"):
            octavo_home()
        wrong.chmod(0o1777)
        if how == "writable" and which == "above":
            octavo_home()
    finally:
        os.chown(wrong, 0, 0)


@needs_root
def test_what_others_have_put_into_a_shared_directory_is_no_home(
    shared: Path, as_nobody: AsNobody, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Builds that root would run, a directory into which root would put its certificates' keys."""
    shared.chmod(0o1777)
    as_nobody("os.makedirs(sys.argv[1] + '/builds/planted'); os.mkdir(sys.argv[1] + '/fleet')", shared).communicate()
    assert (shared / "fleet").stat().st_uid == 65534
    monkeypatch.setenv("OCTAVO_HOME", str(shared))
    for ask in (octavo_home, store_path, directory, lambda: make_directory(octavo_home() / "scratch")):
        with pytest.raises(HostError, match="may be written by others, who could put builds there; name a directory"):
            ask()
    monkeypatch.setenv("OCTAVO_HOME", str(shared / "home"))
    assert octavo_home() == shared / "home"


@needs_root
def test_a_user_takes_nobody_elses_directory_for_a_home(shared: Path, as_nobody: AsNobody) -> None:
    code = (
        "from octavo.errors import HostError\n"
        "from octavo.home import octavo_home\n"
        "try: print(octavo_home())\n"
        "except HostError as error: print(error)\n"
    )

    def said(home: Path) -> str:
        return as_nobody(code, OCTAVO_HOME=str(home)).communicate()[0].strip()

    for name, owner, mode in (("all", 0, 0o1777), ("theirs", 1234, 0o755), ("own", 65534, 0o775), ("roots", 0, 0o755)):
        (shared / name).mkdir()
        os.chown(shared / name, owner, owner)
        (shared / name).chmod(mode)
    assert "may be written by others" in said(shared / "all")
    assert "belongs to user 1234; name a directory of your own" in said(shared / "theirs")
    for name in ("own", "roots", "missing"):
        assert said(shared / name) == str(shared / name)


@needs_root
def test_roots_home_is_resolved_once_and_every_link_on_the_way_is_roots(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "theirs"):
        (shared / name).mkdir()
    (shared / "link").symlink_to("one")
    (shared / "chain").symlink_to(shared / "theirs" / "link")
    (shared / "theirs" / "link").symlink_to("../one")
    monkeypatch.setenv("OCTAVO_HOME", str(shared / "link" / "home"))
    assert octavo_home() == shared / "one" / "home"
    os.chown(shared / "link", 65534, 65534, follow_symlinks=False)
    with pytest.raises(HostError, match="link is a link of user 65534's"):
        octavo_home()
    # The target is root's; whoever replaces the link in the path determines its target next time.
    monkeypatch.setenv("OCTAVO_HOME", str(shared / "chain" / "home"))
    assert octavo_home() == shared / "one" / "home"
    os.chown(shared / "theirs", 65534, 65534)
    with pytest.raises(HostError, match="theirs belongs to user 65534"):
        octavo_home()
    (shared / "one" / "self").symlink_to("self/self")
    monkeypatch.setenv("OCTAVO_HOME", str(shared / "one" / "self"))
    with pytest.raises(HostError, match=r"is not a directory|too many levels"):
        octavo_home()


def test_a_runtime_directory_of_ones_own(shared: Path) -> None:
    made = home._own_directory(shared / "mine", 0o700)  # pyright: ignore[reportPrivateUsage]
    assert mode(made) == 0o700
    made.chmod(0o755)
    assert mode(home._own_directory(made, 0o700)) == 0o700  # pyright: ignore[reportPrivateUsage]


@needs_root
@pytest.mark.parametrize("planted", ["link", "file", "writable", "root's"])
def test_a_planted_runtime_directory_is_refused(shared: Path, as_nobody: AsNobody, planted: str) -> None:
    shared.chmod(0o1777)
    place = shared / "octavo-65534"
    if planted == "link":
        (shared / "else").mkdir()
        os.chown(shared / "else", 65534, 65534)
        place.symlink_to(shared / "else")
    elif planted == "file":
        place.touch()
    else:
        place.mkdir()
        if planted == "writable":
            os.chown(place, 65534, 65534)
            place.chmod(0o777)
    code = (
        "from octavo.errors import HostError\n"
        "from octavo.home import runtime_directory\n"
        "try: print(runtime_directory())\n"
        "except HostError as error: print(error)\n"
    )
    said = as_nobody(code, TMPDIR=str(shared)).communicate()[0]
    assert str(place) in said and "remove it, or set XDG_RUNTIME_DIR" in said


@needs_root
def test_roots_runtime_directory_can_be_entered_not_written() -> None:
    assert mode(runtime_directory()) == 0o711


def test_a_durable_file_is_not_written_through_a_planted_link(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("theirs")
    (tmp_path / "file").symlink_to(other)
    (tmp_path / f".file.{os.getpid()}").symlink_to(other)
    write_durably(tmp_path / "file", "ours")
    assert (other.read_text(), (tmp_path / "file").read_text()) == ("theirs", "ours")
    assert not (tmp_path / "file").is_symlink()
    assert len(list(tmp_path.iterdir())) == 3

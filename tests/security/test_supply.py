"""Downloads and archives: known or signed, and nothing is written outside of the target directory."""

import io
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from octavo.archives import extract
from octavo.errors import HostError, OctavoError
from octavo.host import apt, children
from octavo.host.children import Finished
from octavo.host.journal import Journal
from octavo.postgres.source import Source, unpack
from octavo.postgres.sources import debian, upstream

_Entry = tuple[tarfile.TarInfo, bytes]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals are written below the test's own directory."""
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))


def _file(name: str, content: bytes = b"text", mode: int = 0o644) -> _Entry:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(content), mode, 1_000_000
    return member, content


def _other(name: str, kind: bytes, to: str = "", mode: int = 0o755) -> _Entry:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, to, mode
    return member, b""


def _tarball(path: Path, *entries: _Entry) -> Path:
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for member, content in entries:
            archive.addfile(member, io.BytesIO(content))
    return path


def _extract(tarball: Path, target: Path) -> None:
    with tarfile.open(tarball) as archive:
        extract(archive, target)


def _late(name: str, time: str) -> _Entry:
    """A file whose extended header gives this time."""
    member, content = _file(name)
    member.pax_headers = {"mtime": time}
    return member, content


_BAD: dict[str, tuple[str, tuple[_Entry, ...]]] = {
    "absolute": ("/planted", (_file("/planted"),)),
    "climbing": ("a/../../planted", (_file("a/../../planted"),)),
    "climbing and back": ("tree/../x", (_file("tree/../x"),)),
    "absolute link": ("tree/link", (_other("tree/link", tarfile.SYMTYPE, "/etc"),)),
    "climbing link": ("tree/link", (_other("tree/link", tarfile.SYMTYPE, "../../x"),)),
    "hard link outside": ("tree/link", (_other("tree/link", tarfile.LNKTYPE, "../../../etc/passwd"),)),
    "absolute hard link": ("tree/link", (_other("tree/link", tarfile.LNKTYPE, "/etc/passwd"),)),
    "device": ("tree/null", (_other("tree/null", tarfile.CHRTYPE),)),
    "block device": ("tree/sda", (_other("tree/sda", tarfile.BLKTYPE),)),
    "fifo": ("tree/fifo", (_other("tree/fifo", tarfile.FIFOTYPE),)),
    "setuid": ("tree/su", (_file("tree/su", mode=0o4755),)),
    "setgid": ("tree/sg", (_file("tree/sg", mode=0o2755),)),
    **{
        f"changed at {time}": ("tree/late", (_late("tree/late", time),))
        for time in ("inf", "1e400", "nan", "-inf", "1e30", "-1", str(2**34))
    },
    "links through links": (
        "a/b/x",
        (_other("a/b/up", tarfile.SYMTYPE, "../.."), _other("a/b/x", tarfile.SYMTYPE, "up/../planted")),
    ),
}


@pytest.mark.parametrize("what", _BAD)
def test_an_entry_that_leads_outside_is_refused_by_name(what: str, tmp_path: Path) -> None:
    name, entries = _BAD[what]
    tarball = _tarball(tmp_path / "bad.tar", _file("tree/good"), *entries)
    (tmp_path / "place").mkdir()
    with pytest.raises(OctavoError) as caught:
        _extract(tarball, tmp_path / "place" / "target")
    assert f"{name} is refused" in str(caught.value)
    assert "\n" not in str(caught.value)
    outside = {path.name for path in (*tmp_path.iterdir(), *(tmp_path / "place").iterdir())}
    assert outside <= {"bad.tar", "place", "target"}


def test_nothing_is_written_through_a_link_of_the_archive(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    for number, entries in enumerate((
        (_other("tree/way", tarfile.SYMTYPE, "other"), _file("tree/way/planted")),
        (_file("tree/way/planted"), _other("tree/way", tarfile.SYMTYPE, "other")),
    )):  # fmt: skip
        tarball = _tarball(tmp_path / f"{number}.tar", *entries)
        with pytest.raises((OctavoError, OSError)):
            _extract(tarball, tmp_path / f"target{number}")
        with pytest.raises(OctavoError):
            unpack(Source("18.6", tarball, "", ""), tmp_path / f"unpacked{number}")


def test_what_is_good_is_unpacked_without_what_python_3_11_2_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(*_: object, **__: object) -> NoReturn:
        raise TypeError("extractall() got an unexpected keyword argument 'filter'")

    monkeypatch.setattr(tarfile.TarFile, "extractall", lacks)
    monkeypatch.setattr(tarfile.TarFile, "extract", lacks)
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    tarball = _tarball(
        tmp_path / "good.tar",
        _other("tree", tarfile.DIRTYPE),
        _other("tree/empty", tarfile.DIRTYPE, mode=0o2777),
        _file("tree/configure", b"#!/bin/sh\n", 0o777),
        _file("tree/src/a.c"),
        _file("tree/src/a.c", b"later"),
        _other("tree/src/link.c", tarfile.SYMTYPE, "../src/a.c"),
        _other("tree/src/hard.c", tarfile.LNKTYPE, "tree/src/a.c"),
    )
    root = unpack(Source("18.6", tarball, "", ""), tmp_path / "target")
    assert root.name == "tree"
    assert (root / "src/a.c").read_bytes() == (root / "src/link.c").read_bytes() == b"later"
    assert (root / "src/hard.c").samefile(root / "src/a.c")
    assert stat.S_IMODE((root / "configure").stat().st_mode) & 0o7133 == 0o111
    assert (root / "configure").stat().st_mtime == 1_000_000
    assert (root / "empty").is_dir() and not (root / "empty").stat().st_mode & stat.S_ISGID
    assert (root / "configure").stat().st_uid == os.geteuid()


def test_a_release_that_nobody_vouches_for_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def read(address: str) -> bytes:
        asked.append(address)
        return b'<a href="v18.98/"> <a href="v18.99/">'

    monkeypatch.setattr(upstream, "_read", read)
    monkeypatch.setattr(upstream, "known_digests", dict[str, str])
    with Journal() as journal:
        for wanted in ("18.99", "18"):
            with pytest.raises(HostError, match=r"octavo build --pg 18\.99 --trust-checksum") as caught:
                upstream.fetch(wanted, scratch, journal)
            assert "\n" not in str(caught.value)
    assert asked == [f"{upstream.ADDRESS}/"], "nothing was downloaded"
    assert list(scratch.iterdir()) == []


def test_of_a_major_version_the_newest_that_is_known_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    newest: Callable[[str], str] = upstream._newest  # pyright: ignore[reportPrivateUsage]

    def read(_address: str) -> bytes:
        return b"v18.9/ v18.10/ v18.11/ v17.99/"

    monkeypatch.setattr(upstream, "_read", read)
    monkeypatch.setattr(upstream, "known_digests", lambda: {"18.9": "0", "18.10": "0", "17.1": "0"})
    assert newest("18") == "18.10"
    trusting = upstream.trusts_published.set(True)
    try:
        assert newest("18") == "18.11"
    finally:
        upstream.trusts_published.reset(trusting)


def test_apt_is_asked_for_what_is_signed_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def run(arguments: list[object], *_: object, **__: object) -> Finished:
        calls.append([str(argument) for argument in arguments])
        return Finished(100, "", "E: no", 0.0)

    monkeypatch.setattr(children, "run", run)
    monkeypatch.setattr(apt, "archives", lambda: {"debian": "http://127.0.0.1/debian/"})
    with Journal() as journal, pytest.raises(HostError):
        debian.fetch("18", tmp_path / "scratch", journal)
    assert calls
    for call in calls:
        for option in (
            "APT::Get::AllowUnauthenticated=false",
            "Acquire::AllowInsecureRepositories=false",
            "Acquire::AllowDowngradeToInsecureRepositories=false",
        ):
            assert option in call

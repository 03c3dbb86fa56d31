"""A build that is sent to another host: what is packed, and what is refused on arrival."""

import errno
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from octavo.errors import HostError, OctavoError
from octavo.host.journal import Journal
from octavo.host.published import MANIFEST
from octavo.packaging import travel
from octavo.packaging.travel import pack, unpack
from octavo.postgres.builds.cache import RECORDS, Build, builds_directory, read_build
from octavo.postgres.source import sha256_of

REPORTED = "postgres (PostgreSQL) 18.0"


def make_build(name: str) -> Build:
    """A build whose server reports its version and does nothing else."""
    prefix = builds_directory() / name
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib").mkdir()
    program = prefix / "bin" / "postgres"
    program.write_text(f"#!/bin/sh\necho '{REPORTED}'\n")
    program.chmod(0o755)
    (prefix / "lib" / "libpq.so.5").write_text("library")
    (prefix / "lib" / "libpq.so").symlink_to("libpq.so.5")
    files = {str(path.relative_to(prefix)): sha256_of(path) for path in prefix.rglob("*") if path.is_file()}
    manifest = {"version": "18.0", "key": name[-12:], "reported": REPORTED, "files": files}
    (prefix / MANIFEST).write_text(json.dumps(manifest))
    return Build(name, prefix, manifest)


def away(build: Build) -> None:
    """Simulates another host, which has no build."""
    for path in sorted(build.prefix.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    build.prefix.rmdir()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of a packed build."""
    return tmp_path / "packed"


@pytest.fixture
def build(home: Path) -> Build:
    return make_build(f"18.0-b8w8-{os.urandom(6).hex()}")


def test_a_build_arrives_as_it_was_and_only_once(build: Build, journal: Journal, file: Path) -> None:
    digest = pack(build, file)
    assert pack(build, file.with_name("again")) == digest
    away(build)
    try:
        taken = unpack(build.name, file, digest, journal)
        assert taken.manifest == build.manifest
        assert (taken.prefix / "lib" / "libpq.so").readlink() == Path("libpq.so.5")
        assert (taken.prefix / "bin" / "postgres").stat().st_mode & 0o777 == 0o755
        assert unpack(build.name, file, digest, journal) == taken
    finally:
        away(build)


def test_an_extension_that_was_added_does_not_travel(build: Build, journal: Journal, file: Path) -> None:
    digest = pack(build, file)
    (build.prefix / RECORDS).mkdir()
    (build.prefix / RECORDS / "ip4r.json").write_text(json.dumps({"files": {"lib/ip4r.so": ""}}))
    (build.prefix / "lib" / "ip4r.so").write_text("of an extension")
    assert pack(build, file) == digest
    away(build)
    try:
        assert unpack(build.name, file, digest, journal).manifest == build.manifest
    finally:
        away(build)


def changed(file: Path, change: Callable[[Path], None]) -> str:
    """Changes a packed build and packs it again; returns its digest."""
    place = file.with_name("changed")
    with tarfile.open(file) as archive:
        archive.extractall(place, filter="data")
    change(place)
    travel.write_tar(place, file, 0)
    return sha256_of(file)


def _rewritten(file: str, text: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        (root / file).write_text(text)

    return change


def _without(file: str) -> Callable[[Path], None]:
    return lambda root: (root / file).unlink()


def _leading_out(root: Path) -> None:
    (root / "lib" / "out").symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_rewritten("lib/libpq.so.5", "other"), "is not what the manifest says"),
        (_rewritten("bin/more", "more"), "files that differ: .*bin/more"),
        (_without("lib/libpq.so.5"), "files that differ"),
        (_rewritten(MANIFEST, "{}"), "is not a valid build"),
        (_rewritten(MANIFEST, "[]"), "is not a valid build"),
        (_without(MANIFEST), "is not a valid build"),
        (_leading_out, "leads outside"),
    ],
)
def test_what_is_not_whole_is_refused(
    build: Build, journal: Journal, file: Path, change: Callable[[Path], None], reason: str
) -> None:
    pack(build, file)
    other = changed(file, change)
    away(build)
    with pytest.raises(OctavoError, match=reason):
        unpack(build.name, file, other, journal)
    assert read_build(build.name) is None
    assert not list(builds_directory().glob(f".new-{build.name}*"))


def test_what_is_no_build_of_that_digest_or_name_is_refused(build: Build, journal: Journal, file: Path) -> None:
    digest = pack(build, file)
    away(build)
    with pytest.raises(OctavoError, match="differs from the sent one"):
        unpack(build.name, file, "0" * 64, journal)
    for name in ("../../etc", "18.0-b8w8-zz", build.name.upper()):
        with pytest.raises(OctavoError, match="not a name of a build"):
            unpack(name, file, digest, journal)
    other = f"18.0-b8w8-{os.urandom(6).hex()}"
    with pytest.raises(OctavoError, match="is of another build"):
        unpack(other, file, digest, journal)


def test_what_is_not_an_archive_or_too_large_is_refused(
    build: Build, journal: Journal, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = pack(build, file)
    content = file.read_bytes()
    away(build)
    with monkeypatch.context() as patch, pytest.raises(OctavoError, match="is larger than a build"):
        patch.setattr(travel, "_MOST_UNPACKED", 1000)
        patch.setattr(travel, "_AT_ONCE", 500)
        unpack(build.name, file, digest, journal)
    for cut in (content[:-50], b"", b"\0" * 100):
        file.write_bytes(cut)
        with pytest.raises(OctavoError, match="the received archive"):
            unpack(build.name, file, sha256_of(file), journal)


def test_a_full_disk_is_no_damage_of_the_archive(
    build: Build, journal: Journal, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = pack(build, file)
    away(build)
    monkeypatch.setattr(travel, "extract", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(HostError, match="No space left on device; make room in"):
        unpack(build.name, file, digest, journal)


def test_a_server_that_does_not_start_here_is_refused(home: Path, journal: Journal, file: Path) -> None:
    build = make_build(f"18.0-b8w8-{os.urandom(6).hex()}")
    program = build.prefix / "bin" / "postgres"
    program.write_text("#!/bin/sh\nexit 1\n")
    manifest = {**build.manifest, "files": {**build.manifest["files"], "bin/postgres": sha256_of(program)}}
    (build.prefix / MANIFEST).write_text(json.dumps(manifest))
    digest = pack(build, file)
    away(build)
    with pytest.raises(OctavoError, match="which was made on another host"):
        unpack(build.name, file, digest, journal)
    assert read_build(build.name) is None

"""A build that travels: what is packed, and what is refused where it arrives."""

import io
import json
import lzma
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from octavo.errors import OctavoError
from octavo.host.journal import Journal
from octavo.host.published import MANIFEST
from octavo.packaging import travel
from octavo.packaging.travel import digest_of, pack, unpack
from octavo.postgres.builds.cache import Build, builds_directory, read_build
from octavo.postgres.source import sha256_of

REPORTED = "postgres (PostgreSQL) 18.0"


def make_build(name: str) -> Build:
    """A build whose server tells its version and does nothing else."""
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
    """As on another host, which has none."""
    for path in sorted(build.prefix.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    build.prefix.rmdir()


@pytest.fixture
def build(home: Path) -> Build:
    return make_build(f"18.0-b8w8-{os.urandom(6).hex()}")


def test_a_build_arrives_as_it_was_and_only_once(build: Build, journal: Journal) -> None:
    content = pack(build)
    assert pack(build) == content
    away(build)
    try:
        taken = unpack(build.name, content, digest_of(content), journal)
        assert taken.manifest == build.manifest
        assert (taken.prefix / "lib" / "libpq.so").readlink() == Path("libpq.so.5")
        assert (taken.prefix / "bin" / "postgres").stat().st_mode & 0o777 == 0o755
        assert unpack(build.name, content, digest_of(content), journal) == taken
    finally:
        away(build)


def changed(content: bytes, change: Callable[[Path], None], tmp_path: Path) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(content))) as archive:
        archive.extractall(tmp_path, filter="data")
    change(tmp_path)
    file = tmp_path.with_suffix(".tar.xz")
    travel.write_tar(tmp_path, file, 0)
    return file.read_bytes()


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
    build: Build, journal: Journal, tmp_path: Path, change: Callable[[Path], None], reason: str
) -> None:
    other = changed(pack(build), change, tmp_path)
    away(build)
    with pytest.raises(OctavoError, match=reason):
        unpack(build.name, other, digest_of(other), journal)
    assert read_build(build.name) is None
    assert not list(builds_directory().glob(f".new-{build.name}*"))


def test_what_is_no_build_of_that_digest_or_name_is_refused(build: Build, journal: Journal) -> None:
    content = pack(build)
    away(build)
    with pytest.raises(OctavoError, match="differs from the sent one"):
        unpack(build.name, content, digest_of(b""), journal)
    for name in ("../../etc", "18.0-b8w8-zz", build.name.upper()):
        with pytest.raises(OctavoError, match="not a name of a build"):
            unpack(name, content, digest_of(content), journal)
    other = f"18.0-b8w8-{os.urandom(6).hex()}"
    with pytest.raises(OctavoError, match="is of another build"):
        unpack(other, content, digest_of(content), journal)
    for cut in (content[:-50], b"", b"\0" * 100):
        with pytest.raises(OctavoError, match="the received archive"):
            unpack(build.name, cut, digest_of(cut), journal)


def test_a_server_that_does_not_start_here_is_refused(home: Path, journal: Journal) -> None:
    build = make_build(f"18.0-b8w8-{os.urandom(6).hex()}")
    program = build.prefix / "bin" / "postgres"
    program.write_text("#!/bin/sh\nexit 1\n")
    manifest = {**build.manifest, "files": {**build.manifest["files"], "bin/postgres": sha256_of(program)}}
    (build.prefix / MANIFEST).write_text(json.dumps(manifest))
    content = pack(build)
    away(build)
    with pytest.raises(OctavoError, match="which was made on another host"):
        unpack(build.name, content, digest_of(content), journal)
    assert read_build(build.name) is None

"""Packages without PostgreSQL: names, archives, the complete tar of a synthetic build."""

import errno
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.tools import needs

from octavo.errors import HostError, OctavoError, UsageError
from octavo.host.journal import Journal
from octavo.packaging import package
from octavo.packaging.archive import write_ar, write_tar
from octavo.packaging.binaries import Linkage
from octavo.packaging.contents import PackageContents
from octavo.packaging.deb import control_file
from octavo.packaging.names import PackageNames, names_of
from octavo.packaging.release import Release
from octavo.postgres.builds.cache import RECORDS, Build
from octavo.postgres.builds.recipe import options
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.source import sha256_of

EPOCH = 1_700_000_000

needs_dpkg = needs("dpkg-deb")


def manifest_of(spec: BuildSpec, **facts: Any) -> dict[str, Any]:
    return {
        "version": spec.version,
        "data_block": spec.data_block,
        "wal_block": spec.wal_block,
        "data_segment": spec.data_segment,
        "compiler": "gcc 12",
        "compiler_command": spec.compiler,
        "options": options(spec, spec.version),
        **facts,
    }


def make_build(home: Path) -> Build:
    """A build with fake programs, and with its source in the state directory."""
    (home / "sources").mkdir()
    tarball = home / "sources" / "postgresql-18.6.tar.gz"
    with tarfile.open(tarball, "w:gz") as archive:
        for name, text, mtime in (
            ("postgresql-18.6/src/backend/regex/COPYRIGHT", "of the regular expressions", EPOCH),
            ("postgresql-18.6/COPYRIGHT", "of PostgreSQL", EPOCH - 9),
        ):
            facts = tarfile.TarInfo(name)
            facts.size, facts.mtime = len(text), mtime
            archive.addfile(facts, io.BytesIO(text.encode()))
    sha256 = hashlib.sha256(tarball.read_bytes()).hexdigest()
    (home / "sources" / "postgresql-18.6.tar.origin").write_text(f"{sha256} somewhere\n")
    prefix = home / "builds" / "18.6-b4w8-0123456789ab"
    for name in ("bin", "lib", "share"):
        (prefix / name).mkdir(parents=True)
    (prefix / "bin" / "tool").write_text("#!/bin/sh\n")
    (prefix / "bin" / "tool").chmod(0o700)
    (prefix / "lib" / "libnone.so.5.18").write_text("no library")
    (prefix / "lib" / "libnone.so.5").symlink_to("libnone.so.5.18")
    (prefix / "share" / "sample").write_text("sample\n")
    (prefix / "share" / "sample").chmod(0o600)
    manifest = manifest_of(BuildSpec("18.6", "4kB", "8kB"), source_sha256=sha256, made="now", origin=str(home))
    (prefix / "manifest.json").write_text(json.dumps(manifest))
    return Build(prefix.name, prefix, manifest)


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))
    for parent in (tmp_path, *tmp_path.parents[:2]):  # binutils run as the servers' account
        parent.chmod(0o755)
    return make_build(tmp_path)


def named(spec: BuildSpec) -> PackageNames:
    return names_of(Build("any", Path("/"), manifest_of(spec)))


def test_a_build_that_differs_in_more_than_sizes_has_a_name_of_its_own() -> None:
    plain = named(BuildSpec("18.6", "4kB", "8kB"))
    assert (plain.package, plain.version) == ("octavo-postgresql-18-b4w8", "18.6+b4w8")
    assert named(BuildSpec("19beta1", "4kB")).version == "19~beta1+b4w8"
    assert named(BuildSpec("18.6", "4kB", "8kB", data_segment="2GB")).label == "b4w8s2"
    asserts, clang = (named(BuildSpec("18.6", "4kB", asserts=True)), named(BuildSpec("18.6", "4kB", compiler="clang")))
    assert len({plain.place, asserts.place, clang.place}) == 3
    assert named(BuildSpec("18.7", "4kB", asserts=True)).package == asserts.package  # an upgrade keeps it


@needs_dpkg
@pytest.mark.parametrize(
    ("older", "newer"),
    [("18.6", "18.7"), ("18.9", "18.10"), ("19devel", "19beta1"), ("19beta1", "19rc1"), ("19rc1", "19.0")],
)
def test_versions_are_ordered_as_releases_are(older: str, newer: str) -> None:
    versions = [named(BuildSpec(release, "4kB")).version for release in (older, newer)]
    subprocess.run(["dpkg", "--compare-versions", versions[0], "lt", versions[1]], check=True)


@needs_dpkg
def test_a_version_sorts_behind_that_of_the_distribution() -> None:
    version = named(BuildSpec("18.6", "4kB")).version
    subprocess.run(["dpkg", "--compare-versions", "18.6", "lt", version], check=True)


def test_an_archive_depends_on_names_and_contents_alone(tmp_path: Path) -> None:
    for place, mtime, mode in (("one", 1, 0o600), ("two", EPOCH, 0o664)):
        tree = tmp_path / place / "below"
        tree.mkdir(parents=True)
        for name in ("b", "a") if mtime == 1 else ("a", "b"):
            (tree / name).write_text(name)
            (tree / name).chmod(mode)
            os.utime(tree / name, (mtime, mtime))
        (tree / "link").symlink_to("a")
        write_tar(tmp_path / place, tmp_path / f"{place}.tar.xz", EPOCH)
    assert sha256_of(tmp_path / "one.tar.xz") == sha256_of(tmp_path / "two.tar.xz")
    with tarfile.open(tmp_path / "one.tar.xz") as archive:
        assert archive.getnames() == ["./below", "./below/a", "./below/b", "./below/link"]
        assert {(facts.uname, facts.gid, facts.mtime) for facts in archive} == {("root", 0, EPOCH)}


@needs_dpkg
def test_dpkg_reads_what_is_written(tmp_path: Path) -> None:
    names = PackageNames("18.6", "b4w8")
    contents = PackageContents(tmp_path, names, "4kB", "8kB", Release((), EPOCH), Linkage((), ()))
    for name in ("control", "root"):
        (tmp_path / name).mkdir()
    (tmp_path / "control" / "control").write_text(control_file(contents, "all", "libc6 (>= 2.34)", 1))
    (tmp_path / "root" / "opt").mkdir()
    for name, archive in (("control", "control.tar.xz"), ("root", "data.tar.xz")):
        write_tar(tmp_path / name, tmp_path / archive, EPOCH)
    (tmp_path / "debian-binary").write_text("2.0\n")
    members = [tmp_path / name for name in ("debian-binary", "control.tar.xz", "data.tar.xz")]
    write_ar(members, tmp_path / "package.deb", EPOCH)

    def ask(*arguments: str) -> str:
        return subprocess.run(["dpkg-deb", *arguments], check=True, capture_output=True, text=True).stdout

    fields = ask("--field", str(tmp_path / "package.deb"))
    assert "Version: 18.6+b4w8\n" in fields
    assert "Description: PostgreSQL 18 with 4 kB data and 8 kB WAL blocks\n" in fields
    assert "./opt/" in ask("--contents", str(tmp_path / "package.deb"))


def test_the_maintainer_is_who_the_packager_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBFULLNAME", "A Packager")
    monkeypatch.setenv("DEBEMAIL", "packager@example.org")
    contents = PackageContents(
        tmp_path, PackageNames("18.6", "b4w8"), "4kB", "8kB", Release((), EPOCH), Linkage((), ())
    )
    assert "Maintainer: A Packager <packager@example.org>\n" in control_file(contents, "amd64", "libc6", 1)


def test_extensions_that_were_added_are_not_packaged(build: Build, tmp_path: Path) -> None:
    with Journal() as journal:
        plain = package(build, "tar", tmp_path / "plain", journal)
    files = {"lib/ip4r.so": "", "share/extension/ip4r/ip4r.control": "", "lib/half.so": ""}
    for name in files:
        (build.prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (build.prefix / name).write_text("of an extension")
    (build.prefix / RECORDS).mkdir()
    (build.prefix / RECORDS / "ip4r.json").write_text(json.dumps({"files": dict(list(files.items())[:2])}))
    (build.prefix / RECORDS / ".half.begun").write_text(json.dumps({"files": ["lib/half.so"]}))
    with Journal() as journal:
        extended = package(build, "tar", tmp_path / "extended", journal)
    assert sha256_of(extended) == sha256_of(plain)


def test_the_same_build_elsewhere_and_later_makes_the_same_bytes(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Journal() as journal:
        first = package(build, "tar", tmp_path / "out", journal)
    assert first.name.startswith("octavo-postgresql-18.6+b4w8-linux-")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("OCTAVO_HOME", str(elsewhere))
    (elsewhere / "sources").symlink_to(tmp_path / "sources")
    copy = elsewhere / "builds" / build.name
    shutil.copytree(build.prefix, copy, symlinks=True, copy_function=shutil.copy)
    with Journal() as journal:
        second = package(
            Build(build.name, copy, {**build.manifest, "made": "later", "origin": "elsewhere"}),
            "tar",
            elsewhere / "out",
            journal,
        )
    assert sha256_of(first) == sha256_of(second)
    assert list((tmp_path / "out").iterdir()) == [first]
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_package_says_what_it_holds_and_under_which_licences(build: Build, tmp_path: Path) -> None:
    with Journal() as journal:
        path = package(build, "tar", tmp_path / "out", journal)
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (prefix,) = (tmp_path / "unpacked").iterdir()
    assert not (prefix / "manifest.json").exists()
    assert (prefix / "bin" / "tool").stat().st_mode & 0o777 == 0o755
    assert (prefix / "share" / "sample").stat().st_mode & 0o777 == 0o644
    assert (prefix / "share" / "sample").stat().st_mtime == EPOCH
    licences = (prefix / "share" / "doc" / "COPYRIGHT").read_text()
    assert licences.index("of PostgreSQL") < licences.index("of the regular expressions")
    assert json.loads((prefix / "share" / "doc" / "build.json").read_text())["data_block"] == "4kB"
    document = json.loads((prefix / "share" / "doc" / "sbom.spdx.json").read_text())
    assert document["spdxVersion"] == "SPDX-2.3"
    assert document["creationInfo"]["created"] == "2023-11-14T22:13:20Z"
    assert document["packages"][1]["downloadLocation"] == "NOASSERTION"  # it is no release's tarball
    described = {file["fileName"]: file["checksums"] for file in document["files"]}
    regular = {
        f"./{file.relative_to(prefix)}" for file in prefix.rglob("*") if file.is_file() and not file.is_symlink()
    }
    assert set(described) == regular - {"./share/doc/sbom.spdx.json"}
    for name, checksums in described.items():
        content = (prefix / name).read_bytes()
        assert [checksum["checksumValue"] for checksum in checksums] == [
            hashlib.sha1(content, usedforsecurity=False).hexdigest(),
            hashlib.sha256(content).hexdigest(),
        ]
    identifiers = {element["SPDXID"] for element in [document, *document["packages"], *document["files"]]}
    assert len(identifiers) == 1 + len(document["packages"]) + len(document["files"])
    for relationship in document["relationships"]:
        assert {relationship["spdxElementId"], relationship["relatedSpdxElement"]} <= identifiers


def test_a_full_disk_is_told_once(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not for each of the files that are copied."""
    monkeypatch.setattr("shutil.copy2", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with Journal() as journal, pytest.raises(HostError, match=r"^\S+ cannot be copied: No space left on device; make"):
        package(build, "tar", tmp_path / "out", journal)
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_format_that_does_not_exist_is_named(build: Build, tmp_path: Path) -> None:
    with Journal() as journal, pytest.raises(UsageError, match="rpm: unknown format; allowed: deb, tar"):
        package(build, "rpm", tmp_path, journal)


def test_licences_of_another_source_are_not_taken(build: Build, tmp_path: Path) -> None:
    other = Build(build.name, build.prefix, {**build.manifest, "source_sha256": "0" * 64})
    with Journal() as journal, pytest.raises(OctavoError, match="made from another source"):
        package(other, "tar", tmp_path / "out", journal)
    assert list((tmp_path / "out").iterdir()) == []

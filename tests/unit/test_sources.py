"""The origin of sources: trees and git checkouts made here, earlier downloads, and Debian."""

import errno
import hashlib
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.source_trees import MESON, make_tree, one_line

from octavo.errors import HostError, OctavoError, UsageError
from octavo.host import apt
from octavo.host.children import Finished
from octavo.host.journal import Journal
from octavo.postgres.source import Source, find_source, unpack
from octavo.postgres.sources import debian, fetched, tree
from octavo.postgres.sources.snapshot import opened_tree, take_snapshot
from octavo.postgres.versions import answers, is_release, is_version, major_of, order_of


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))
    return tmp_path


# ── Versions ──────────────────────────────────────────────────────────────────────────────────

majors = st.integers(min_value=10, max_value=99)
numbers = st.integers(min_value=0, max_value=40)
stages = st.sampled_from(["alpha", "beta", "rc"])
versions = st.one_of(
    st.builds("{}.{}".format, majors, numbers),
    st.builds("{}devel".format, majors),
    st.builds("{}{}{}".format, majors, stages, numbers),
)


@given(versions)
def test_every_version_is_one_of_its_major_version(version: str) -> None:
    assert is_version(version)
    assert version.startswith(str(major_of(version)))
    assert answers(version, version)
    assert answers(version, str(major_of(version)))
    assert not answers(version, str(major_of(version) + 1))


@given(majors, numbers, numbers)
def test_releases_are_ordered_by_number_and_come_after_everything_before_them(major: int, one: int, two: int) -> None:
    assert (order_of(f"{major}.{one}") < order_of(f"{major}.{two}")) == (one < two)
    before = [f"{major}devel", f"{major}alpha{one}", f"{major}beta{one}", f"{major}rc{one}"]
    assert sorted([before[3], before[0], before[2], before[1]], key=order_of) == before
    assert order_of(before[-1]) < order_of(f"{major}.0") < order_of(f"{major + 1}devel")
    assert is_release(f"{major}.{one}") and not any(is_release(version) for version in before)


@given(st.text(max_size=12).filter(lambda text: not text[:1].isdigit()))
def test_what_is_no_version_is_not_taken_for_one(text: str) -> None:
    assert not is_version(text)
    with pytest.raises(ValueError, match="not a PostgreSQL version"):
        order_of(text)


# ── The user's own sources ────────────────────────────────────────────────────────────────────


def contents(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): str(path.readlink()) if path.is_symlink() else path.read_text()
        for path in root.rglob("*")
        if (path.is_symlink() or path.is_file()) and ".git" not in path.parts
    }


def test_a_local_tarball_is_taken_with_its_digest(home: Path, journal: Journal) -> None:
    tarball = home / "postgresql-18.3.tar.bz2"
    tarball.write_bytes(b"not much")
    source = find_source("18", journal, tarball)
    digest = hashlib.sha256(b"not much").hexdigest()
    assert source == Source("18.3", source.tarball, digest, f"local file {tarball.name}", tarball)
    assert source.tarball.name == tarball.name
    assert source.tarball.read_bytes() == b"not much"
    with pytest.raises(UsageError, match=r"it is PostgreSQL 18\.3, not 17; give --pg 18"):
        find_source("17", journal, tarball)
    with pytest.raises(UsageError, match=r"not 18\.2; give --pg 18\.3"):
        find_source("18.2", journal, tarball)
    with pytest.raises(UsageError, match="no such file"):
        find_source("18", journal, home / "absent.tar.bz2")


def test_a_tarball_of_another_name_tells_its_version_inside(home: Path, journal: Journal) -> None:
    tarball = home / "snapshot.tar.gz"
    with tarfile.open(tarball, "w:gz") as archive:
        archive.add(make_tree(home / "postgresql-REL_18_STABLE", "18beta1"), "postgresql-REL_18_STABLE")
    assert find_source("18", journal, tarball).version == "18beta1"
    other = home / "holiday.tar.gz"
    other.write_bytes(b"no tarball at all")
    with pytest.raises(UsageError, match="not a tarball of PostgreSQL"):
        find_source("18", journal, other)


def test_no_room_for_the_copy_is_no_fault_of_the_source(
    home: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("octavo.postgres.sources.tarball._copy", full)
    monkeypatch.setattr("octavo.postgres.sources.snapshot._add", full)
    (home / "postgresql-18.3.tar.bz2").write_bytes(b"not much")
    for source in (home / "postgresql-18.3.tar.bz2", make_tree(home / "postgresql", "18.3")):
        with pytest.raises(HostError, match=r"has no room for a copy of .*: No space left on device") as problem:
            find_source("18", journal, source)
        one_line(problem)


@pytest.mark.parametrize("version", ["15.18", "18beta1", "19devel", "18rc2"])
def test_a_tree_is_packed_and_its_version_read_from_it(home: Path, journal: Journal, version: str) -> None:
    root = make_tree(home / "postgresql", version)
    source = find_source(str(major_of(version)), journal, root)
    assert (source.version, source.origin) == (version, "local source tree postgresql")
    unpacked = unpack(source, home / "unpacked")
    assert contents(unpacked) == contents(root)
    assert (unpacked / "configure").stat().st_mode & 0o111
    with pytest.raises(UsageError, match=f"it is PostgreSQL {version}, not 14"):
        find_source("14", journal, root)


def test_a_tree_with_meson_only_tells_its_version(home: Path, journal: Journal) -> None:
    root = make_tree(home / "postgresql", "18.6")
    (root / "configure.ac").unlink()
    (root / "README").unlink()
    (root / "meson.build").write_text(MESON.format("18.6"))
    assert find_source("18.6", journal, root).version == "18.6"


def test_the_digest_of_a_tree_is_of_its_contents(home: Path, journal: Journal) -> None:
    one, two = make_tree(home / "one", "18.6"), make_tree(home / "two", "18.6")
    os.utime(two / "configure", (1, 1))
    (two / "build" / "meson-private").mkdir(parents=True)
    (two / "build" / "postgres").write_text("built")
    (two / ".git").mkdir()
    (two / ".git" / "config").write_text("not source")
    first = find_source("18", journal, one).sha256
    assert first == tree.take(two, journal).sha256
    (two / "src" / "include" / "c.h").write_text("/* changed */\n")
    assert first != tree.take(two, journal).sha256


@pytest.mark.parametrize("product", ["config.status", "src/include/pg_config.h"])
def test_a_tree_that_was_configured_in_place_is_refused(home: Path, journal: Journal, product: str) -> None:
    root = make_tree(home / "postgresql", "18.6")
    (root / product).write_text("configured")
    with pytest.raises(UsageError, match="configured in place") as problem:
        find_source("18", journal, root)
    assert "make distclean" in one_line(problem)


def test_a_directory_that_is_no_tree_is_named(home: Path, journal: Journal) -> None:
    (home / "empty").mkdir()
    with pytest.raises(UsageError, match="not a PostgreSQL source tree"):
        find_source("18", journal, home / "empty")


def test_a_snapshot_goes_with_the_journal(home: Path) -> None:
    root = make_tree(home / "postgresql", "18.6")
    with Journal() as journal:
        assert find_source("18", journal, root).tarball.exists()
    assert list((home / "home" / "sources").iterdir()) == []
    assert (root / "configure").exists()


# ── git ───────────────────────────────────────────────────────────────────────────────────────


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Octavo", "-c", "user.email=octavo@localhost", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", "-C", root, *identity, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def checkout(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(home))  # without any user's git settings
    root = make_tree(home / "checkout", "19devel")
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "first")
    return root


def test_a_checkout_is_what_git_tracks_and_names_its_commit(checkout: Path, journal: Journal) -> None:
    (checkout / "config.status").write_text("configured in place: git does not track it")
    source = find_source("19", journal, checkout)
    assert source.version == "19devel"
    assert source.origin == f"git commit {git(checkout, 'rev-parse', 'HEAD')}"
    (checkout / "config.status").unlink()
    unpacked = unpack(source, checkout.parent / "unpacked")
    assert contents(unpacked) == contents(checkout)


def test_uncommitted_changes_are_built_and_told(checkout: Path, journal: Journal) -> None:
    clean = find_source("19", journal, checkout)
    (checkout / "src" / "include" / "c.h").write_text("/* changed */\n")
    (checkout / "README").unlink()
    changed = find_source("19", journal, checkout)
    assert changed.origin == f"{clean.origin} with uncommitted changes"
    assert changed.sha256 != clean.sha256
    unpacked = unpack(changed, checkout.parent / "unpacked")
    assert (unpacked / "src" / "include" / "c.h").read_text() == "/* changed */\n"
    assert not (unpacked / "README").is_symlink()


def test_a_worktree_is_a_checkout(checkout: Path, journal: Journal) -> None:
    worktree = checkout.parent / "worktree"
    git(checkout, "worktree", "add", "--quiet", "--detach", str(worktree))
    assert find_source("19", journal, worktree).sha256 == find_source("19", journal, checkout).sha256


def test_a_repository_without_files_or_commits_is_named(checkout: Path, journal: Journal) -> None:
    bare = checkout.parent / "bare"
    git(checkout, "clone", "--quiet", "--bare", ".", str(bare))
    with pytest.raises(UsageError, match="bare repository") as problem:
        find_source("19", journal, bare)
    one_line(problem)
    fresh = make_tree(checkout.parent / "fresh", "19devel")
    git(fresh, "init", "--quiet")
    with pytest.raises(UsageError, match="no commit") as problem:
        find_source("19", journal, fresh)
    one_line(problem)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
def test_programs_that_a_repository_names_run_as_its_owner(checkout: Path, journal: Journal) -> None:
    seen, hook = checkout / "seen", checkout / ".git" / "hook"
    hook.write_text(f"#!/bin/sh\nid -u >>{seen}\n")
    hook.chmod(0o755)
    git(checkout, "config", "core.fsmonitor", str(hook))
    git(checkout.parent, "config", "--global", "--add", "safe.directory", str(checkout))
    for path in (checkout, *checkout.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    for parent in checkout.parents[:3]:
        parent.chmod(0o755)
    assert find_source("19", journal, checkout).version == "19devel"
    assert set(seen.read_text().split()) == {"65534"}


def test_a_file_that_is_swapped_for_a_link_is_not_followed(home: Path, journal: Journal) -> None:
    root = make_tree(home / "postgresql", "18.6")
    secret = home / "secret"
    secret.write_text("nobody's business")
    (root / "src" / "include").rename(home / "elsewhere")
    (root / "src" / "include").symlink_to(home / "elsewhere")
    with opened_tree(root) as top:
        with pytest.raises(OctavoError, match=r"src/include/c\.h cannot be taken"):
            take_snapshot(root, top, ["configure.ac", "src/include/c.h"], "test", journal)
        os.mkfifo(root / "pipe")
        with pytest.raises(OctavoError, match="pipe cannot be taken"):
            take_snapshot(root, top, ["pipe"], "test", journal)


# ── Earlier downloads ─────────────────────────────────────────────────────────────────────────


def keep_one(home: Path, version: str, content: bytes = b"a tarball") -> Path:
    directory = home / "home" / "sources"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"postgresql-{version}.tar.bz2"
    path.write_bytes(content)
    path.with_suffix(".origin").write_text(f"{hashlib.sha256(content).hexdigest()} somewhere\n")
    return path


def test_the_newest_that_was_fetched_is_used_without_a_network(home: Path, journal: Journal) -> None:
    for version in ("18.9", "18.10", "18.2", "17.11", "18rc1"):
        keep_one(home, version)
    assert find_source("18", journal).version == "18.10"
    assert find_source("18.9", journal).version == "18.9"
    assert find_source("18rc1", journal).version == "18rc1"
    assert find_source("17", journal).origin == "somewhere"


def test_a_fetched_source_that_changed_is_not_used(home: Path, journal: Journal) -> None:
    keep_one(home, "18.9").write_bytes(b"tampered")
    with pytest.raises(OctavoError, match="sha256 differs"):
        find_source("18", journal)


def test_a_fetch_that_was_cut_short_does_not_count(home: Path) -> None:
    keep_one(home, "18.9").with_suffix(".origin").unlink()
    assert fetched.find("18") is None


# ── Debian, with a listing and present or missing archives in place of apt ────────────────────


def test_debians_own_archives_are_found_among_those_of_others(tmp_path: Path) -> None:
    place = tmp_path / "sources.list.d"
    place.mkdir()
    (place / "citus.list").write_text("deb [signed-by=/etc/keys/citus.gpg] https://c.example/community/debian/ x main")
    (place / "backports.sources").write_text(
        "Types: deb\nURIs: https://d.example/linux/debian\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n\n"
        "Types: deb deb-src\nURIs: mirror+file:///etc/apt/mirrors/debian.list\nSuites: trixie\n\n"
        "Types: deb\nURIs: http://a.example/debian-security\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.pgp\n"
    )
    (place / "later.list").write_text("# deb http://b.example/debian x\ndeb http://c.example/debian x main")
    assert apt.addresses(tmp_path) == {
        "debian": "mirror+file:///etc/apt/mirrors/debian.list", "debian-security": "http://a.example/debian-security",
    }  # fmt: skip
    (tmp_path / "sources.list").write_text("deb [signed-by=/x/debian-archive-keyring.gpg] http://d/debian/ x main")
    assert apt.addresses(tmp_path)["debian"] == "http://d/debian/"


LISTING = """Package: postgresql-15
Version: 15.18-0+deb12u1

Package: postgresql-15
Version: 15.20-0+deb12u1

Package: postgresql-15
Version: 15~rc1-2
"""


@pytest.fixture
def archive(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The package versions whose files the archive has."""
    there: set[str] = set()

    def run(self: object, program: str, *arguments: str, directory: Path | None = None) -> Finished:
        if arguments[0] == "showsrc":
            return Finished(0, LISTING if arguments[-1] == "postgresql-15" else "", "", 0.0)
        if arguments[0] == "update":
            return Finished(100, "", "E: The repository has no Release file\n", 0.0)
        package, _, full = arguments[-1].partition("=")
        if full not in there:
            return Finished(100, "", f"E: Failed to fetch {full}  404  Not Found\n", 0.0)
        assert directory is not None
        (directory / f"{package}_{full}.dsc").write_text("signed")
        (directory / f"{package}_{full.rpartition('-')[0]}.orig.tar.bz2").write_bytes(full.encode())
        return Finished(0, "", "", 0.0)

    monkeypatch.setattr(apt, "archives", lambda: {"debian": "http://archive/debian"})
    monkeypatch.setattr(apt.Apt, "run", run)
    monkeypatch.setattr("octavo.postgres.source.FETCHED_KINDS", (debian,))
    return there


def test_of_what_debian_lists_the_newest_that_is_there_is_taken(archive: set[str], journal: Journal) -> None:
    archive.add("15.18-0+deb12u1")  # 15.20 is listed and not there yet
    source = find_source("15", journal)
    assert source.version == "15.18"
    assert source.origin == "Debian source package postgresql-15_15.18-0+deb12u1, signature checked by apt"


def test_a_candidate_is_fetched_only_by_name(archive: set[str], journal: Journal) -> None:
    archive |= {"15.18-0+deb12u1", "15.20-0+deb12u1", "15~rc1-2"}
    assert find_source("15.18", journal).version == "15.18"
    assert find_source("15rc1", journal).version == "15rc1"


def test_what_debian_has_instead_is_told(archive: set[str], journal: Journal) -> None:
    with pytest.raises(HostError, match=r"Debian: it has 15rc1, 15\.18, 15\.20 of postgresql-15") as problem:
        find_source("15.3", journal)
    one_line(problem)
    with pytest.raises(HostError, match=r"Debian: Failed to fetch 15\.20"):
        find_source("15", journal)
    with pytest.raises(HostError, match="Debian: The repository has no Release file"):
        find_source("18", journal)


def test_what_is_no_version_is_a_usage_error(journal: Journal) -> None:
    with pytest.raises(UsageError, match="'eighteen' is not a PostgreSQL version"):
        find_source("eighteen", journal)


def test_an_archive_without_one_directory_is_named(home: Path) -> None:
    tarball = home / "postgresql-18.6.tar"
    with tarfile.open(tarball, "w"):
        pass
    (home / "target").mkdir()
    with pytest.raises(OctavoError, match="0 top-level directories"):
        unpack(Source("18.6", tarball, "", ""), home / "target")


def test_a_full_disk_is_no_damage_of_the_archive(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose removal would be the wrong advice."""
    tarball = home / "postgresql-18.6.tar"
    with tarfile.open(tarball, "w"):
        pass
    for number, expected in ((errno.ENOSPC, OSError), (errno.EIO, OctavoError)):

        def fail(*_: object, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr("octavo.postgres.source.extract", fail)
        with pytest.raises(expected, match=os.strerror(number)):
            unpack(Source("18.6", tarball, "", ""), home / "target")

"""Others act between a check and a use: a source, its owner and its files are one tree, whatever its name leads to."""

# pyright: reportPrivateUsage=false

import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.security.conftest import needs_root

from octavo.errors import OctavoError, UsageError
from octavo.host import children
from octavo.host.children import Account, Finished
from octavo.host.journal import Journal
from octavo.postgres import source, sources
from octavo.postgres.source import find_source
from octavo.postgres.sources import git, tarball, tree


@pytest.fixture
def journal(own_home: Path) -> Iterator[Journal]:
    del own_home  # the environment names it
    with Journal() as opened:
        yield opened


def make_tree(root: Path, header: str) -> Path:
    (root / "src").mkdir(parents=True)
    (root / "configure.ac").write_text("AC_INIT([PostgreSQL], [19devel], [x])\n")
    (root / "src" / "c.h").write_text(header)
    return root


def give(root: Path, uid: int) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, uid, uid, follow_symlinks=False)


@pytest.fixture
def secrets(shared: Path) -> Path:
    """A directory of this user's that contains the same names as a tree of sources."""
    root = make_tree(shared / "secrets", "secret")
    root.chmod(0o700)
    return root


def content(tarball: Path) -> bytes:
    with tarfile.open(tarball) as archive:
        file = archive.extractfile("postgresql-19devel/src/c.h")
        assert file is not None
        return file.read()


@pytest.mark.parametrize("kind", ["git", "tree"])
def test_a_tree_that_is_swapped_when_its_files_are_known(
    kind: str, shared: Path, secrets: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(shared))
    root = make_tree(shared / "theirs", "theirs")
    if kind == "git":
        for command in (
            ["init", "-q"],
            ["add", "-A"],
            ["-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "c"],
        ):
            subprocess.run(["git", "-C", root, *command], check=True, env={**os.environ, "GIT_CONFIG_NOSYSTEM": "1"})
    module = git if kind == "git" else tree
    take_snapshot = module.take_snapshot

    def swap(*arguments: Any) -> Any:
        root.rename(shared / "away")
        root.symlink_to(secrets)
        return take_snapshot(*arguments)

    monkeypatch.setattr(module, "take_snapshot", swap)
    assert content(find_source("19", journal, root).tarball) == b"theirs"


@needs_root
def test_git_runs_as_the_owner_of_the_directory_that_it_looks_into(
    shared: Path, secrets: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of the name at that time does not matter: git runs what the repository's settings name."""
    root = make_tree(shared / "theirs", "theirs")
    subprocess.run(["git", "init", "-q", root], check=True)
    give(root, 65534)
    ran: list[tuple[int, int]] = []

    def run(_: list[object], *__: object, account: Account, directory: Path, **___: object) -> Finished:
        ran.append((account.uid, directory.stat().st_uid))
        if len(ran) == 1:
            root.rename(shared / "away")
            root.symlink_to(secrets)
        return Finished(0, "src/c.h\0configure.ac" if len(ran) == 3 else "0123", "", 0.0)

    monkeypatch.setattr(children, "run", run)
    assert content(find_source("19", journal, root).tarball) == b"theirs"
    assert ran == [(65534, 65534)] * 3


@needs_root
def test_a_link_of_another_user_is_no_source(shared: Path, secrets: Path, journal: Journal) -> None:
    theirs = shared / "theirs"
    theirs.mkdir()
    (theirs / "postgresql").symlink_to(secrets)
    os.chown(theirs, 65534, 65534)
    with pytest.raises(UsageError, match="another user's symbolic link"):
        find_source("19", journal, theirs / "postgresql")


def test_a_source_that_was_trusted_once_is_found_by_what_runs_later(
    shared: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the error for an unknown release says: `octavo run` has no --trust-checksum."""
    upstream = sources.upstream
    content = b"as published"

    def download(_: str, path: Path) -> None:
        path.write_bytes(content)

    def published(_: str) -> str:
        path = shared / "tarball"
        path.write_bytes(content)
        return source.sha256_of(path)

    monkeypatch.setattr(upstream, "known_digests", dict[str, str])
    monkeypatch.setattr(upstream, "_download", download)
    monkeypatch.setattr(upstream, "_published_digest", published)
    monkeypatch.setattr(source, "FETCHED_KINDS", (upstream,))
    with pytest.raises(OctavoError, match=r"octavo build --pg 18\.99 --trust-checksum; later commands use the"):
        find_source("18.99", journal)
    trusting = upstream.trusts_published.set(True)
    try:
        find_source("18.99", journal)
    finally:
        upstream.trusts_published.reset(trusting)
    assert find_source("18.99", journal).tarball.read_bytes() == content


def test_a_tarball_that_is_written_over_after_it_was_taken(shared: Path, own_home: Path) -> None:
    given = shared / "postgresql-18.6.tar"
    given.write_bytes(b"as looked at")
    with Journal() as journal:
        taken = find_source("18", journal, given)
        given.write_bytes(b"as swapped")
        assert taken.tarball.read_bytes() == b"as looked at"
        assert source.sha256_of(taken.tarball) == taken.sha256
        assert taken.given == given
    assert list((own_home / "sources").iterdir()) == []


@pytest.mark.parametrize("planted", ["link", "pipe", "endless"])
def test_a_tarball_that_is_something_else_when_it_is_opened(
    planted: str, shared: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = shared / "everybodys"
    directory.mkdir()
    directory.chmod(0o1777)
    given = directory / "postgresql-18.6.tar"
    if planted == "link":
        (shared / "secret").write_text("root's")
        given.symlink_to(shared / "secret")
        os.chown(given, 65534 if os.geteuid() == 0 else -1, -1, follow_symlinks=False)
    elif planted == "pipe":
        os.mkfifo(given)
        monkeypatch.setattr(tarball, "recognises", Path.exists)
    else:
        monkeypatch.setattr(tarball, "_MOST_BYTES", 1024**2)
        with given.open("wb") as file:
            file.truncate(1 << 40)
    with pytest.raises(UsageError, match=r"cannot be read|has more than"):
        find_source("18", journal, given)

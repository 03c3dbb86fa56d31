"""The owner of a stopped cluster's directory, and of its parents, before root has the owner run a program on it."""

import os
import pwd
from pathlib import Path

import pytest
from tests.security.conftest import needs_root

from octavo.doctor.collect.stopped import stopped_facts
from octavo.errors import UsageError
from octavo.hugepages import stopped
from octavo.postgres.sources import git

pytestmark = needs_root

_OWNER, _OTHER = pwd.getpwnam("nobody").pw_uid, 65533


def _directories(pgdata: Path) -> tuple[Path, Path]:
    return stopped._directories(pgdata)  # pyright: ignore[reportPrivateUsage]


def _cluster(place: Path) -> Path:
    place.mkdir()
    for name in ("PG_VERSION", "postgresql.conf"):
        (place / name).write_text("18\n" if name == "PG_VERSION" else "")
        os.chown(place / name, _OWNER, -1)
    os.chown(place, _OWNER, -1)
    place.chmod(0o700)
    return place


@pytest.mark.parametrize("way", ["directory", "writable", "link", "data_directory", "configuration"])
def test_nobody_else_can_put_another_cluster_there(shared: Path, way: str) -> None:
    between = shared / "between"
    between.mkdir()
    asked = data = _cluster(between / "data")
    if way in ("data_directory", "configuration"):
        asked = shared / "etc"
        asked.mkdir()
        (asked / "postgresql.conf").write_text(f"data_directory = '{data}'\n")
        if way == "configuration":
            (asked / "postgresql.conf").rename(between / "postgresql.conf")
            (asked / "postgresql.conf").symlink_to(between / "postgresql.conf")
            between = shared / "etc" / ".." / "between"
            (shared / "good").mkdir()
            data.rename(shared / "good" / "data")
            (between / "postgresql.conf").write_text(f"data_directory = '{shared / 'good' / 'data'}'\n")
            data = shared / "good" / "data"
    if way == "link":
        shared.chmod(0o1777)
        asked = shared / "link"
        asked.symlink_to(data)
    assert _directories(asked) == (data if way == "link" else asked, data)
    if way == "link":
        os.chown(asked, _OTHER, _OTHER, follow_symlinks=False)
    elif way == "writable":
        between.chmod(0o777)
    else:
        os.chown(between, _OTHER, _OTHER)
    with pytest.raises(UsageError, match="who could put another cluster there; run as the server's user"):
        _directories(asked)


def test_the_owners_own_links_are_followed_once(shared: Path) -> None:
    data = _cluster(shared / "data")
    (shared / "link").symlink_to("data")
    os.chown(shared / "link", _OWNER, -1, follow_symlinks=False)
    assert _directories(shared / "link") == (data, data)


@pytest.mark.parametrize("answer", ["9" * 5000, "", "none"])
def test_what_a_library_of_the_owners_prints_is_a_line(answer: str, shared: Path) -> None:
    """`postgres -C` loads the libraries that the configuration names, as the data's owner."""
    data = _cluster(shared / "data")
    programs = shared / "bin"
    programs.mkdir()
    says = f'case "$*" in *--version*) echo "postgres (PostgreSQL) 18.6" ;; *) echo "{answer}" ;; esac'
    (programs / "postgres").write_text(f"#!/bin/sh\n{says}\n")
    (programs / "postgres").chmod(0o755)
    with pytest.raises(UsageError, match="does not answer as PostgreSQL does") as raised:
        stopped_facts(data, programs)
    assert len(str(raised.value)) < 500


def test_no_path_at_all_is_no_cluster(shared: Path) -> None:
    (shared / "postgresql.conf").write_text("data_directory = '/a\0b'\n")
    with pytest.raises(UsageError, match="is not a data directory"):
        _directories(shared)


def test_the_group_is_the_owners_and_not_the_directorys(shared: Path) -> None:
    """A directory may have a group to which its owner does not belong: in one whose group is inherited (inode(7))."""
    os.chown(shared, _OWNER, 4)
    nobody = pwd.getpwuid(_OWNER)
    descriptor = os.open(shared, os.O_RDONLY)
    try:
        for found in (stopped._owner(shared), git._owner(descriptor)):  # pyright: ignore[reportPrivateUsage]
            assert found is not None
            assert (found.uid, found.gid) == (_OWNER, nobody.pw_gid)
        os.chown(shared, _OTHER, 0)
        found = stopped._owner(shared)  # pyright: ignore[reportPrivateUsage]
        assert found is not None
        assert (found.uid, found.gid) == (_OTHER, 65534)
    finally:
        os.close(descriptor)

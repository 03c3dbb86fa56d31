"""Files that an account has made and root keeps: they cannot change later, by a path, a descriptor or a mapping."""

import mmap
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from octavo.errors import OctavoError
from octavo.host import kept, tree_walk, trees
from octavo.host.children import Account
from octavo.host.journal import Journal

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

_CHANGED = b"poison"


@pytest.fixture
def tree(place: Path, account: Account) -> Path:
    """A tree of the account's, two files in two directories."""
    top = trees.make_for(place / "tree", account)
    (top / "base").mkdir()
    for name in ("PG_VERSION", "base/1"):
        (top / name).write_text("as it was")
    for path in top.rglob("*"):
        os.chown(path, account.uid, account.gid)
    return top


def _files(tree: Path) -> dict[str, bytes]:
    return {str(path.relative_to(tree)): path.read_bytes() for path in tree.rglob("*") if path.is_file()}


_TRIES = """
import os, sys
uid, gid = int(sys.argv[1]), int(sys.argv[2])
descriptors = {flags: os.open("base/1", flags) for flags in (os.O_RDONLY, os.O_PATH)}
directory = os.open("base", os.O_RDONLY)
os.setgroups([]); os.setresgid(gid, gid, gid); os.setresuid(uid, uid, uid)
def tried(change):
    try: change()
    except OSError: print("refused")
    else: print("changed")
sys.stdin.readline()
for change in (
    lambda: os.open("base/1", os.O_WRONLY),
    lambda: os.open("base/1", os.O_RDONLY | os.O_TRUNC),
    lambda: os.open("1", os.O_RDWR, dir_fd=directory),
    lambda: os.open("new", os.O_WRONLY | os.O_CREAT, dir_fd=directory),
    lambda: os.unlink("1", dir_fd=directory),
    lambda: os.rename("base/1", "base/2"),
    lambda: os.mkdir("base/more"),
    lambda: os.symlink("/", "base/link"),
    lambda: os.link("base/1", "base/again"),
    lambda: os.chmod("base/1", 0o666),
    lambda: os.chmod("base", 0o777),
    lambda: os.fchmod(descriptors[os.O_RDONLY], 0o666),
    lambda: os.chmod(f"/proc/self/fd/{descriptors[os.O_PATH]}", 0o666),
    lambda: os.open(f"/proc/self/fd/{descriptors[os.O_RDONLY]}", os.O_WRONLY),
    lambda: os.open(f"/proc/self/fd/{descriptors[os.O_PATH]}", os.O_WRONLY),
    lambda: os.utime("base/1"),
    lambda: os.setxattr("base/1", "user.note", b"x"),
): tried(change)
print(open("base/1").read())
"""


def test_the_account_changes_nothing_that_is_kept_and_can_read_it(tree: Path, account: Account) -> None:
    """Not by a path, nor by descriptors and a directory that were opened before."""
    command = [sys.executable, "-I", "-c", _TRIES, str(account.uid), str(account.gid)]
    child = subprocess.Popen(command, cwd=tree, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    kept.keep(tree, account)
    before = _files(tree)
    said, _ = child.communicate("go\n")
    assert said.split("\n")[:-1] == ["refused"] * 17 + ["as it was"]
    assert _files(tree) == before == {"PG_VERSION": b"as it was", "base/1": b"as it was"}
    for path in (tree, *tree.rglob("*")):
        facts = path.stat()
        assert (facts.st_uid, facts.st_gid) == (0, account.gid)
        assert stat.S_IMODE(facts.st_mode) == (0o750 if path.is_dir() else 0o640)


@pytest.mark.parametrize("way", ["descriptor", "mapping"])
def test_a_file_that_is_open_for_writing_is_replaced_by_a_copy(way: str, tree: Path, account: Account) -> None:
    path = tree / "base" / "1"
    untouched = (tree / "PG_VERSION").stat().st_ino
    descriptor = os.open(path, os.O_RDWR)
    try:
        mapped = mmap.mmap(descriptor, 0) if way == "mapping" else None
        if mapped is not None:
            os.close(descriptor)
            descriptor = -1
        kept.keep(tree, account)
        if mapped is None:
            os.pwrite(descriptor, _CHANGED, 0)
        else:
            mapped[: len(_CHANGED)] = _CHANGED
            mapped.flush()
            mapped.close()
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    assert _files(tree) == {"PG_VERSION": b"as it was", "base/1": b"as it was"}
    assert (tree / "PG_VERSION").stat().st_ino == untouched
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def _rights_of(account: Account, default: int) -> bytes:
    """An access list that permits the account everything (include/uapi/linux/posix_acl_xattr.h)."""
    nobody = 0xFFFFFFFF
    entries = [(0x01, 7, nobody), (0x02, 7, account.uid), (0x04, 7, nobody), (0x10, 7, nobody), (0x20, default, nobody)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def test_access_lists_give_no_rights_back(tree: Path, place: Path, account: Account) -> None:
    try:
        for path in (tree / "base", tree / "base" / "1"):
            os.setxattr(path, "system.posix_acl_access", _rights_of(account, 7))
        os.setxattr(tree / "base", "system.posix_acl_default", _rights_of(account, 7))
    except OSError:
        pytest.skip("no access lists on this filesystem")
    with (tree / "base" / "1").open("r+b"):  # it is copied in the directory with the list
        kept.keep(tree, account)
    for path in (tree, *tree.rglob("*")):
        assert not [name for name in os.listxattr(path) if "acl" in name], path
        assert not path.stat().st_mode & 0o027 & ~(0o050 if path.is_dir() else 0o040), path


def link(tree: Path, elsewhere: Path) -> None:
    (tree / "base" / "odd").symlink_to(elsewhere)


def directory_link(tree: Path, elsewhere: Path) -> None:
    (tree / "odd").symlink_to(elsewhere.parent)


def hard_link(tree: Path, elsewhere: Path) -> None:
    os.link(elsewhere, tree / "base" / "odd")


def fifo(tree: Path, _: Path) -> None:
    os.mkfifo(tree / "base" / "odd")


def others(tree: Path, _: Path) -> None:
    (tree / "base" / "odd").write_text("root's")


@pytest.mark.parametrize("plant", [link, directory_link, hard_link, fifo, others])
def test_what_is_not_plain_is_not_kept_and_what_it_leads_to_is_not_touched(
    plant: Callable[[Path, Path], None], tree: Path, place: Path, account: Account
) -> None:
    elsewhere = place / "elsewhere"
    elsewhere.write_text("somebody else's")
    os.chown(elsewhere, 65534, 65534)
    before = elsewhere.stat()
    plant(tree, elsewhere)
    with pytest.raises(OctavoError, match=r"tree/(base/)?odd is .*; it is not kept") as raised:
        kept.keep(tree, account)
    assert "\n" not in str(raised.value)
    after = elsewhere.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)


def test_what_is_planted_while_a_tree_is_taken_is_found(
    tree: Path, place: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a directory whose entries were read and which does not belong to root yet."""
    elsewhere = place / "elsewhere"
    elsewhere.write_text("root's")
    walk = tree_walk.walk

    def planting(top: Path, *, strict: bool = False) -> Iterator[tree_walk.WalkedDirectory]:
        for found in walk(top, strict=strict):
            if found.path == "base":
                link(tree, elsewhere)
            yield found

    monkeypatch.setattr(tree_walk, "walk", planting)
    with pytest.raises(OctavoError, match="base/odd is a symbolic link"):
        kept.keep(tree, account)


def test_a_copy_of_what_is_kept_is_the_accounts_alone(
    tree: Path, place: Path, journal: Journal, account: Account
) -> None:
    kept.keep(tree, account)
    trees.copy(tree, place / "copy", journal, account)
    assert _files(place / "copy") == _files(tree)
    trees.check_plain(place / "copy", account)
    for path in (place / "copy", *(place / "copy").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)

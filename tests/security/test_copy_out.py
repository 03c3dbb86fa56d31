"""What leaves a tree that others can write: plain files of its owner, and nothing that leads elsewhere."""

import os
from pathlib import Path

import pytest

from octavo.errors import OctavoError
from octavo.host.children import Account
from octavo.host.copy_out import copy_out, open_below

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def made(tmp_path: Path, account: Account) -> Path:
    """A tree that an account made: a program, a file, and links to both."""
    made = tmp_path / "tree" / "finished" / "0"
    (made / "bin").mkdir(parents=True)
    (made / "lib").mkdir()
    (made / "bin" / "tool").write_text("#!/bin/sh\n")
    (made / "bin" / "tool").chmod(0o6777)
    (made / "lib" / "libx.so.1").write_text("library")
    (made / "lib" / "libx.so").symlink_to("libx.so.1")
    (made / "bin" / "lib").symlink_to("../lib")
    give(made, account)
    return made


def give(tree: Path, account: Account) -> None:
    for path in (tree, *tree.rglob("*")):
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def published(made: Path, account: Account) -> Path:
    target = made.parents[2] / "published"
    copy_out(made.parents[1], "finished/0", target, account)
    return target


def test_owner_and_mode_are_ours_and_nothing_is_set_user_id(made: Path, account: Account) -> None:
    target = published(made, account)
    for path in (target, *target.rglob("*")):
        facts = path.lstat()
        assert (facts.st_uid, facts.st_gid) == (os.geteuid(), os.getegid())
        if not path.is_symlink():
            assert facts.st_mode & 0o7777 == (0o755 if path.is_dir() or path.name == "tool" else 0o644)
    assert (target / "bin" / "lib" / "libx.so").read_text() == "library"


def test_digests_are_of_the_copy_and_what_is_the_same_is_shared(made: Path, account: Account, tmp_path: Path) -> None:
    tree = made.parents[1]
    first = copy_out(tree, "finished/0", tmp_path / "one", account)
    (made / "bin" / "tool").write_text("#!/bin/bash\n")
    second = copy_out(tree, "finished/0", tmp_path / "two", account, earlier=(tmp_path / "one", first))
    assert set(first) == set(second) == {"bin/tool", "lib/libx.so.1"}
    assert first["bin/tool"] != second["bin/tool"]
    shared = {name for name in first if (tmp_path / "one" / name).samefile(tmp_path / "two" / name)}
    assert shared == {"lib/libx.so.1"}


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("share", "/etc"),
        ("share", "../../.."),
        # As text it stays inside; through bin/lib, which leads to lib, it does not.
        ("bin/out", "lib/../../x"),
        # Inside the copy; once an extension has installed a link `bin/later` to "..", it is not.
        ("bin/out", "later/../x"),
        # Leads out and back in by the name of our copy, which is not that of the published prefix.
        ("bin/out", "../../published/x"),
    ],
)
def test_a_link_that_leads_out_is_refused_by_name(made: Path, account: Account, name: str, target: str) -> None:
    (made / name).symlink_to(target)
    with pytest.raises(OctavoError, match=f"{name} is a link to '{target}', out of the installation"):
        published(made, account)


def test_links_to_links_that_stay_inside_are_taken(made: Path, account: Account) -> None:
    (made / "lib" / "libx.so.2").symlink_to("libx.so")
    (made / "lib" / "all").symlink_to("../bin/lib")
    target = published(made, account)
    assert (target / "lib" / "all" / "libx.so.2").read_text() == "library"


def test_a_link_to_a_link_that_leads_out_is_refused(made: Path, account: Account) -> None:
    (made / "bin" / "first").symlink_to("second")
    (made / "bin" / "second").symlink_to("../..")
    with pytest.raises(OctavoError, match="is a link to"):
        published(made, account)


def test_what_is_no_file_or_has_no_name_to_print_is_refused(made: Path, account: Account) -> None:
    os.mkfifo(made / "bin" / "pipe")
    with pytest.raises(OctavoError, match="bin/pipe is neither a file nor a directory nor a link"):
        published(made, account)
    (made / "bin" / "pipe").rename(made / "bin" / "a\x1b[2J")
    with pytest.raises(OctavoError, match="has a name that is not installed") as error:
        copy_out(made.parents[1], "finished/0", made.parents[2] / "again", account)
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("limit", "most", "told"), [("_MOST_BYTES", 15, "would be installed"), ("_DEEPEST", 0, "nest too deeply")]
)
def test_no_more_is_taken_than_an_installation_has(
    made: Path, account: Account, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, told: str
) -> None:
    """Two files of 10 and 7 bytes, in directories below the top."""
    monkeypatch.setattr(f"octavo.host.copy_out.{limit}", most)
    with pytest.raises(OctavoError, match=told):
        published(made, account)


@needs_root
def test_a_file_of_somebody_else_is_not_taken(made: Path, account: Account) -> None:
    """For example a hard link to one, if the kernel does not protect them (fs.protected_hardlinks)."""
    (made / "lib" / "secret").write_text("root's")
    (made / "lib" / "secret").chmod(0o600)
    with pytest.raises(OctavoError, match=f"lib/secret is not a file that {account.name} made"):
        published(made, account)


@pytest.mark.parametrize("part", ["finished", "finished/0"])
def test_no_part_of_the_way_is_a_link(made: Path, account: Account, part: str) -> None:
    place = made.parents[1] / part
    place.rename(made.parents[2] / "moved")
    place.symlink_to(made.parents[2] / "moved")
    with pytest.raises(OctavoError, match="cannot be copied"):
        published(made, account)
    assert not (made.parents[2] / "published").exists()


@pytest.mark.parametrize("path", ["..", "a/../../b", "/etc/passwd", "a//b", ""])
def test_a_path_that_leads_out_is_none(tmp_path: Path, path: str) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(ValueError, match="not a relative path below"):
            open_below(descriptor, path)
    finally:
        os.close(descriptor)

"""Root's work in trees that another account owns: planted links, FIFOs, hard links, depth and odd names."""

import os
import stat
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from octavo.errors import HostError, OctavoError, UsageError
from octavo.host import careful_open, children, mode_filter, mounts, page_cache, set_user_id, tree_walk, trees
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.host.mounts import Mount
from octavo.workload_support import files
from octavo.workload_support.restore import is_sql

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
DEPTH = 1100  # deeper than recursion, descriptors and the length of a path allow


@pytest.fixture
def tree(place: Path, account: Account) -> Path:
    return trees.make_for(place / "tree", account)


@pytest.fixture
def secret(place: Path) -> Path:
    """A file that only root can read, and a link to which leads nowhere."""
    path = place / "secret"
    path.write_text("secret")
    path.chmod(0o600)
    return path


def dig(tree: Path, depth: int) -> None:
    """This many nested directories."""
    here = os.open(tree, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("directory", dir_fd=here)
        below = os.open("directory", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)


def test_a_tree_of_any_depth_is_walked_and_removed(tree: Path) -> None:
    dig(tree, DEPTH)
    assert sum(1 for _ in tree_walk.walk(tree)) == DEPTH + 1
    assert sum(1 for _ in trees.open_files(tree)) == 1
    assert trees.allocated_bytes(tree) > 0
    assert trees.remove(tree)
    assert not tree.exists()


def test_a_walk_visits_everything_once_and_comes_back_up(tree: Path) -> None:
    for name in ("a/b/c", "a/d", "e"):
        (tree / name).mkdir(parents=True)
        (tree / name / "file").touch()
    assert [place.path for place in tree_walk.walk(tree)] == ["", "a", "a/b", "a/b/c", "a/d", "e"]
    trees.sync(tree)
    assert trees.files(tree) == [tree / name / "file" for name in ("a/b/c", "a/d", "e")]
    pruned: list[str] = []
    for place in tree_walk.walk(tree):
        pruned.append(place.path)
        place.directories[:] = [name for name in place.directories if name != "b"]
    assert pruned == ["", "a", "a/d", "e"]


def test_a_directory_that_is_moved_during_a_walk_ends_no_walk(tree: Path, place: Path) -> None:
    for name in ("a/b", "c"):
        (tree / name).mkdir(parents=True)
    seen: list[str] = []
    for found in tree_walk.walk(tree):
        seen.append(found.path)
        if found.path == "a/b":
            (tree / "a").rename(place / "elsewhere")
    assert seen == ["", "a", "a/b", "c"]


def test_names_of_any_bytes_do_no_harm(tree: Path) -> None:
    name = os.fsdecode(b"\xff\x1b[2J\n")
    (tree / name).symlink_to("/")
    assert trees.allocated_bytes(tree) >= 0
    with pytest.raises(OctavoError) as raised:
        trees.check_plain(tree, Account("x", os.geteuid(), os.getegid()))
    assert str(raised.value).startswith(r"tree/\xff\x1b[2J\n is a symbolic link")
    str(raised.value).encode()  # it can be printed


def link(tree: Path, secret: Path) -> None:
    (tree / "planted").symlink_to(secret)


def fifo(tree: Path, _: Path) -> None:
    os.mkfifo(tree / "planted")


def hard_link(tree: Path, _: Path) -> None:
    (tree / "file").touch()
    os.link(tree / "file", tree / "planted")


def set_user_id_file(tree: Path, _: Path) -> None:
    (tree / "planted").touch()
    (tree / "planted").chmod(0o4755)


def depth(tree: Path, _: Path) -> None:
    dig(tree, 50)


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        (link, "a symbolic link"),
        (fifo, "not a regular file"),
        (hard_link, "a file with several names"),
        (set_user_id_file, "a set-user-ID"),
        (depth, "nest more than"),
    ],
)
def test_what_is_not_plain_is_not_published(
    plant: Callable[[Path, Path], None], told: str, tree: Path, secret: Path
) -> None:
    ourselves = Account("ourselves", os.geteuid(), os.getegid())
    (tree / "base").mkdir()
    (tree / "base" / "1").touch()
    for path in (tree, *tree.rglob("*")):
        os.chown(path, ourselves.uid, ourselves.gid)
    trees.check_plain(tree, ourselves)
    plant(tree, secret)
    with pytest.raises(OctavoError, match=told) as raised:
        trees.check_plain(tree, ourselves)
    assert "\n" not in str(raised.value)


@needs_root
def test_links_are_followed_only_where_nobody_else_may_have_put_them(
    tree: Path, secret: Path, place: Path, account: Account
) -> None:
    (tree / "planted").symlink_to(secret)
    with pytest.raises(OSError, match="symbolic link"):
        careful_open.open_file(tree / "planted")
    (tree / "data").symlink_to(place)
    with pytest.raises(OSError, match="Not a directory"):
        careful_open.open_file(tree / "data" / "secret")
    assert list(tree_walk.walk(tree / "data")) == []
    (place / "ours").symlink_to(secret)
    assert careful_open.read_text(place / "ours") == "secret"
    os.mkfifo(tree / "fifo")
    with pytest.raises(OSError, match="not a regular file"):
        careful_open.open_file(tree / "fifo")
    assert list(trees.open_files(tree)) == []


@needs_root
def test_nothing_of_ours_is_made_in_a_directory_of_the_accounts(tree: Path, account: Account) -> None:
    with pytest.raises(HostError, match="can be written by others"):
        trees.new_log(tree / "log")
    with pytest.raises(HostError, match="can be written by others"):
        trees.make_for(tree / "more", account)
    assert list(tree.iterdir()) == []


@needs_root
def test_a_log_takes_the_place_of_a_link(place: Path, secret: Path) -> None:
    (place / "log").symlink_to(secret)
    os.close(trees.new_log(place / "log"))
    assert secret.read_text() == "secret"
    assert not (place / "log").is_symlink()


@needs_root
def test_a_copy_has_all_files_and_leaves_large_ones_out_of_the_page_cache(
    tree: Path, place: Path, journal: Journal, account: Account
) -> None:
    large = os.urandom(40 * 1024**2 + 8192)
    (tree / "base" / "1").mkdir(parents=True)
    (tree / "base" / "1" / "a file's name; $(x)").write_bytes(large)
    (tree / "base" / "small").write_text("small")
    (tree / "base" / "empty").touch()
    (tree / "base" / "same").hardlink_to(tree / "base" / "small")
    (tree / "link").symlink_to("base/small")
    for path in (tree, *tree.rglob("*")):
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
    copy = place / "copy"
    trees.copy(tree, copy, journal, account)
    mount = mounts.mount_of(copy)
    if mount is not None and mount.kind != "tmpfs":
        with suppress(OSError), (copy / "base" / "1" / "a file's name; $(x)").open("rb") as file:
            assert page_cache.cached_pages(file.fileno()) * os.sysconf("SC_PAGE_SIZE") <= len(large) // 2
    assert (copy / "base" / "1" / "a file's name; $(x)").read_bytes() == large
    assert [(copy / "base" / name).read_text() for name in ("small", "empty", "same")] == ["small", "", "small"]
    assert (copy / "base" / "same").samefile(copy / "base" / "small")
    assert (copy / "link").is_symlink()
    assert {path.lstat().st_uid for path in copy.rglob("*")} == {account.uid}
    files = [path for path in copy.rglob("*") if path.is_file() and not path.is_symlink()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    (tree / "link").unlink()
    trees.copy_over(tree, copy, journal, account)
    assert (copy / "base" / "1" / "a file's name; $(x)").read_bytes() == large


@needs_root
def test_copying_over_a_planted_link_changes_nothing_of_ours(
    tree: Path, place: Path, secret: Path, journal: Journal, account: Account
) -> None:
    """What made root write to and give away a file: a link in the load, over which the stock's file of this name is
    copied."""
    (tree / "pg_ident.conf").symlink_to(secret)
    stock = trees.make_for(place / "stock", account)
    (stock / "pg_ident.conf").write_text("written")
    os.chown(stock / "pg_ident.conf", account.uid, account.gid)
    before = secret.stat()
    trees.copy(tree, place / "copy", journal, account)
    with pytest.raises(OctavoError, match="copying"):
        trees.copy_over(stock, place / "copy", journal, account)
    assert secret.read_text() == "secret"
    assert (secret.stat().st_uid, secret.stat().st_mode) == (before.st_uid, before.st_mode)


@needs_root
def test_lent_files_are_read_by_the_account_and_written_by_nobody_else(
    place: Path, secret: Path, journal: Journal, account: Account
) -> None:
    archive = place / "archive"
    (archive / "blobs").mkdir(parents=True)
    (archive / "toc.dat").write_text("toc")
    (archive / "blobs" / "1").write_text("blob")
    with files.lent([secret, archive], journal, account) as (file, directory):
        script = f"cat {file} {directory}/toc.dat {directory}/blobs/1; ! touch {directory}/x && ! echo >{file}"
        finished = children.run(["sh", "-c", script], journal, role="test", account=account)
        assert (finished.returncode, finished.stdout) == (0, "secrettocblob")
        owners = {path.stat().st_uid for path in (file, *directory.rglob("*"))}
        assert owners == {0}
        top = file.parents[1]
        assert stat.S_IMODE(top.stat().st_mode) == 0o750
    assert not top.exists()


def test_a_file_that_is_replaced_while_it_is_lent_is_the_one_that_was_checked(
    place: Path, secret: Path, journal: Journal, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = place / "archive"
    archive.mkdir()
    (archive / "toc.dat").write_text("toc")
    make_readable = trees.make_readable

    def replace(path: Path, to: Account) -> Path:
        if path.name == "archive":  # the copy's own directory, made after the original was checked
            (archive / "toc.dat").unlink()
            (archive / "toc.dat").symlink_to(secret)
        return make_readable(path, to)

    monkeypatch.setattr(trees, "make_readable", replace)
    with files.lent([archive], journal, account) as (copy,):
        assert (archive / "toc.dat").is_symlink()
        assert (copy / "toc.dat").read_text() == "toc"


@needs_root
@pytest.mark.parametrize("way", ["file", "directory"])
def test_a_link_of_another_user_lends_nothing_of_roots(
    way: str, place: Path, secret: Path, journal: Journal, account: Account
) -> None:
    theirs = place / "theirs"
    theirs.mkdir()
    (theirs / "dump").symlink_to(secret if way == "file" else secret.parent)
    os.chown(theirs, 65534, 65534)
    for ask in (files.digest, files.size_of):
        with pytest.raises(UsageError, match=r"theirs/dump (is reached through another user's|cannot be read)"):
            ask(theirs / "dump")
    with pytest.raises(UsageError), files.lent([theirs / "dump"], journal, account):
        pass


@pytest.mark.parametrize("kind", ["link", "directory", "fifo"])
def test_an_archive_with_links_is_refused_by_name(
    kind: str, place: Path, secret: Path, journal: Journal, account: Account
) -> None:
    archive = place / "archive"
    archive.mkdir()
    (archive / "toc.dat").write_text("toc")
    if kind == "fifo":
        os.mkfifo(archive / "odd")
    else:
        (archive / "odd").symlink_to(secret if kind == "link" else "/")
    before = sorted((place.parent / "scratch").glob("*"))
    told = "odd in it is not a regular file"
    for ask in (files.digest, files.size_of):
        with pytest.raises(UsageError, match=told):
            ask(archive)
    with pytest.raises(UsageError, match=told), files.lent([archive], journal, account):
        pass
    assert sorted((place.parent / "scratch").glob("*")) == before


def test_a_tar_with_links_is_refused_by_name(place: Path) -> None:
    archive = place / "dump.tar"
    with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("toc.dat"))
    assert not is_sql(archive)
    with tarfile.open(archive, "a") as tar:
        planted = tarfile.TarInfo("1.dat")
        planted.type, planted.linkname = tarfile.SYMTYPE, "/etc/shadow"
        tar.addfile(planted)
    with pytest.raises(UsageError, match=r"1\.dat in it is not a regular file"):
        is_sql(archive)
    archive.write_bytes(b"toc.dat".ljust(257, b"\0") + b"ustar".ljust(300, b"\xff"))
    with pytest.raises(UsageError, match="damaged"):
        is_sql(archive)


def test_a_fifo_is_no_archive(place: Path, journal: Journal, account: Account) -> None:
    os.mkfifo(place / "fifo")
    with pytest.raises(UsageError, match="neither a file nor a directory"):
        files.digest(place / "fifo")
    with pytest.raises(UsageError, match="neither"), files.lent([place / "fifo"], journal, account):
        pass


@needs_root
def test_set_user_id_files_of_the_accounts_lose_their_bits_and_are_named(
    place: Path, secret: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the kernel does not prevent their creation."""
    monkeypatch.setattr(mode_filter, "is_available", lambda: False)
    shared = place / "tmp"
    (shared / "deeper").mkdir(parents=True)
    program, others, link = shared / "deeper" / "program", shared / "others", shared / "link"
    for path in (program, others):
        path.write_text("")
    os.chown(program, account.uid, account.gid)
    program.chmod(0o6755)
    others.chmod(0o4755)
    secret.chmod(0o4700)
    link.symlink_to(secret)
    told = rf"deeper/program was made a set-user-ID file of {account.name}"
    with pytest.raises(OctavoError, match=told), set_user_id.none_left(account, [shared]):
        pass
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (program, others, secret)]
    assert modes == [0o755, 0o4755, 0o4700]
    program.chmod(0o4755)
    with pytest.raises(OctavoError, match="the first"), set_user_id.none_left(account, [shared]):
        raise OctavoError("the first")
    assert stat.S_IMODE(program.stat().st_mode) == 0o755
    with set_user_id.none_left(account, [shared]):
        pass
    program.chmod(0o4755)
    theirs = Mount("0:99", shared / "deeper", "fuse", "theirs")

    def below(_: Path) -> list[Mount]:
        return [theirs]

    monkeypatch.setattr(mounts, "below", below)
    with set_user_id.none_left(account, [shared]):  # in a mount, which might never answer
        pass
    assert stat.S_IMODE(program.stat().st_mode) == 0o4755

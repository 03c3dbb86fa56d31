"""What root copies into a machine, and makes an image of, from directories of other users."""

# pyright: reportPrivateUsage=false

import lzma
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.security.test_endless import in_time
from tests.tools import needs

from octavo.errors import HostError, OctavoError, UsageError
from octavo.host import published, trees
from octavo.vm import build, images, initramfs, job, worker


def written(tmp_path: Path, files: dict[str, Path]) -> dict[str, tarfile.TarInfo]:
    path = tmp_path / "job"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    in_time(lambda: job.write(descriptor, ["true"], "word", files))
    with tarfile.open(path) as archive:
        members = {member.name: member for member in archive if not member.name.startswith(".")}
        for member in members.values():
            assert member.isdir() or (member.isreg() and archive.extractfile(member) is not None)
    return members


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory with links that lead elsewhere."""
    (tmp_path / "secret").write_text("root's")
    tree = tmp_path / "theirs"
    (tree / "below").mkdir(parents=True)
    (tree / "file").write_text("1")
    (tree / "below" / "program").write_text("2")
    (tree / "below" / "program").chmod(0o4755)
    (tree / "link").symlink_to(tmp_path / "secret")
    (tree / "up").symlink_to(tmp_path)
    os.mkfifo(tree / "fifo")
    return tree


def test_only_files_and_directories_get_into_a_machine(tmp_path: Path, tree: Path) -> None:
    found = written(tmp_path, {"theirs": tree, "one": tree / "file"})
    modes = {name: (member.mode, member.uid, member.size) for name, member in found.items()}
    assert modes == {
        "theirs": (0o755, 0, 0), "theirs/file": (0o644, 0, 1), "theirs/below": (0o755, 0, 0),
        "theirs/below/program": (0o755, 0, 1), "one": (0o644, 0, 1),
    }  # fmt: skip


@pytest.mark.parametrize("place", ["file", "below/program"])
def test_a_link_that_takes_a_files_place_meanwhile_leads_nowhere(
    place: str, tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of the directory has time until the file is opened."""
    real: Callable[..., os.stat_result] = os.stat

    def stat(path: object, *arguments: object, **options: object) -> os.stat_result:
        found = real(path, *arguments, **options)
        if options.get("dir_fd") is not None and path == Path(place).name:
            (tree / place).unlink()
            (tree / place).symlink_to(tmp_path / "secret")
        return found

    monkeypatch.setattr(os, "stat", stat)
    with pytest.raises(HostError, match=r"^--copy "):
        written(tmp_path, {"theirs": tree})
    assert b"root's" not in (tmp_path / "job").read_bytes()


@pytest.mark.parametrize("how", ["link", "fifo"])
def test_a_file_that_is_named_is_no_link_of_others_and_no_fifo(how: str, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    path = shared / "kernel.deb"
    (tmp_path / "secret").write_text("root's")
    if how == "link":
        path.symlink_to(tmp_path / "secret")
        shared.chmod(0o1777)
    else:
        os.mkfifo(path)
    with pytest.raises(HostError, match=r"^--copy "):
        written(tmp_path, {"x": path})
    with pytest.raises(HostError, match=r"^--kernel-package "):
        in_time(lambda: build._digest(path))
    with pytest.raises(OSError, match=r"regular file|symbolic links"):
        in_time(lambda: worker._opened(str(path)))


def test_files_that_are_too_many_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_MOST_BYTES", 3)
    (tmp_path / "a").write_text("four")
    with pytest.raises(UsageError, match="more than 3 B"):
        written(tmp_path, {"a": tmp_path / "a"})


def test_a_directory_however_deep_is_copied_or_refused(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    try:
        assert len(written(tmp_path, {"d": tmp_path / "d"})) == 1200
    finally:
        assert trees.remove(tmp_path / "d")


@pytest.mark.parametrize("text", ["[]", "null", "5", "{}", "[" * 100_000, '{"machine": 1}', "", "\0", "9" * 5000])
def test_a_manifest_that_is_none_is_no_image(text: str, own_home: Path) -> None:
    (own_home / "vm" / "vm-x").mkdir(parents=True)
    (own_home / "vm" / "vm-x" / published.MANIFEST).write_text(text)
    assert images.list_images() == []
    with pytest.raises(HostError, match="no image has a kernel page"):
        images.newest("aarch64", "4kB")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The unpacked package of a kernel."""
    tree = tmp_path / "package"
    (tree / "boot").mkdir(parents=True)
    (tree / "boot" / "vmlinuz-6").write_bytes(b"kernel")
    (tree / "boot" / "config-6").write_bytes(b"")
    (tree / "lib" / "modules").mkdir(parents=True)
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN" / "control").write_text("Package: kernel\nVersion: 6\nArchitecture: all\nMaintainer: x\n")
    return tree


def make(package: Path, tmp_path: Path) -> None:
    needs("dpkg-deb")
    packages, tree = tmp_path / "packages", tmp_path / "tree"
    packages.mkdir()
    tree.mkdir()
    kernel = packages / "kernel.deb"
    subprocess.run(["dpkg-deb", "--build", "-Znone", package, kernel], check=True, capture_output=True)
    in_time(lambda: worker._make(tree, packages, kernel, "17", {"init.sh": b""}))


@pytest.mark.parametrize("name", ["boot/vmlinuz-6", "boot/config-6"])
@pytest.mark.parametrize("what", ["fifo", "link"])
def test_a_kernels_package_has_regular_files(name: str, what: str, package: Path, tmp_path: Path) -> None:
    """It may be anybody's: a FIFO never ends, /dev/zero fills the memory."""
    path = package / name
    path.unlink()
    if what == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises((OSError, OctavoError), match=r"is not a regular file|Too many levels"):
        make(package, tmp_path)


@pytest.mark.parametrize("what", ["fifo", "link", "bomb", "cut"])
def test_a_kernels_modules_are_regular_files_that_end(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initramfs, "_MOST_BYTES", 1024**2)
    path = tmp_path / "ext4.ko.xz"
    if what == "fifo":
        os.mkfifo(path)
    elif what == "link":
        path.symlink_to("/dev/zero")
    else:
        packed = lzma.compress(bytes(2 * 1024**2))
        path.write_bytes(packed if what == "bomb" else packed[:-9])
    with pytest.raises((OSError, OctavoError), match=r"is not a regular file|Too many levels|is damaged, or larger"):
        in_time(lambda: initramfs.read_module(path))
    large = tmp_path / "raid0.ko"
    with large.open("wb") as file:
        file.truncate(initramfs._MOST_BYTES + 1)
    with pytest.raises(OctavoError, match="is not a regular file of at most 1 MB"):
        initramfs.read_module(large)
    whole = tmp_path / "xfs.ko.xz"
    whole.write_bytes(lzma.compress(b"module"))
    assert initramfs.read_module(whole) == b"module"

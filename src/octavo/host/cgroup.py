"""The memory limit of a server: a cgroup of its own, version 1 or 2, in which the server is started.

The page cache is charged to the group that touches a page first, so a server that is moved in later, or whose files
another process has read, is not limited (kernel Documentation/admin-guide/cgroup-v1/memory.rst).
"""

import contextlib
import errno
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from octavo.errors import HostError
from octavo.host import mounts
from octavo.host.journal import Journal
from octavo.host.process import boot_id
from octavo.host.undo import Entry, Undone

ROOT = Path("/sys/fs/cgroup")
_REMOVAL_SECONDS = 30.0
# What a version 2 group's files say while nobody has set anything (Documentation/admin-guide/cgroup-v2.rst).
_UNSET = {
    "memory": {
        "memory.max": "max",
        "memory.high": "max",
        "memory.swap.max": "max",
        "memory.low": "0",
        "memory.min": "0",
    },
    "io": {"io.max": "", "io.latency": "", "io.weight": "default 100"},
}


def memory_controller(root: Path = ROOT) -> Path | None:
    """The directory below which we may make memory groups, or None when this host offers none."""
    version_1 = root / "memory"
    if (version_1 / "memory.limit_in_bytes").exists():
        return version_1 if os.access(version_1, os.W_OK) else None
    return version_2("memory", root)


def version_2(controller: str, root: Path = ROOT) -> Path | None:
    """The version 2 hierarchy when it has this controller and we may make groups there, else None."""
    offered = root / "cgroup.controllers"
    if offered.exists() and controller in offered.read_text().split() and os.access(root, os.W_OK):
        return root
    return None


@contextmanager
def group(
    name: str, journal: Journal, *, memory: int | None = None, swap: bool = False, io: bool = False, root: Path = ROOT
) -> Generator[Path, None, None]:
    """A group with this memory limit in bytes, and on version 2 with an io.max where `io` asks for it.

    A process is started in it (`children.start`). Raises HostError when the host has no such controller.
    """
    with contextlib.ExitStack() as stack:
        unified = version_2("io", root) if io else None
        parent = unified or memory_controller(root)
        if parent is None or (io and unified is None):
            wanted = "io" if io else "memory"
            raise HostError(
                f"this host has no cgroup {wanted} controller that can be used; remove the factor that needs it"
            )
        if parent == root:
            # Writeback is charged to its group only where both controllers are on (cgroup-v2.rst, Writeback).
            for controller in ("memory", "io") if io else ("memory",):
                stack.enter_context(_enabled(controller, journal, root))
        path = parent / f"octavo-{name}"
        number = journal.record("cgroup", path=str(path))
        stack.callback(journal.undo, number)
        if memory is None:
            path.mkdir()
        else:
            create(path, memory, swap=swap)
        yield path


@contextmanager
def _enabled(controller: str, journal: Journal, root: Path) -> Generator[None, None, None]:
    """The controller offered to the groups below the root (Documentation/admin-guide/cgroup-v2.rst).

    Raises HostError when the kernel refuses it: where the root is a container's it is a group with processes in it.
    """
    control = root / "cgroup.subtree_control"
    if controller in control.read_text().split():
        yield
        return
    number = journal.record("controller", path=str(control), controller=controller, boot_id=boot_id())
    try:
        try:
            control.write_text(f"+{controller}")
        except OSError as error:
            raise HostError(
                f"{control}: the kernel does not offer {controller} to groups: {error.strerror}; run on the host and "
                "not in a container, or remove the factor that needs it"
            ) from error
        yield
    finally:
        journal.undo(number)


def undo_controller(entry: Entry) -> Undone | None:
    """Takes the controller from the groups again, unless one of them has a setting of it meanwhile, or offers it on."""
    control, controller = Path(entry["path"]), entry["controller"]
    if entry["boot_id"] != boot_id():  # a boot forgets it
        return None
    if not control.exists() or controller not in control.read_text().split():
        return None
    for name, unset in _UNSET[controller].items():
        for file in control.parent.glob(f"*/{name}"):
            if _of_a_group(file, unset) != unset:
                return Undone("left", f"left {controller} in {control}: {file.parent} has its {name} set")
    for below in control.parent.glob("*/cgroup.subtree_control"):  # the kernel would refuse it
        if controller in _of_a_group(below, "").split():
            return Undone("left", f"left {controller} in {control}: {below.parent} offers it to its groups")
    control.write_text(f"-{controller}")
    return Undone("put back", f"took {controller} out of {control}")


def _of_a_group(file: Path, gone: str) -> str:
    """The text of a group's file, `gone` if the group has gone meanwhile (ENODEV for a file that is open by then)."""
    try:
        return file.read_text().strip()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV):
            raise
        return gone


def undo_group(entry: Entry) -> Undone | None:
    """Removes the group once it is empty, and first those of children below it (version 2, `children.start`) with
    whatever is left in them: the kernel removes no group that has others."""
    from octavo.host import child_group  # which needs this module

    path = Path(entry["path"])
    if not path.exists():
        return None
    for below in [place for place in path.iterdir() if place.is_dir()]:
        child_group.remove(below)
    if not remove(path):
        return Undone(
            "failed", f"could not remove the group {path}: a process is in it; octavo host restore tries again"
        )
    return Undone("put back", f"removed the group {path}")


def create(path: Path, limit_bytes: int, *, swap: bool = False) -> None:
    """Makes the group with its limit, and by default disables swap for it.

    Raises HostError if the kernel refuses that.
    """
    try:
        path.mkdir()
        _limit_file(path).write_text(str(limit_bytes))
        for name in ("memory.swappiness", "memory.swap.max"):
            if not swap and (path / name).exists():
                (path / name).write_text("0")
    except OSError as error:
        raise HostError(
            f"memory: cannot make the group {path}: {error.strerror}; run as root or leave the factor at none"
        ) from error


def achieved_limit(path: Path) -> int:
    """The limit in bytes as the kernel holds it."""
    return int(_limit_file(path).read_bytes())


def charges_huge_pages(path: Path, table: Path = mounts.TABLE) -> bool:
    """Whether the pages of a pool are charged to groups in this directory: an option of mounting version 2, since
    Linux 6.7 (cgroup-v2.rst, memory_hugetlb_accounting). Raises OSError."""
    mount = mounts.mount_of(path, table)
    return mount is not None and mount.kind == "cgroup2" and "memory_hugetlb_accounting" in mount.options.split(",")


def shared_bytes(path: Path) -> int:
    """Shared memory that is charged to the group: small and transparent huge pages, and those of a pool where they are
    charged and the kernel tells them (hugetlb of memory.stat, cgroup-v2.rst)."""
    return _charged(path, b"shmem", b"hugetlb")


def bytes_besides_kernel(path: Path) -> int:
    """What is charged to the group without the kernel's own memory, page tables among it: private memory (a page that
    processes share since a fork counts once), shared memory, page cache, and huge pages where they are charged.

    In memory.stat of version 2 these are anon, file and hugetlb (cgroup-v2.rst), of version 1 rss and cache
    (cgroup-v1/memory.rst).
    """
    return _charged(path, b"anon", b"file", b"hugetlb", b"rss", b"cache")


def swapped_bytes(path: Path) -> int | None:
    """Swap that is charged to the group, with that of its shared memory. None if the kernel does not account for it."""
    try:
        return int((path / "memory.swap.current").read_bytes())
    except FileNotFoundError:  # of version 1
        words = (path / "memory.stat").read_bytes().split()
        return next((int(value) for name, value in pairwise(words) if name == b"swap"), None)


def _charged(path: Path, *names: bytes) -> int:
    words = (path / "memory.stat").read_bytes().split()
    return sum(int(value) for name, value in pairwise(words) if name in names)


def remove(path: Path) -> bool:
    """Removes the group once its processes are gone; the kernel may need a moment. Whether it is gone."""
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while path.exists():
        with contextlib.suppress(OSError):
            (path / "memory.force_empty").write_text("0")
        with contextlib.suppress(OSError):
            path.rmdir()
            break
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _limit_file(path: Path) -> Path:
    version_1 = path / "memory.limit_in_bytes"
    return version_1 if version_1.exists() else path / "memory.max"

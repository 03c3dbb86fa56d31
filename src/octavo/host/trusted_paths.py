"""The paths on which an undo may act, whatever a journal says.

A value is written only below /proc/sys and /sys, where the cgroup hierarchies are too; a directory is removed only
below the home and the runtime directory. Links that another user could have created are not followed on the way there.
"""

import os
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from octavo.errors import HostError, OctavoError
from octavo.home import octavo_home, runtime_directory
from octavo.host.owner import owner_of

_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
# The kernel's files; tests plant others.
KERNEL_ROOTS: tuple[Path, ...] = (Path("/proc/sys"), Path("/sys"))


class NotOursError(OctavoError):
    """A journal names a place where no undo acts."""


def kernel_path(text: object) -> Path:
    """A file or group of the kernel's. Raises NotOursError for another place, also where a link leads to one."""
    path = _plain(text)
    if not any(
        _strictly_below(path, root) and _strictly_below(path.resolve(), root.resolve()) for root in KERNEL_ROOTS
    ):
        raise NotOursError(f"{path} is not a kernel file that Octavo changes")
    return path


def state_path(text: object) -> Path:
    """A place below the home or the runtime directory. Raises NotOursError for another one.

    Links on the way to it are of this user's or root's making; it itself may be none.
    """
    path = _plain(text)
    with _parent(path) as (_, real):
        if real is not None and real.is_symlink():
            raise NotOursError(f"{path} is a link; nothing is undone through one")
    return path


@contextmanager
def opened_parent(path: Path) -> Generator[tuple[int, Path] | None, None, None]:
    """The directory that the path is in, as a descriptor, with the path's real name; None where it is not there.

    Raises NotOursError as `state_path` does.
    """
    with _parent(path) as (descriptor, real):
        yield None if descriptor is None or real is None else (descriptor, real)


@contextmanager
def _parent(path: Path) -> Generator[tuple[int | None, Path | None], None, None]:
    root = next((root for root in _roots() if _strictly_below(path, root)), None)
    if root is None:
        raise NotOursError(f"{path} is not in {octavo_home()}, nor in the directory of its sockets")
    opened: list[int] = []
    try:
        try:
            opened.append(os.open(root, os.O_RDONLY | os.O_DIRECTORY))
            for part in path.relative_to(root).parts[:-1]:
                opened.append(_enter(opened[-1], part, path))
        except (FileNotFoundError, NotADirectoryError):  # below a file there is nothing either
            yield None, None
            return
        yield opened[-1], Path(f"/proc/self/fd/{opened[-1]}").readlink() / path.name
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _enter(inside: int, name: str, path: Path) -> int:
    """Opens a directory in a directory; through a link only where nobody else can have put it."""
    facts = os.stat(name, dir_fd=inside, follow_symlinks=False)
    if not stat.S_ISLNK(facts.st_mode):
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=inside)
    ours = (0, os.geteuid())
    around = os.fstat(inside)
    if owner_of(facts) not in ours or owner_of(around) not in ours or around.st_mode & _BY_OTHERS:
        raise NotOursError(f"{path}: {name} on the way to it is a link that others can have made")
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=inside)


def _roots() -> list[Path]:
    """The home and the runtime directory by the names they are called, and where links of ours in the home lead.

    Builds or datasets may be on another disk by such a link, and are noted by their real names.
    """
    home = octavo_home()
    roots = [home, home.resolve()]
    if home.is_dir():
        own = (Path(entry.path) for entry in os.scandir(home) if entry.is_symlink())
        roots += [link.resolve() for link in own if owner_of(link.lstat()) in (0, os.geteuid()) and link.is_dir()]
    with suppress(HostError):  # what is not ours alone has nothing of ours in it
        runtime = runtime_directory()
        roots += [runtime, runtime.resolve()]
    # Where a session has them by default: what is put back may have begun in a session and ends in another's.
    for place in (Path(f"/run/user/{os.geteuid()}/octavo"), Path(tempfile.gettempdir()) / f"octavo-{os.geteuid()}"):
        with suppress(OSError):
            facts = place.lstat()
            if stat.S_ISDIR(facts.st_mode) and owner_of(facts) == os.geteuid() and not facts.st_mode & _BY_OTHERS:
                roots.append(place)
    return roots


def _plain(text: object) -> Path:
    """An absolute path without `..`. Raises NotOursError for anything else."""
    if not isinstance(text, str) or "\0" in text or not text.startswith("/") or ".." in Path(text).parts:
        raise NotOursError(f"{text!r} is not a path in Octavo's journal")
    return Path(text)


def _strictly_below(path: Path, root: Path) -> bool:
    return path != root and path.is_relative_to(root)

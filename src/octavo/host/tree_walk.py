"""Walking a tree that others may change meanwhile: by open directories, never through a link."""

import os
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from octavo.host.careful_open import open_directory

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class WalkedDirectory:
    """A directory on a walk: its path in the tree (empty for the tree's own), its entries, and a descriptor of it.

    The walk continues into those `directories` that are still in the list, and closes the descriptor.
    """

    path: str
    directories: list[str]
    names: list[str]
    descriptor: int


def walk(tree: Path, *, strict: bool = False) -> Generator[WalkedDirectory, None, None]:
    """Every directory of the tree, each before those below it, however deep; never through a link.

    It uses few descriptors and no recursion: it goes back up by "..", or, if the directory was moved meanwhile, again
    from the top. Directories that cannot be opened are left out, or with `strict` raise OSError.
    """
    try:
        top = open_directory(tree)
    except OSError:
        if strict:
            raise
        return
    try:
        yield from walk_from(top, strict=strict)
    finally:
        os.close(top)


def walk_from(top: int, *, strict: bool = True) -> Generator[WalkedDirectory, None, None]:
    """The same, of an open directory."""
    here = os.dup(top)
    # Each directory from the top to the one that is open, with what is still to be visited in it.
    levels: list[_Level] = []
    name: str | None = ""
    try:
        while name is not None:
            path = f"{levels[-1].path}/{name}".lstrip("/") if levels else ""
            place = _look(here, path)
            yield place
            levels.append(_Level(name, path, _identity(here), place.directories[::-1]))
            name = None
            while levels and name is None:
                level = levels[-1]
                while level.waiting and name is None:
                    wanted = level.waiting.pop()
                    try:
                        below = os.open(wanted, _DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
                    except OSError:
                        if strict:
                            raise
                        continue
                    os.close(here)
                    here, name = below, wanted
                if name is None:
                    levels.pop()
                    if levels:
                        above = _above(here, levels, top)
                        os.close(here)
                        here = above
    finally:
        os.close(here)


@dataclass(frozen=True, slots=True)
class _Level:
    name: str
    path: str
    identity: tuple[int, int]
    waiting: list[str]


def _look(descriptor: int, path: str) -> WalkedDirectory:
    directories: list[str] = []
    names: list[str] = []
    with os.scandir(descriptor) as entries:
        for entry in entries:
            (directories if entry.is_dir(follow_symlinks=False) else names).append(entry.name)
    return WalkedDirectory(path, sorted(directories), sorted(names), descriptor)


def _above(here: int, levels: list[_Level], top: int) -> int:
    """A descriptor of the last of the levels, which `here` was opened in; those that are gone by now are left out."""
    with suppress(OSError):
        above = os.open("..", _DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
        if _identity(above) == levels[-1].identity:
            return above
        os.close(above)
    found = os.dup(top)
    for number, level in enumerate(levels[1:], 1):
        try:
            below = os.open(level.name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=found)
        except OSError:
            del levels[number:]
            break
        os.close(found)
        found = below
    return found


def _identity(descriptor: int) -> tuple[int, int]:
    facts = os.fstat(descriptor)
    return facts.st_dev, facts.st_ino

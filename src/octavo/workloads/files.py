"""A user's own files: what a plan calls them, what identifies them, and handing them to the servers' user."""

import functools
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO

from octavo.errors import UsageError
from octavo.home import make_directory, octavo_home
from octavo.host import trees
from octavo.host.children import Account
from octavo.host.journal import Journal

_PIECE = 1024**2
_base: ContextVar[Path | None] = ContextVar("directory that relative paths of levels start from", default=None)


@contextmanager
def relative_to(directory: Path) -> Generator[None, None, None]:
    """Within it, levels that are relative paths start from this directory (a plan's), not from the current one."""
    token = _base.set(directory.absolute())
    try:
        yield
    finally:
        _base.reset(token)


def absolute(text: str) -> Path:
    """The absolute path of a file or directory that is there and can be read. Raises UsageError."""
    path = (_base.get() or Path.cwd()) / Path(text).expanduser()
    path = Path(os.path.normpath(path))
    try:
        path.stat()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if not os.access(path, os.R_OK):
        raise UsageError(f"{path} cannot be read: permission denied")
    return path


def opened(path: Path) -> IO[bytes]:
    """The user's own file for reading. Raises UsageError for what is no regular file or cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.fdopen(descriptor, "rb")
        os.close(descriptor)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    raise UsageError(f"{path} is neither a file nor a directory of files")


def files_of(path: Path) -> list[Path]:
    """A file, or a directory's files, sorted. Raises UsageError for a directory that holds anything else.

    Links in it would lead to what whoever made the archive chose.
    """
    if not path.is_dir():
        return [path]
    found: list[Path] = []
    try:
        for place in trees.walk(path.resolve(), strict=True):
            for name in place.names:
                if not stat.S_ISREG(os.stat(name, dir_fd=place.descriptor, follow_symlinks=False).st_mode):
                    inside = trees.shown(Path(place.path, name))
                    raise UsageError(f"{path}: {inside} in it is no regular file; an archive may hold no links")
                found.append(path / place.path / name)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    return sorted(found)


def digest(path: Path) -> str:
    """The sha256 of a file, or of a directory's files with their names. Raises UsageError when it cannot be read."""
    try:
        facts = tuple(
            (str(file), file.stat().st_size, file.stat().st_mtime_ns, file.stat().st_ino) for file in files_of(path)
        )
        return _digest(path, facts)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def size_of(path: Path) -> int:
    """Bytes of a file, or of a directory's files. Raises UsageError as `files_of` does."""
    return sum(file.stat().st_size for file in files_of(path))


@contextmanager
def readable_place(name: str, journal: Journal, account: Account) -> Generator[Path, None, None]:
    """A directory that only we may write and the account may look into, gone at the end."""
    directory = make_directory(octavo_home() / "scratch") / f"{name}-{secrets.token_hex(4)}"
    entry = journal.record("directory", path=str(directory))
    try:
        yield trees.make_readable(directory, account)
    finally:
        if trees.remove(directory):
            journal.done(entry)


@contextmanager
def lent(paths: Sequence[Path], journal: Journal, account: Account) -> Generator[list[Path], None, None]:
    """Copies that the account may read, whoever owns the originals, and only we may write. They are gone at the end.

    Raises UsageError for a directory that holds links or anything else but files and directories.
    """
    with readable_place("lent", journal, account) as directory:
        copies = [directory / str(number) / path.name for number, path in enumerate(paths)]
        for path, copy in zip(paths, copies, strict=True):
            trees.make_readable(copy.parent, account)
            for file in files_of(path):
                _lend(file, copy / file.relative_to(path), copy.parent, account)
        yield copies


def _lend(original: Path, copy: Path, top: Path, account: Account) -> None:
    """Copies one file, with the directories above it up to `top`."""
    for parent in reversed(copy.relative_to(top).parents):
        if not (top / parent).exists():
            trees.make_readable(top / parent, account)
    with opened(original) as source, os.fdopen(trees.new_readable(copy, account), "wb") as target:
        shutil.copyfileobj(source, target, _PIECE)


@functools.lru_cache(maxsize=64)
def _digest(path: Path, facts: tuple[tuple[str, int, int, int], ...]) -> str:
    """Read once while names, sizes, times and inodes stay: a large archive is asked for by every cell."""
    whole = hashlib.sha256()
    for name, size, *_ in facts:
        if path.is_dir():
            whole.update(f"{Path(name).relative_to(path)}\0{size}\0".encode())
        with opened(Path(name)) as file:
            while piece := file.read(_PIECE):
                whole.update(piece)
    return whole.hexdigest()

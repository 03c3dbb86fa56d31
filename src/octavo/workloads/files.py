"""A user's own files: what a plan calls them, what identifies them, and handing them to the servers' user."""

import functools
import hashlib
import os
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from octavo.errors import UsageError
from octavo.home import make_directory
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


def digest(path: Path) -> str:
    """The sha256 of a file, or of a directory's files with their names. Raises UsageError when it cannot be read."""
    try:
        files = sorted(entry for entry in path.rglob("*") if entry.is_file()) if path.is_dir() else [path]
        facts = tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns, file.stat().st_ino) for file in files)
        return _digest(path, facts)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def size_of(path: Path) -> int:
    """Bytes of a file, or of a directory's files."""
    return sum(entry.stat().st_size for entry in (path.rglob("*") if path.is_dir() else [path]) if entry.is_file())


@contextmanager
def lent(paths: list[Path], place: Path, journal: Journal, account: Account) -> Generator[list[Path], None, None]:
    """Copies that the account may read, whoever owns the originals, in a directory that is gone at the end."""
    directory = make_directory(place) / f"lent-{secrets.token_hex(4)}"
    entry = journal.record("directory", path=str(directory))
    try:
        directory.mkdir(mode=0o700)
        copies = [directory / str(number) / path.name for number, path in enumerate(paths)]
        for path, copy in zip(paths, copies, strict=True):
            copy.parent.mkdir(mode=0o700)
            if path.is_dir():
                shutil.copytree(path, copy)
            else:
                shutil.copyfile(path, copy)
        if os.geteuid() == 0:
            for path in (directory, *directory.rglob("*")):
                os.chown(path, account.uid, account.gid)
        yield copies
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        journal.done(entry)


@functools.lru_cache(maxsize=64)
def _digest(path: Path, facts: tuple[tuple[str, int, int, int], ...]) -> str:
    """Read once while names, sizes, times and inodes stay: a large archive is asked for by every cell."""
    whole = hashlib.sha256()
    for name, size, *_ in facts:
        if path.is_dir():
            whole.update(f"{Path(name).relative_to(path)}\0{size}\0".encode())
        with Path(name).open("rb") as file:
            while piece := file.read(_PIECE):
                whole.update(piece)
    return whole.hexdigest()

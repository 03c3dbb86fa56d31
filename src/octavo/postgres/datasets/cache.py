"""The cache of loads: one directory each, which appears under its name only once it is complete.

A process that needs a load holds a shared lock on it (flock(2)); one that makes or removes it holds an exclusive lock.
A lock ends with its process, and its file is removed with the load.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from octavo.errors import OctavoError, UsageError
from octavo.home import lock_file, make_directory, octavo_home
from octavo.host import published
from octavo.host.journal import Journal

# The locks of this process on loads that it uses, by the lock's path.
_held: dict[Path, IO[str]] = {}


@dataclass(frozen=True, slots=True)
class Load:
    """A finished load in the cache. `last_used`: when it was made or last copied (epoch)."""

    name: str
    path: Path
    manifest: dict[str, Any]
    last_used: float

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return int(self.manifest["directory_bytes"])

    @property
    def identity(self) -> str:
        """Equal only for copies of a load: the time that it took to make, in its manifest, is practically random."""
        return hashlib.sha256(json.dumps(self.manifest, sort_keys=True).encode()).hexdigest()[:16]


def datasets_directory() -> Path:
    """The directory of the loads."""
    return octavo_home() / "datasets"


def log_path(name: str) -> Path:
    """The log of the server that makes a load. It is next to the load, because a failed load is removed."""
    return datasets_directory() / f"{name}.log"


def read_load(name: str) -> Load | None:
    """The load of this name, if it is finished."""
    path = datasets_directory() / name
    found = published.read(path)
    return None if found is None else Load(name, path, *found)


def list_loads() -> list[Load]:
    """The finished loads, by name."""
    return [load for name in published.names(datasets_directory()) if (load := read_load(name)) is not None]


def by_name(name: str) -> Load:
    """The load of this name. Raises UsageError when there is none."""
    load = None if "/" in name or name.startswith(".") else read_load(name)
    if load is None:
        raise UsageError(f"there is no dataset {name}; octavo cache ls shows their names")
    return load


def hold(name: str, *, wait: bool = True) -> Load | None:
    """Locks the load against removal until this process releases it or ends, and returns it; None when it does not
    exist.

    If another process is making it, waits for that, or returns None without `wait`.
    """
    place = _lock_path(name)
    if place in _held:
        if load := read_load(name):
            return load
        release(name)  # it was removed by hand: whoever makes it again must not wait for our lock
    if not wait and read_load(name) is None:
        return None
    try:
        lock = _locked(place, fcntl.LOCK_SH, wait=wait)
    except BlockingIOError:
        return None
    if load := read_load(name):
        _held[place] = lock
    else:
        lock.close()
    return load


def held() -> list[str]:
    """The names of the loads that this process holds."""
    return [_name_of_lock(place) for place in _held]


def release(name: str) -> None:
    """Releases a load that this process held."""
    if lock := _held.pop(_lock_path(name), None):
        lock.close()


def is_used(name: str) -> bool:
    """Whether any process, including this one, holds the load or makes it."""
    try:
        with exclusively(name, wait=False):
            return False
    except OctavoError:
        return True


@contextmanager
def exclusively(name: str, *, wait: bool = True) -> Generator[None, None, None]:
    """Holds the lock for making or removing this load. Raises OctavoError when it is in use and `wait` is false.

    The lock's file goes with its load: if there is none at the end, it is removed.
    """
    place = _lock_path(name)
    try:
        lock = _locked(place, fcntl.LOCK_EX, wait=wait)
    except BlockingIOError:
        raise OctavoError(f"{name} is in use; try again when the run that needs it has ended") from None
    with lock:
        try:
            yield
        finally:
            if read_load(name) is None:
                place.unlink(missing_ok=True)


@contextmanager
def unpublished(name: str, journal: Journal) -> Generator[Path, None, None]:
    """Yields a hidden directory, which is removed at the end unless it was published under its name."""
    with published.unpublished(datasets_directory(), name, journal) as work:
        yield make_directory(work)


def remove(load: Load, journal: Journal) -> int:
    """Removes a load. Returns the bytes freed. Raises OctavoError when it is in use."""
    with exclusively(load.name, wait=False):
        if read_load(load.name) is None:
            return 0
        published.remove(load.path, journal)
        log_path(load.name).unlink(missing_ok=True)
    return load.size


def remove_left_locks() -> None:
    """Removes the files of locks that no process holds and that have no load, such as those of a killed process."""
    for place in datasets_directory().glob(".*.lock"):
        if read_load(_name_of_lock(place)) is None:
            is_used(_name_of_lock(place))


def _locked(place: Path, operation: int, *, wait: bool) -> IO[str]:
    """The lock's file, locked. Raises BlockingIOError when it is locked and `wait` is false.

    Whoever had the lock before may have removed the file: then it is made again, because others lock what has its name.
    """
    make_directory(place.parent)
    while True:
        lock = lock_file(place)
        try:
            fcntl.flock(lock, operation if wait else operation | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock.fileno()), place.lstat()):
                    return lock
        except BaseException:
            lock.close()
            raise
        lock.close()


def _lock_path(name: str) -> Path:
    return datasets_directory() / f".{name}.lock"


def _name_of_lock(place: Path) -> str:
    return place.name.removeprefix(".").removesuffix(".lock")

"""A directory of files that atomically replaces an earlier one, and nothing else.

The files are written next to it, in a directory that only we can enter, and the two are exchanged by one system call if
the kernel and the filesystem support it (renameat2(2), RENAME_EXCHANGE). Readers see the old site or the new one.

A call that is killed leaves its directory, which the next call for the same target removes: its name is of our pattern,
its marker names it, it contains nothing that a site does not have, and no process holds its lock (flock(2)).
"""

import ctypes
import errno
import fcntl
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from octavo.errors import HostError
from octavo.home import changer_of, resolve_by_steps
from octavo.host.owner import owner_of
from octavo.host.safe_read import read_text
from octavo.report.text_file import make_directory_for_files, refuse_planted

MARKER = "octavo-site.json"
_MADE_BY = "octavo report --site"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_LONGEST_MARKER = 10_000_000
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# The marker while it is replaced, and what a site that is being written contains.
_NEXT_MARKER = f"{MARKER}.new"
_UNFINISHED = re.compile(rf"(runs|compare)(/[^/]+\.html)?|[^/]+\.html|{re.escape(MARKER)}(\.new)?")


@contextmanager
def replacing_directory(target: Path) -> Generator[Path, None, None]:
    """A new directory to write into, which takes the place of `target` at the end; on an error nothing changes.

    Removes the directories that killed calls for this target left. Raises HostError where there is something at
    `target` that an earlier site does not have.
    """
    target = target.absolute()
    _refuse_changeable(target.parent)  # before anything is made through what others have put there
    make_directory_for_files(target.parent)
    _refuse_changeable(target.parent)
    refuse_foreign(target)
    _remove_leftovers(target)
    try:
        beside, lock = _make_beside(target)
    except OSError as error:
        raise HostError(f"{target} cannot be written: {error.strerror}; name a directory that you may write") from error
    try:
        (beside / MARKER).write_text(json.dumps({"made_by": _MADE_BY, "unfinished": beside.name}))
        yield beside
        content = {"made_by": _MADE_BY, "files": sorted({*_files(beside)} - {MARKER})}
        (beside / _NEXT_MARKER).write_text(json.dumps(content, indent=1))
        (beside / _NEXT_MARKER).replace(beside / MARKER)
        beside.chmod(0o755)
        refuse_foreign(target)
        _put(beside, target)
    except OSError as error:
        raise HostError(f"{target} cannot be written: {error.strerror}; is there room on the disk?") from error
    finally:
        with suppress(OSError):  # the new one that was not finished, or the one that it replaced
            _remove(beside)
        os.close(lock)


def _make_beside(target: Path) -> tuple[Path, int]:
    """A new directory beside the target, and a descriptor that holds its lock. Raises OSError."""
    while True:
        beside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".new", dir=target.parent))
        try:
            descriptor = os.open(beside, _DIRECTORY)
        except FileNotFoundError:  # another call removed it before it was locked
            continue
        with suppress(OSError):  # a filesystem without locks, where no call removes another's directory
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_at(descriptor, beside):
            return beside, descriptor
        os.close(descriptor)


def _remove_leftovers(target: Path) -> None:
    """Removes what killed calls for the same target left beside it; what cannot be read or removed stays."""
    ours = re.compile(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}\.new")
    with suppress(OSError):
        for path in list(target.parent.iterdir()):
            if ours.fullmatch(path.name):
                with suppress(OSError):
                    _remove_leftover(path)


def _remove_leftover(leftover: Path) -> None:
    """Removes it if it is certain to be a leftover, and not in use. Raises OSError otherwise, or returns."""
    descriptor = os.open(leftover, _DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held by the call that writes it
        if (
            owner_of(os.fstat(descriptor)) == os.geteuid()
            and _is_at(descriptor, leftover)  # it may have become the site meanwhile
            and _is_leftover(Path(f"/proc/self/fd/{descriptor}"), leftover.name)
        ):
            _empty(descriptor)
            leftover.rmdir()
    finally:
        os.close(descriptor)


def _is_leftover(directory: Path, name: str) -> bool:
    """Whether the directory with this name is a site that was not finished, or an earlier site that was not wholly
    removed; one that was killed at its beginning has at most a marker."""
    present = set(_files(directory))
    if present <= {MARKER}:
        return True
    if _marker(directory).get("unfinished") == name:
        return all(_UNFINISHED.fullmatch(file) for file in present)
    made = _made(directory)
    return present <= made | {str(parent) for file in made for parent in Path(file).parents}


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the path leads to the open directory, not through a link."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove(directory: Path) -> None:
    """Removes a directory and everything below it, never through a link. Raises OSError."""
    descriptor = os.open(directory, _DIRECTORY)
    try:
        _empty(descriptor)
    finally:
        os.close(descriptor)
    directory.rmdir()


def _empty(descriptor: int) -> None:
    """Removes everything in the open directory, the marker last, so that what a kill leaves is still known as ours."""
    for where, directories, files, here in os.fwalk(".", topdown=False, dir_fd=descriptor):
        for name in (*files, *directories):
            if where == "." and name == MARKER:
                continue
            with suppress(OSError):
                if stat.S_ISDIR(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
                    os.rmdir(name, dir_fd=here)
                else:
                    os.unlink(name, dir_fd=here)
    if os.listdir(descriptor) == [MARKER]:
        os.unlink(MARKER, dir_fd=descriptor)


def _refuse_changeable(directory: Path) -> None:
    """As root: raises HostError when others can put a link in the place of the directory that is written, or above it.

    The pages are written by path, below a name that whoever may list and rename there finds at once.
    """
    if os.geteuid() != 0:
        return

    def look(step: Path) -> None:
        with suppress(FileNotFoundError):
            if (why := changer_of(step.lstat(), {0})) is not None:
                reason = f"{directory}: {step} {why}, who could make root write elsewhere"
                raise HostError(f"{reason}; name another directory")

    try:
        resolve_by_steps(directory, look, str(directory))
    except OSError as error:
        raise HostError(f"{directory} cannot be read: {error.strerror}; name another directory") from error


def refuse_foreign(target: Path) -> None:
    """Raises HostError unless there is nothing at `target`, an empty directory of ours, or a site with nothing else."""
    refuse_planted(target)
    try:
        facts = target.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise HostError(f"{target} cannot be read: {error.strerror}; name another directory") from error
    if not stat.S_ISDIR(facts.st_mode):
        what = "a link" if stat.S_ISLNK(facts.st_mode) else "no directory"
        raise HostError(f"{target} is {what}; name a directory that is empty or does not exist")
    if (owner := owner_of(facts)) != os.geteuid():
        raise HostError(f"{target} belongs to user {owner}; name a directory of your own")
    present = set(_files(target))
    strange = sorted(present - _made(target))
    if strange:
        raise HostError(
            f"{target} has files that --site did not write ({strange[0]}{' and others' if len(strange) > 1 else ''}); "
            "name a directory that is empty or does not exist"
        )


def _made(target: Path) -> set[str]:
    """The files that an earlier site says it has; none where there is no such list."""
    names = _marker(target).get("files")
    if not isinstance(names, list):
        return set()
    return {MARKER, *(name for name in cast(list[object], names) if isinstance(name, str))}


def _marker(directory: Path) -> dict[str, Any]:
    """The content of its marker; empty where there is none of ours."""
    try:
        content: object = json.loads(read_text(directory / MARKER, _LONGEST_MARKER))
    except (OSError, ValueError, RecursionError):
        return {}
    found = cast(dict[str, Any], content) if isinstance(content, dict) else {}
    return found if found.get("made_by") == _MADE_BY else {}


def _files(directory: Path) -> Iterator[str]:
    """Every file below a directory, and every empty directory, by its path there; links are not followed."""
    for path, directories, files in os.walk(directory, followlinks=False):
        here = Path(path).relative_to(directory)
        links = [name for name in directories if (Path(path) / name).is_symlink()]
        yield from (str(here / name) for name in [*files, *links])
        if not (directories or files) and here != Path():
            yield str(here)


def _put(beside: Path, target: Path) -> None:
    """Puts one directory in the place of the other, and the other where the first was. Raises OSError."""
    if not target.exists():
        beside.rename(target)
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "renameat2"):
        done = libc.renameat2(_AT_FDCWD, os.fsencode(beside), _AT_FDCWD, os.fsencode(target), _RENAME_EXCHANGE)
        if done == 0:
            return
        number = ctypes.get_errno()
        if number not in (errno.ENOSYS, errno.EINVAL):
            raise OSError(number, os.strerror(number))
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent))
    try:
        target.rename(old / "site")
        beside.rename(target)
    except OSError:
        with suppress(FileNotFoundError):  # which it is if it was not moved
            (old / "site").rename(target)
        old.rmdir()
        raise
    # Only now: until then, also for Ctrl-C, it is the only site.
    shutil.rmtree(old, ignore_errors=True)

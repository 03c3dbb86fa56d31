"""A directory of files that atomically replaces an earlier one, and nothing else.

The files are written next to it, in a directory that only we can enter, and the two are exchanged by one system call if
the kernel and the filesystem support it (renameat2(2), RENAME_EXCHANGE). Readers see the old site or the new one.
"""

import ctypes
import errno
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from octavo.errors import HostError
from octavo.home import changer_of, resolve_by_steps
from octavo.host.owner import owner_of
from octavo.host.safe_read import read_text
from octavo.report.text_file import make_directory_for_files, refuse_planted

MARKER = "octavo-site.json"
_MADE_BY = "octavo report --site"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_LONGEST_MARKER = 10_000_000


@contextmanager
def replacing_directory(target: Path) -> Generator[Path, None, None]:
    """A new directory to write into, which takes the place of `target` at the end; on an error nothing changes.

    Raises HostError where there is something at `target` that an earlier site does not have.
    """
    target = target.absolute()
    _refuse_changeable(target.parent)  # before anything is made through what others have put there
    make_directory_for_files(target.parent)
    _refuse_changeable(target.parent)
    refuse_foreign(target)
    try:
        beside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".new", dir=target.parent))
    except OSError as error:
        raise HostError(f"{target} cannot be written: {error.strerror}; name a directory that you may write") from error
    try:
        yield beside
        (beside / MARKER).write_text(json.dumps({"made_by": _MADE_BY, "files": sorted(_files(beside))}, indent=1))
        beside.chmod(0o755)
        refuse_foreign(target)
        _put(beside, target)
    except OSError as error:
        raise HostError(f"{target} cannot be written: {error.strerror}; is there room on the disk?") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)  # the new one that was not finished, or the one that it replaced


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
    try:
        content: object = json.loads(read_text(target / MARKER, _LONGEST_MARKER))
    except (OSError, ValueError, RecursionError):
        return set()
    if not isinstance(content, dict):
        return set()
    made = cast(dict[str, object], content)
    names = made.get("files")
    if made.get("made_by") != _MADE_BY or not isinstance(names, list):
        return set()
    return {MARKER, *(name for name in cast(list[object], names) if isinstance(name, str))}


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
    target.rename(old / "site")
    try:
        beside.rename(target)
    except OSError:
        (old / "site").rename(target)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)

"""A user's own files: their names in a plan, what identifies them, and handing them to the servers' user."""

import errno
import functools
import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO

from octavo.errors import HostError, UsageError
from octavo.home import changer_of_file, resolve_by_steps
from octavo.host import careful_open, children, session_keys, tree_walk, trees
from octavo.host.children import Account
from octavo.host.copy_out import open_below
from octavo.host.in_time import in_time
from octavo.host.journal import Journal
from octavo.host.kernel_text import shown
from octavo.host.owner import NOBODY, owner_of

_PIECE = 1024**2
_base: ContextVar[Path | None] = ContextVar("base directory for relative paths in levels", default=None)
_authors: ContextVar[Collection[int]] = ContextVar("users who can change what names the files", default=())
_LOOK_SECONDS = 60


@contextmanager
def relative_to(directory: Path, authors: Collection[int] = ()) -> Generator[None, None, None]:
    """Within it, levels that are relative paths start from this directory (a plan's), not from the current one.

    `authors` are the users besides root who can change the plan: it cannot name files that they may not read, because
    the servers get these files, and other files of the plan may run programs there.
    """
    base, writers = _base.set(directory.absolute()), _authors.set(authors)
    try:
        yield
    finally:
        _base.reset(base)
        _authors.reset(writers)


def authors_of(plan: Path) -> list[int]:
    """For root: the users who can change a plan's file, or put another one there; nobody for a place that is open to
    many, or for a file that does not exist. Raises UsageError when it cannot be read."""
    found: list[int] = []

    def look(step: Path) -> None:
        facts = step.lstat()
        if changer_of_file(facts, {0}):
            found.append(owner_of(facts) or NOBODY)

    if os.geteuid() == 0:
        try:
            resolve_by_steps(plan.absolute(), look, str(plan))
        except FileNotFoundError:  # who reads it says so; if it comes before that, anybody may have put it there
            found.append(NOBODY)
        except OSError as error:
            raise UsageError(f"{plan} cannot be read: {error.strerror}") from None
        except HostError:
            raise UsageError(f"{plan} cannot be read: it is a link to itself") from None
        except ValueError:
            raise UsageError(f"{plan} cannot be read: it is not the name of a file") from None
    return sorted(set(found))


def absolute(text: str) -> Path:
    """The absolute path of a file or directory that is there and can be read. Raises UsageError."""
    if "\0" in text:
        raise UsageError("a path cannot hold a null character")
    try:
        path = (_base.get() or Path.cwd()) / Path(text).expanduser()
    except RuntimeError:  # ~ of a user who has no home
        raise UsageError(f"{text} cannot be read: no such home directory") from None
    path = Path(os.path.normpath(path))
    try:
        path.stat()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if not os.access(path, os.R_OK):
        raise UsageError(f"{path} cannot be read: permission denied")
    for uid in _authors.get():
        _check_readable_by(children.owner_account(uid), path)
    return path


def _check_readable_by(account: Account, path: Path) -> None:
    """Raises UsageError unless the user may read the file, or all files of the directory."""
    groups = "--clear-groups" if account.gid == NOBODY else "--init-groups"
    rights = ["setpriv", "--no-new-privs", f"--reuid={account.uid}", f"--regid={account.gid}", groups, "--"]

    def look() -> "subprocess.CompletedProcess[bytes]":
        session_keys.leave()  # the user may trace what runs as the user
        return subprocess.run(
            [*rights, "find", "-H", path, "!", "-readable", "-print", "-quit"],
            capture_output=True, check=False, timeout=_LOOK_SECONDS, cwd="/", env={"PATH": children.PLAIN_PATH},
        )  # fmt: skip

    try:
        found = in_time(look, 2 * _LOOK_SECONDS)  # in a thread, which alone leaves its keys
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{path} cannot be examined as {account.name}: {error}") from None
    if found.returncode != 0 or found.stdout:
        raise UsageError(
            f"{account.name} can change the plan that names {path}, but may not read it; have the plan and its "
            "directory belong to root alone"
        )


def opened(path: Path) -> IO[bytes]:
    """The user's own file for reading; never through a link that others could have created (`careful_open`).

    Raises UsageError for such a link, and if the file is not regular or cannot be read.
    """
    try:
        return os.fdopen(careful_open.open_file(path), "rb")
    except OSError as error:
        raise _refusal(path, error) from None


def _refusal(path: Path, error: OSError) -> UsageError:
    if error.errno == errno.EINVAL:
        return UsageError(f"{path} is neither a file nor a directory of files")
    if error.errno == errno.ELOOP:
        return UsageError(f"{path} is reached through another user's symbolic link; name the file itself")
    return UsageError(f"{path} cannot be read: {error.strerror}")


def each(path: Path) -> Generator[tuple[str, int], None, None]:
    """A file, or a directory's files in order: its path below the directory (of a file: nothing) and a descriptor.

    Each is opened once, and checked and read by that descriptor, which is closed when the next one is requested, so
    renames meanwhile do not matter. Raises UsageError for unreadable files, and for a directory that contains anything
    but files and directories, because the archive's author could choose where its links lead.
    """
    if not path.is_dir():
        with opened(path) as file:
            yield "", file.fileno()
        return
    try:
        top = careful_open.open_directory(path)
    except OSError as error:
        raise _refusal(path, error) from None
    try:
        for name in _names(path, top):
            descriptor = open_below(top, name)
            try:
                _check_regular(path, name, os.fstat(descriptor))
                yield name, descriptor
            finally:
                os.close(descriptor)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    finally:
        os.close(top)


def _names(path: Path, top: int) -> list[str]:
    names: list[str] = []
    for place in tree_walk.walk_from(top):
        for name in place.names:
            inside = f"{place.path}/{name}".lstrip("/")
            _check_regular(path, inside, os.stat(name, dir_fd=place.descriptor, follow_symlinks=False))
            names.append(inside)
    return sorted(names, key=lambda name: name.split("/"))


def _check_regular(path: Path, inside: str, facts: os.stat_result) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise UsageError(f"{path}: {shown(inside)} in it is not a regular file; archives must not contain links")


def digest(path: Path) -> str:
    """The sha256 of a file, or of a directory's files with their names. Raises UsageError when it cannot be read."""
    return _digest(path, tuple(_facts(name, descriptor) for name, descriptor in each(path)))


def size_of(path: Path) -> int:
    """Bytes of a file, or of a directory's files. Raises UsageError as `each` does."""
    return sum(os.fstat(descriptor).st_size for _, descriptor in each(path))


@contextmanager
def lent(paths: Sequence[Path], journal: Journal, account: Account) -> Generator[list[Path], None, None]:
    """Copies that the account may read, whoever owns the originals, and only we may write. They are gone at the end.

    Raises UsageError for a directory that holds links or anything else but files and directories.
    """
    with trees.readable_scratch("lent", journal, account) as directory:
        copies = [directory / str(number) / path.name for number, path in enumerate(paths)]
        for path, copy in zip(paths, copies, strict=True):
            trees.make_readable(copy.parent, account)
            for name, descriptor in each(path):
                _lend(descriptor, copy / name, copy.parent, account)
        yield copies


def _lend(original: int, copy: Path, top: Path, account: Account) -> None:
    """Copies one open file, with the directories above it up to `top`."""
    for parent in reversed(copy.relative_to(top).parents):
        if not (top / parent).exists():
            trees.make_readable(top / parent, account)
    with (
        os.fdopen(original, "rb", closefd=False) as source,
        os.fdopen(trees.new_readable(copy, account), "wb") as target,
    ):
        shutil.copyfileobj(source, target, _PIECE)


_Facts = tuple[str, int, int, int]


def _facts(name: str, descriptor: int) -> _Facts:
    facts = os.fstat(descriptor)
    return name, facts.st_size, facts.st_mtime_ns, facts.st_ino


@functools.lru_cache(maxsize=64)
def _digest(path: Path, facts: tuple[_Facts, ...]) -> str:
    """Read once while names, sizes, times and inodes stay: a large archive is asked for by every cell."""
    whole = hashlib.sha256()
    read: list[_Facts] = []
    for name, descriptor in each(path):
        read.append(_facts(name, descriptor))
        if name:
            whole.update(f"{name}\0{read[-1][1]}\0".encode(errors="surrogateescape"))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            while piece := file.read(_PIECE):
                whole.update(piece)
    if tuple(read) != facts:
        raise UsageError(f"{path} changed while it was read; try again")
    return whole.hexdigest()

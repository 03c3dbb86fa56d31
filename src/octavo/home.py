"""Locations of state: builds, datasets, runs and the journal below one directory, sockets in another.

State contains users' data: the servers' user may enter the home, because it needs builds and datasets, but may not list
it, and other files are readable by their owner alone.
"""

import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from octavo.errors import HostError
from octavo.host.owner import owner_of

# A Unix socket's path holds 107 bytes and a terminator (unix(7), sun_path).
SOCKET_PATH_LIMIT = 107

# What others may do with the home: enter it.
_HOME_MODE = 0o711
# What is in it for its owner alone, and where the accounts work: entered by who knows a name, listed by nobody else.
_OWN_MODES = {
    "fleet": 0o700, "journal": 0o700, "kept-trials": 0o700, "runs": 0o700, "set-aside-trials": 0o700,
    "sources": 0o700, "work": 0o711, "scratch": 0o711,
}  # fmt: skip
_STORE = "octavo.sqlite"
_MOST_LINKS = 40  # as many as the kernel follows (path_resolution(7))
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def octavo_home() -> Path:
    """The state directory: OCTAVO_HOME, else /var/lib/octavo for root, else below the XDG data home.

    For root without a link in it, so that it stays the directory that was checked. Raises HostError when OCTAVO_HOME
    is something else, when other users can put builds or anything else there, for root also when they can change a
    directory on the way, and for a user without a home directory.
    """
    chosen = os.environ.get("OCTAVO_HOME")
    if chosen and os.path.lexists(chosen) and not Path(chosen).is_dir():
        raise HostError(
            f"OCTAVO_HOME={chosen} is not a directory; set it to one, or to a path where one can be created"
        )
    if os.geteuid() == 0:
        return _roots_alone(Path(chosen or "/var/lib/octavo").absolute())
    if chosen:
        return _own_home(Path(chosen).absolute())
    try:
        data_home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    except RuntimeError:  # as in a container that runs as any user
        raise HostError(
            f"user {os.geteuid()} has no home directory; set OCTAVO_HOME to a directory of its own"
        ) from None
    return Path(data_home) / "octavo"


def _roots_alone(home: Path) -> Path:
    """The home as it really is, without links. Raises HostError unless it, every directory on the way and every link is
    root's, and others cannot change the directories' entries.

    Who can rename a directory above, or make a link anew, has another one there in its place. Above, one such as /tmp
    will do, where nobody renames what is another's; the home itself is none, as anybody could make what is missing.
    """
    found = resolve_by_steps(home, lambda step: _check_roots(home, step), f"OCTAVO_HOME={home}")
    with suppress(FileNotFoundError):
        if found.lstat().st_mode & _WRITABLE_BY_OTHERS:
            raise _open_to_all(home)
    return found


def _own_home(home: Path) -> Path:
    """The home that a user names. Raises HostError when it is another user's, or all may write there: what is run from
    there would be what they have put there."""
    with suppress(FileNotFoundError):
        facts = home.stat()
        if (owner := owner_of(facts)) not in {0, os.geteuid()}:
            raise HostError(f"OCTAVO_HOME={home} belongs to user {owner}; name a directory of your own")
        if facts.st_mode & stat.S_IWOTH:
            raise _open_to_all(home)
    return home


def _open_to_all(home: Path) -> HostError:
    return HostError(f"OCTAVO_HOME={home} may be written by others, who could put builds there; name a directory in it")


def changer_of(facts: os.stat_result, trusted: Collection[int]) -> str | None:
    """Why others than these users can put something else in the place of a step (`resolve_by_steps`), None if not."""
    if (owner := owner_of(facts)) not in trusted:
        return f"belongs to user {owner}" if owner == facts.st_uid else f"is in a filesystem that user {owner} mounted"
    if stat.S_ISDIR(facts.st_mode) and facts.st_mode & _WRITABLE_BY_OTHERS and not facts.st_mode & stat.S_ISVTX:
        return "is writable by others"
    return None


def changer_of_file(facts: os.stat_result, trusted: Collection[int]) -> str | None:
    """The same for a step that may be a file: why others can change it or its contents."""
    if why := changer_of(facts, trusted):
        return why
    is_open = stat.S_ISREG(facts.st_mode) and facts.st_mode & _WRITABLE_BY_OTHERS
    return "is writable by others" if is_open else None


def resolve_by_steps(path: Path, look: Callable[[Path], None], name: str) -> Path:
    """The absolute path without links, as the kernel walks it (path_resolution(7)); components that do not exist yet
    are kept.

    `look` is called for each link and directory on the way, and for the target. Raises HostError, with `name` for the
    path, for more links than the kernel follows, and whatever `look` raises.
    """
    here = Path("/")
    waiting = list(path.parts[:0:-1])
    links = 0
    look(here)
    while waiting:
        part = waiting.pop()
        if part == "..":
            here = here.parent
            continue
        try:
            target = str((here / part).readlink())
        except OSError:  # no link, or not there yet
            here /= part
        else:
            if (links := links + 1) > _MOST_LINKS:
                raise HostError(f"{name} has too many levels of symbolic links; use another path")
            look(here / part)
            here = Path("/") if target.startswith("/") else here
            waiting += [word for word in reversed(target.split("/")) if word not in ("", ".")]
        look(here)
    return here


def _check_roots(home: Path, step: Path) -> None:
    with suppress(FileNotFoundError):
        facts = step.lstat()
        if (why := changer_of(facts, {0})) is None:
            return
        if stat.S_ISLNK(facts.st_mode):
            raise HostError(f"OCTAVO_HOME={home}: {step} is a link of user {owner_of(facts)}'s; name another")
        raise HostError(f"OCTAVO_HOME={home}: {step} {why}, who could get root's rights by it; use another directory")


def secure_home() -> None:
    """Tightens a home of ours that an earlier version, or a careless hand, has left open; never loosens it.

    A directory that holds no journal of ours is none.
    """
    home = octavo_home()
    if not _is_own(home / "journal", stat.S_ISDIR):
        return
    if _is_own(home, stat.S_ISDIR):
        _tighten(home, _HOME_MODE)
    for name, mode in _OWN_MODES.items():
        if _is_own(home / name, stat.S_ISDIR):
            _tighten(home / name, mode)
    for name in (_STORE, f"{_STORE}-wal", f"{_STORE}-shm"):
        if _is_own(home / name, stat.S_ISREG):
            _tighten(home / name, 0o600)


def _is_own(path: Path, kind: Callable[[int], bool]) -> bool:
    """Whether that is there, of this kind (a function of `stat`), no link, and this user's."""
    try:
        facts = path.lstat()
    except OSError:
        return False
    return kind(facts.st_mode) and owner_of(facts) == os.geteuid()


def _tighten(path: Path, most: int) -> None:
    """Takes away the rights beyond these, through a descriptor that is no link's."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if mode & ~most:
            os.fchmod(descriptor, mode & most)
    finally:
        os.close(descriptor)


def runtime_directory() -> Path:
    """The directory for sockets and the run lock, made where it is not: /run/octavo for root, else the XDG one.

    The servers' user may enter root's. Raises HostError when it is not this user's own, or others may write there.
    """
    if os.geteuid() == 0:
        return _own_directory(Path("/run/octavo"), 0o711)
    if chosen := os.environ.get("XDG_RUNTIME_DIR"):
        return _own_directory(Path(chosen) / "octavo", 0o700)
    return _own_directory(Path(tempfile.gettempdir()) / f"octavo-{os.geteuid()}", 0o700)


def _own_directory(path: Path, mode: int) -> Path:
    """The directory, made where it is not. Raises HostError when somebody else made it, or may write into it."""
    try:
        with suppress(FileExistsError):
            path.mkdir(mode=mode, parents=True)
        facts = path.lstat()
    except OSError as error:
        raise HostError(f"cannot make {path}: {error.strerror}; set XDG_RUNTIME_DIR to a directory of yours") from error
    if not stat.S_ISDIR(facts.st_mode):
        why = "is not a directory"
    elif (owner := owner_of(facts)) != os.geteuid():
        why = f"belongs to user {owner}"
    elif facts.st_mode & _WRITABLE_BY_OTHERS:
        why = f"is writable by others (mode {stat.S_IMODE(facts.st_mode):04o})"
    else:
        _tighten(path, mode)
        return path
    raise HostError(f"{path} {why}; remove it, or set XDG_RUNTIME_DIR to a directory of yours")


def make_directory(path: Path, mode: int = 0o755) -> Path:
    """Makes the directory and its parents, and returns it. Raises HostError when it cannot.

    The home and some directories in it get their own modes, whatever is asked for.
    """
    try:
        home = octavo_home()
        if path.is_relative_to(home):
            home.mkdir(mode=_HOME_MODE, parents=True, exist_ok=True)
            inside = path.relative_to(home).parts
            if inside and inside[0] in _OWN_MODES:
                (home / inside[0]).mkdir(mode=_OWN_MODES[inside[0]], exist_ok=True)
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise HostError(
            f"cannot make {path}: {error.strerror}; set OCTAVO_HOME to a directory you may write"
        ) from error
    return path


def write_durably(path: Path, text: str) -> None:
    """Writes a file that is there whole or not at all, also after a power cut. Raises OSError."""
    replace_file(path, text.encode(), durable=True)
    sync_directory(path.parent)


def replace_file(path: Path, content: bytes, *, durable: bool = False, mode: int = 0o644) -> None:
    """Replaces the file by a new one with this content, as `replacing_file` does. Raises OSError."""
    with replacing_file(path, durable=durable, mode=mode) as file:
        file.write(content)


@contextmanager
def replacing_file(path: Path, *, durable: bool = False, mode: int = 0o644) -> Generator[IO[bytes], None, None]:
    """A new file that atomically replaces an existing one: never through a link, nor into a file of somebody else.

    It is written next to it under a name that cannot be guessed, and renamed. Raises OSError, and leaves nothing then.
    """
    beside = path.with_name(f".{secrets.token_hex(8)}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def make_private_file(path: Path) -> None:
    """Makes an empty file for its owner alone if there is none; errors are left to the code that opens it."""
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))


def lock_file(path: Path) -> IO[str]:
    """A file to lock (flock(2)), which nobody else can open: whoever can read one can hold it for ever."""
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "r+")
    with suppress(PermissionError):  # another user's: his to keep
        os.fchmod(file.fileno(), 0o600)
    return file


def sync_directory(path: Path) -> None:
    """Makes the directory's entries durable (fsync(2) on the directory)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def store_path() -> Path:
    """The file of the default store."""
    return octavo_home() / _STORE

"""Trees that an unprivileged account owns: root makes and removes them, and trusts no path inside.

A process of the account can put a link or a FIFO anywhere in such a tree, at any moment. So a child with only the
account's rights creates, copies and changes what is inside; root opens files one by one, relative to a directory that
it has open, and never through a link (openat(2), O_NOFOLLOW): `careful_open`, `tree_walk`.
"""

import ctypes
import os
import secrets
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from octavo.errors import HostError, OctavoError
from octavo.home import make_directory, octavo_home
from octavo.host import children
from octavo.host.careful_open import NO_LINK, open_directory
from octavo.host.children import Account
from octavo.host.copy_out import open_below
from octavo.host.journal import Journal
from octavo.host.kernel_text import shown
from octavo.host.owner import owner_of
from octavo.host.removal import remove as remove  # with the rest of what is done to trees
from octavo.host.tree_walk import walk

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

# PostgreSQL's own directories nest four deep. What is published must not be too deep for cp(1), which goes by names.
_DEEPEST = 32
# Links are copied as links. Owner and mode are the copy's own: PostgreSQL takes no file that its group may write.
# Large files go through the page cache in pieces of 16 MB that are written and dropped at once: where nothing but dirty
# pages is left, XFS with blocks of 64 kB finds no free folio of that size, and write(2) fails with ENOMEM.
_COPY = """\
umask 077
cp -R -P --preserve=links,timestamps --attributes-only -T -- "$1" "$2" && cd -- "$1" &&
find . -type f ! -size +32768k -exec cp -P --parents --preserve=timestamps --reflink=never -t "$2" -- {} + &&
find . -type f -size +32768k -exec sh -c '
for file; do dd if="$file" of="$0/$file" bs=16M iflag=nocache oflag=nocache,dsync status=none || exit; done' "$2" {} +
"""


def make_for(path: Path, account: Account, mode: int = 0o700) -> Path:
    """Makes a new directory that the account owns. Its parent must be one that only we may write.

    Raises HostError when it exists already, or when others may write its parent.
    """
    return _make(path, account.uid, account.gid, mode)


def make_readable(path: Path, account: Account) -> Path:
    """Makes a new directory that only we may write, and that only we and the account may read.

    Raises HostError when it exists already, or when others may write its parent.
    """
    return _make(path, -1, account.gid, 0o750)


@contextmanager
def readable_scratch(name: str, journal: Journal, account: Account) -> Generator[Path, None, None]:
    """Such a directory below the state directory, gone at the end."""
    directory = make_directory(octavo_home() / "scratch") / f"{name}-{secrets.token_hex(4)}"
    entry = journal.record("directory", path=str(directory))
    try:
        yield make_readable(directory, account)
    finally:
        if remove(directory):
            journal.done(entry)


def new_readable(path: Path, account: Account) -> int:
    """A descriptor of a new, empty file that only we may write, and that only we and the account may read.

    Its directory is one of `make_readable`. Raises HostError when it cannot be made.
    """
    try:
        descriptor = os.open(path, _NEW, 0o600)
        _give(descriptor, -1, account.gid, 0o640)
    except OSError as error:
        raise HostError(f"cannot write {path}: {error.strerror}") from error
    return descriptor


def copy(source: Path, target: Path, journal: Journal, account: Account) -> None:
    """Copies a tree that the account can read into a new directory of its own, as the account; no reflinks.

    The copy belongs to the account alone, also if the source is kept (`kept`). Raises OctavoError if that fails.
    """
    make_for(target, account)
    copy_over(source, target, journal, account)


def copy_over(source: Path, target: Path, journal: Journal, account: Account) -> None:
    """Copies such a tree over one of the account's, or to where it may make one, as the account; no reflinks.

    Raises OctavoError.
    """
    arguments = ["sh", "-c", _COPY, "cp", source, target.absolute()]
    children.check(children.run(arguments, journal, role="copy", account=account), f"copying {source}")


def act_inside(tree: Path, arguments: Sequence[str | Path], journal: Journal, account: Account) -> None:
    """Runs one of the system's programs in a tree of the account's, as the account. Raises OctavoError."""
    role = str(arguments[0])
    finished = children.run(arguments, journal, role=role, account=account, directory=tree)
    children.check(finished, f"{role} in {tree}")


def remove_inside(tree: Path, names: list[str], journal: Journal, account: Account) -> None:
    """Removes files and directories inside a tree of the account's, as the account. Raises OctavoError."""
    act_inside(tree, ["rm", "-rf", "--one-file-system", "--", *names], journal, account)


def new_log(path: Path) -> int:
    """A descriptor of a new, empty file that only we may read, in the place of an old one. The parent must be ours.

    Raises HostError when others may write the parent, or we cannot.
    """
    try:
        _check_ours(path.parent)
        path.unlink(missing_ok=True)
        return os.open(path, _NEW | os.O_APPEND, 0o600)
    except OSError as error:
        raise HostError(f"cannot write {path}: {error.strerror}") from error


def open_own_file(tree: Path, path: str, account: Account, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a plain file of the account's at this path below its tree: a path that a server reports may be
    any.

    Raises OctavoError when the path leads out of the tree or through a link, and if the file is not regular, not the
    account's, or has other hard links.
    """
    descriptor = -1
    try:
        top = open_directory(tree)
        try:
            descriptor = open_below(top, path, flags)
        finally:
            os.close(top)
        if not (problem := not_plain(facts := os.fstat(descriptor), account)) and stat.S_ISREG(facts.st_mode):
            return descriptor
    except (OSError, ValueError) as error:
        problem = f"no file below {tree}: {getattr(error, 'strerror', None) or 'it leads elsewhere'}"
    if descriptor >= 0:
        os.close(descriptor)
    raise OctavoError(f"{shown(path)}, which the server names, is {problem or 'not a regular file'}")


def open_files(tree: Path) -> Generator[int, None, None]:
    """A descriptor of each regular file below the directory, for reading, closed when the next one is asked for.

    Never through a link; what cannot be opened is left out.
    """
    for place in walk(tree):
        for name in place.names:
            with suppress(OSError):
                descriptor = os.open(name, NO_LINK, dir_fd=place.descriptor)
                try:
                    if stat.S_ISREG(os.fstat(descriptor).st_mode):
                        yield descriptor
                finally:
                    os.close(descriptor)


def files(tree: Path) -> list[Path]:
    """The paths of the regular files below the directory, sorted; nothing is opened by them but with `careful_open`."""
    found: list[Path] = []
    for place in walk(tree):
        for name in place.names:
            with suppress(OSError):
                if stat.S_ISREG(os.stat(name, dir_fd=place.descriptor, follow_symlinks=False).st_mode):
                    found.append(tree / place.path / name)
    return sorted(found)


def sync(tree: Path) -> None:
    """Writes back the whole filesystem that the tree is on, so that no trial pays for it (syncfs(2)).

    One commit of the filesystem's journal, where a call for each of a cluster's thousand files makes as many. Raises
    OSError.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(tree, _DIRECTORY)
    try:
        if libc.syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{tree}: {os.strerror(number)}")
    finally:
        os.close(descriptor)


def file_bytes(tree: Path) -> int:
    """The size of the regular files below the directory in bytes."""
    return sum(facts.st_size for facts in _facts(tree) if stat.S_ISREG(facts.st_mode))


def allocated_bytes(tree: Path) -> int:
    """The disk space of the tree in bytes: st_blocks counts 512-byte units whatever the filesystem's block
    (stat(2))."""
    return sum(facts.st_blocks * 512 for facts in _facts(tree))


def _facts(tree: Path) -> Generator[os.stat_result, None, None]:
    """Facts of the tree's own directory and of everything below it; of links and not of what they lead to."""
    for place in walk(tree):
        if not place.path:
            yield os.fstat(place.descriptor)
        for name in (*place.directories, *place.names):
            with suppress(OSError):
                yield os.stat(name, dir_fd=place.descriptor, follow_symlinks=False)


def check_plain(tree: Path, account: Account) -> None:
    """Raises OctavoError unless the tree contains only directories and regular files with one hard link, all the
    account's.

    A published tree, which is copied many times, must not lead anywhere else.
    """
    try:
        for place in walk(tree, strict=True):
            if place.path.count("/") >= _DEEPEST:
                raise OctavoError(f"{shown(tree.name)}: its directories nest more than {_DEEPEST} deep")
            for name in (*place.directories, *place.names):
                facts = os.stat(name, dir_fd=place.descriptor, follow_symlinks=False)
                if problem := not_plain(facts, account):
                    path = Path(tree.name, place.path, name)
                    raise OctavoError(f"{shown(path)} is {problem}; a dataset may hold only its own files")
    except OSError as error:
        raise OctavoError(f"{shown(tree.name)} cannot be checked: {error.strerror}") from error


def not_plain(facts: os.stat_result, account: Account) -> str | None:
    """Why it is not a directory or a regular file with one hard link of the account's; None if it is."""
    if stat.S_ISLNK(facts.st_mode):
        return "a symbolic link"
    if facts.st_uid != account.uid:
        return f"not owned by {account.name}"
    if stat.S_ISDIR(facts.st_mode):
        return None
    if not stat.S_ISREG(facts.st_mode):
        return "not a regular file"
    if facts.st_mode & (stat.S_ISUID | stat.S_ISGID):
        return "a set-user-ID or set-group-ID file"
    return "a file with several names" if facts.st_nlink != 1 else None


def _make(path: Path, uid: int, gid: int, mode: int) -> Path:
    try:
        _check_ours(path.parent)
        path.mkdir(mode=0o700)
        descriptor = os.open(path, _DIRECTORY | os.O_NOFOLLOW)
        try:
            _give(descriptor, uid, gid, mode)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise HostError(
            f"cannot make {path}: {error.strerror}; set OCTAVO_HOME to a directory you may write"
        ) from error
    return path


def _give(descriptor: int, uid: int, gid: int, mode: int) -> None:
    if os.geteuid() == 0:
        os.fchown(descriptor, uid, gid)
    os.fchmod(descriptor, mode)


def _check_ours(directory: Path) -> None:
    """Raises HostError unless the directory is ours (root's, or this user's) and nobody else may write it."""
    facts = directory.stat()
    if owner_of(facts) not in {0, os.geteuid()} or (facts.st_mode & 0o022 and not facts.st_mode & stat.S_ISVTX):
        raise HostError(f"{directory} can be written by others; chown and chmod it, or set OCTAVO_HOME")

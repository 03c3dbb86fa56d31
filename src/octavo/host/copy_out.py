"""Copies files out of trees that others can write: by descriptors, from one open directory to the next, never through a
link.

The owner of such a tree can replace any part of it at any moment. The copy is then of another of the owner's files, or
fails; it is never of somebody else's file (openat(2), O_NOFOLLOW).
"""

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from octavo.errors import OctavoError
from octavo.host.careful_open import NO_LINK
from octavo.host.children import Account

_CHUNK_BYTES = 1024**2
# An installation with debug information has a few hundred MB and is about ten directories deep.
_MOST_BYTES = 8 * 1024**3
_DEEPEST = 64


def open_below(directory: int, path: str, flags: int = 0) -> int:
    """A descriptor for reading the file at this path below the open directory; no part of the path may be a link.

    Raises OSError, or ValueError when the path leads out of the directory.
    """
    *parents, name = path.split("/")
    if not {"", ".", ".."}.isdisjoint((*parents, name)):
        raise ValueError(f"{path!r} is not a relative path below a directory")
    opened: list[int] = []
    try:
        for parent in parents:
            opened.append(os.open(parent, NO_LINK | os.O_DIRECTORY, dir_fd=opened[-1] if opened else directory))
        return os.open(name, NO_LINK | flags, dir_fd=opened[-1] if opened else directory)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def copy_out(
    tree: Path, place: str, target: Path, account: Account, *, earlier: tuple[Path, Mapping[str, str]] | None = None
) -> dict[str, str]:
    """Copies what an account made at a place in its tree into a new directory of ours. Returns each file's sha256.

    Taken are directories, the account's regular files, and relative links that stay inside; owner and mode are ours,
    so that nothing is set-user-ID and nobody else may write. A file that is the same in an `earlier` copy (its
    directory, and its digests) is linked from there. Raises OctavoError for anything else, naming it.
    """
    digests: dict[str, str] = {}
    links: list[str] = []
    left = _MOST_BYTES

    def copy_file(source: int, path: str) -> None:
        nonlocal left
        facts = os.fstat(source)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != account.uid:
            raise OctavoError(f"{path} is not a file that {account.name} made; it is not installed")
        digest = hashlib.sha256()
        with (target / path).open("xb") as copy:
            while chunk := os.read(source, _CHUNK_BYTES):
                if (left := left - len(chunk)) < 0:
                    raise OctavoError(f"more than {_MOST_BYTES // 1024**3} GB would be installed")
                digest.update(chunk)
                copy.write(chunk)
            os.fchmod(copy.fileno(), 0o755 if facts.st_mode & 0o111 else 0o644)
        digests[path] = digest.hexdigest()
        if earlier is not None and _same(target / path, digests[path], earlier[0] / path, earlier[1].get(path)):
            (target / path).unlink()
            os.link(earlier[0] / path, target / path)

    def copy_directory(source: int, below: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise OctavoError(f"the directories in {below} nest too deeply to be installed")
        (target / below).mkdir()
        (target / below).chmod(0o755)
        for name in sorted(os.listdir(source)):
            path = f"{below}/{name}" if below else name
            if not name.isprintable():
                raise OctavoError(f"{path!r} has a name that is not installed")
            mode = os.stat(name, dir_fd=source, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                (target / path).symlink_to(os.readlink(name, dir_fd=source))
                links.append(path)
            elif stat.S_ISDIR(mode) or stat.S_ISREG(mode):
                descriptor = os.open(name, NO_LINK | (os.O_DIRECTORY if stat.S_ISDIR(mode) else 0), dir_fd=source)
                try:
                    if stat.S_ISDIR(mode):
                        copy_directory(descriptor, path, depth + 1)
                    else:
                        copy_file(descriptor, path)
                finally:
                    os.close(descriptor)
            else:
                raise OctavoError(f"{path} is neither a file nor a directory nor a link; it is not installed")

    try:
        top = os.open(tree, NO_LINK | os.O_DIRECTORY)
        try:
            source = open_below(top, place, os.O_DIRECTORY)
        finally:
            os.close(top)
        try:
            copy_directory(source, "", 0)
        finally:
            os.close(source)
    except OSError as error:
        raise OctavoError(f"what was made cannot be copied to {target}: {error.filename}: {error.strerror}") from error
    _check_links(target, links)
    return digests


def _same(path: Path, digest: str, other: Path, other_digest: str | None) -> bool:
    return (
        digest == other_digest and not other.is_symlink() and other.is_file()
        and other.stat().st_mode == path.stat().st_mode
    )  # fmt: skip


def leads_out(path: str, text: str) -> bool:
    """Whether the link at this path below a tree, with this text, may lead out of it by way of any other link.

    It goes up first, no further than its own depth, and then only down: whatever the names below are, or become
    later, directories or other links that keep this rule, nothing outside is reached. Its directories are no links.

    >>> leads_out("lib/libpq.so", "libpq.so.5"), leads_out("bin/lib", "../lib")
    (False, False)
    >>> leads_out("lib/x", "../../x"), leads_out("lib/x", "/etc"), leads_out("lib/x", "y/../../x")
    (True, True, True)
    """
    parts = text.split("/")
    ups = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    return text.startswith("/") or ups > path.count("/") or ".." in parts[ups:]


def _check_links(target: Path, links: list[str]) -> None:
    """Raises OctavoError for a link that leads out, or may do so once there is more beside it."""
    for path in links:
        text = str((target / path).readlink())
        if leads_out(path, text):
            raise OctavoError(f"{path} is a link to {text!r}, out of the installation; it is not installed")

"""The files to measure: named, found, created, and protected against accidental writes."""

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from octavo.errors import HostError, UsageError
from octavo.host import trees
from octavo.host.children import Account
from octavo.io.engine import is_own, make

Observe = Callable[[str, float, int], object]

# A file that has less room than this share of its length is sparse or compressed.
MOSTLY_ALLOCATED = 0.95


def with_segments(path: Path) -> list[Path]:
    """The file and those that follow it as PostgreSQL cuts a relation: PATH, PATH.1, PATH.2 …, up to an empty one."""
    found = [path]
    while (following := Path(f"{path}.{len(found)}")).is_file() and following.stat().st_size:
        found.append(following)
    return found


def own_segments(directory: Path, path: str, account: Account) -> list[Path]:
    """The same of a relation that a server of the account's names in its data directory.

    Raises OctavoError when one of them is no plain file of the account's below the directory.
    """
    os.close(trees.open_own_file(directory, path, account))
    found = with_segments(directory / path)
    for segment in found:
        os.close(trees.open_own_file(directory, str(segment.relative_to(directory)), account))
    return found


def allocated_share(paths: Sequence[str | Path]) -> float:
    """The share of the files that the filesystem has taken room for (st_blocks, stat(2)), 1 at most and of devices.

    A hole is read without the device, and of compressed data less is read than there seems to be.
    """
    files: list[os.stat_result] = []
    for path in paths:
        with suppress(OSError):  # gone meanwhile
            facts = Path(path).stat()
            files += [facts] if stat.S_ISREG(facts.st_mode) else []
    size = sum(one.st_size for one in files)
    return min(1.0, sum(one.st_blocks * 512 for one in files) / size) if size else 1.0


def prepare(
    paths: Sequence[Path], make_bytes: int | None, observe: Observe, *, write: bool, verify: bool, lose_device: bool
) -> tuple[str, ...]:
    """The files to measure, created first if requested. The engine checks again what it opens.

    Raises UsageError for files that octavo io did not make, if they are to be written or verified; HostError for a
    device in use.
    """
    if make_bytes is not None:
        if len(paths) != 1:
            raise UsageError("--make creates one file; name one")
        make(paths[0], make_bytes, observe)
    found: list[Path] = []
    for path in paths:
        device = _is_device(path)
        found.append(_claimed(path, lose_device=lose_device) if device and write else path)
        if not device and (write or verify) and not is_own(path):
            does = "writes only into" if write else "checks only"
            raise UsageError(f"{path}: octavo io {does} files that it made; make one with --make SIZE")
    return tuple(str(path) for path in found)


def _is_device(path: Path) -> bool:
    try:
        return stat.S_ISBLK(path.stat().st_mode)
    except OSError:  # the engine says what is wrong with it
        return False


def _claimed(path: Path, *, lose_device: bool) -> Path:
    """The device's own name, whatever links lead to it by the time that it is written to.

    Raises unless it may be overwritten: the user has said so, and nobody uses it (open(2) with O_EXCL).
    """
    if not lose_device:
        raise UsageError(
            f"{path}: everything on this device would be lost; to do it anyway add --i-will-lose-this-device"
        )
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
        try:
            return Path(f"/proc/self/fd/{descriptor}").readlink()
        finally:
            os.close(descriptor)
    except OSError as error:
        raise HostError(
            f"{path}: {error.strerror}; only root may write to a device, if it is not mounted or in use"
        ) from error

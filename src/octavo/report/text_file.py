"""A file written beside its place and renamed, so that a reader never sees half of it."""

import os
from contextlib import suppress
from pathlib import Path

from octavo.errors import HostError


def make_directory_for_files(directory: Path) -> None:
    """Makes it, with its parents: who names a directory means one; who misspells a file does not.

    Raises HostError when it cannot be made.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HostError(
            f"{directory} cannot be written: {error.strerror}; name a directory that you may write"
        ) from error


def write_text(text: str, path: Path) -> Path:
    """Writes the file and returns its absolute path. Raises HostError when it cannot be written."""
    return write_bytes(text.encode(), path)


def write_bytes(content: bytes, path: Path) -> Path:
    """Writes the file and returns its absolute path. Raises HostError when it cannot be written."""
    target = path.absolute()
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        beside.replace(target)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise HostError(f"{target} cannot be written: {error.strerror}; name a file that you may write") from error
    return target

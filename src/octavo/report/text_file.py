"""A file written beside its place and renamed, so that a reader never sees half of it."""

import os
from contextlib import suppress
from pathlib import Path

from octavo.errors import HostError


def write_text(text: str, path: Path) -> Path:
    """Writes the file and returns its absolute path. Raises HostError when it cannot be written."""
    return write_bytes(text.encode(), path)


def write_bytes(content: bytes, path: Path) -> Path:
    """Writes the file and returns its absolute path. Raises HostError when it cannot be written."""
    target = path.absolute()
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content)
        beside.replace(target)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise HostError(f"{target} cannot be written: {error.strerror}; name a file that you may write") from error
    return target

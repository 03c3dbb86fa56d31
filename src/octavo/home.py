"""Where state lives: builds, datasets, runs and the journal below one directory, sockets in another."""

import os
import tempfile
from pathlib import Path

from octavo.errors import HostError

# A Unix socket's path holds 107 bytes and a terminator (unix(7), sun_path).
SOCKET_PATH_LIMIT = 107


def octavo_home() -> Path:
    """The state directory: OCTAVO_HOME, else /var/lib/octavo for root, else below the XDG data home.

    Raises HostError when OCTAVO_HOME is something else.
    """
    if chosen := os.environ.get("OCTAVO_HOME"):
        if os.path.lexists(chosen) and not Path(chosen).is_dir():
            raise HostError(f"OCTAVO_HOME={chosen} is no directory; name one that is, or that can be made")
        return Path(chosen).absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/octavo")
    data_home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data_home) / "octavo"


def runtime_directory() -> Path:
    """The directory for sockets and the host's run lock: /run/octavo for root, else the XDG runtime directory."""
    if os.geteuid() == 0:
        return Path("/run/octavo")
    if chosen := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(chosen) / "octavo"
    return Path(tempfile.gettempdir()) / f"octavo-{os.geteuid()}"


def make_directory(path: Path, mode: int = 0o755) -> Path:
    """Makes the directory and its parents, and returns it. Raises HostError when it cannot."""
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise HostError(
            f"cannot make {path}: {error.strerror}; set OCTAVO_HOME to a directory you may write"
        ) from error
    return path


def write_durably(path: Path, text: str) -> None:
    """Writes a file that is there whole or not at all, also after a power cut."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Makes the directory's entries durable (fsync(2) on the directory)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def store_path() -> Path:
    """The file of the default store."""
    return octavo_home() / "octavo.sqlite"

"""What can go wrong with the store's file, as one line with the way out. Without SQLAlchemy, as the quick list is."""

import shutil
import sqlite3
from pathlib import Path
from typing import Any

from octavo.errors import HostError, OctavoError

# With less than this free, whatever SQLite complains about comes from a full disk: it may not even make its log.
_FULL_BELOW_BYTES = 256 * 1024


def explain(error: Any, path: Path, doing: str) -> OctavoError | None:
    """The error that a user meets, or None for one that is our own defect.

    `error` is sqlite3's (https://www.sqlite.org/rescode.html), `doing` what failed: "the trial could not be stored".
    """
    name: str = getattr(error, "sqlite_errorname", None) or ""
    if name.startswith("SQLITE_CONSTRAINT") or not isinstance(error, sqlite3.Error):
        return None
    if isinstance(error, sqlite3.OperationalError) and "decode to UTF-8" in str(error):
        return damaged(path, "text that is none in it")  # the error quotes what is there
    if name == "SQLITE_NOTADB":
        return OctavoError(f"{path} is no store: {error}; move it away to start a new one")
    if name.startswith("SQLITE_CORRUPT"):
        return damaged(path, error)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return HostError(f"{doing}: another process has held {path} for a minute; end it")
    if name == "SQLITE_FULL" or _is_full(path):
        return HostError(f"{doing}: the disk of {path} is full; make room")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return HostError(f"{doing}: {path} may not be written ({error}); give the right, or set OCTAVO_HOME")
    return HostError(f"{doing}: {error} ({path}); check its disk and its rights")


def damaged(path: Path, error: object) -> OctavoError:
    """For a file whose content makes no sense."""
    return OctavoError(
        f"the store {path} is damaged: {error}; put a copy of it back, "
        f"or save what is left with: sqlite3 {path} .recover"
    )


def _is_full(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.parent).free < _FULL_BELOW_BYTES
    except OSError:
        return False

"""Directories that appear under their name whole or not at all: builds, loads, images of machines.

Each is made under a hidden name beside the others, gets a manifest, and is renamed. Removal works the same way, so a
half-removed directory never looks complete; the next command removes leftovers of a killed one.
"""

import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from octavo.errors import HostError
from octavo.home import make_directory, sync_directory, write_durably
from octavo.host import trees
from octavo.host.journal import Journal

MANIFEST = "manifest.json"


def read(path: Path) -> tuple[dict[str, Any], float] | None:
    """Of a finished directory its manifest, and when it was made or used last (epoch); else None.

    The time is the manifest's, which nothing else changes.
    """
    try:
        return parse((path / MANIFEST).read_text()), (path / MANIFEST).stat().st_mtime
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def parse(text: str) -> dict[str, Any]:
    """A manifest. Raises ValueError if it is not one."""
    try:
        found: object = json.loads(text)
    except RecursionError:
        found = None
    if not isinstance(found, dict):
        raise ValueError("it is not a manifest")
    return cast("dict[str, Any]", found)


def names(directory: Path, pattern: str = "[!.]*") -> list[str]:
    """The names of what has a manifest in the directory, sorted; `pattern` is one of glob(7)."""
    return sorted(path.parent.name for path in directory.glob(f"{pattern}/{MANIFEST}"))


def note_use(path: Path) -> None:
    """Remembers that the directory is used now."""
    with suppress(OSError):  # removed meanwhile, or another user's
        os.utime(path / MANIFEST)


@contextmanager
def unpublished(directory: Path, name: str, journal: Journal) -> Generator[Path, None, None]:
    """A hidden path next to the finished ones, which does not exist yet. Whatever is left there at the end is
    removed."""
    path = make_directory(directory) / f".new-{name}-{journal.token[:8]}"
    entry = journal.record("directory", path=str(path))
    try:
        yield path
    finally:
        if trees.remove(path):
            journal.done(entry)


def publish(work: Path, place: Path, manifest: Mapping[str, Any]) -> None:
    """Moves a complete, synced directory to its place atomically, also with respect to a power cut."""
    write_durably(work / MANIFEST, json.dumps(manifest, indent=1))
    trees.remove(place)  # one whose manifest cannot be read
    work.rename(place)
    sync_directory(place.parent)


def remove(path: Path, journal: Journal) -> None:
    """Removes a finished directory, which leaves its name at once. Raises HostError when some of it stays."""
    hidden = path.with_name(f".removed-{path.name}-{journal.token[:8]}")
    entry = journal.record("directory", path=str(hidden))
    path.rename(hidden)
    if not trees.remove(hidden):
        raise HostError(f"could not remove {hidden} whole; octavo host restore tries again")
    journal.done(entry)

"""The tarballs that were fetched before: they are used first, and without a network they are what there is."""

import shutil
from pathlib import Path

from octavo.errors import OctavoError
from octavo.home import octavo_home, write_durably
from octavo.postgres.sources.base import Source, sha256_of, version_in_name
from octavo.postgres.versions import answers, is_release, order_of


def directory() -> Path:
    """Where they are kept."""
    return octavo_home() / "sources"


def find(wanted: str) -> Source | None:
    """The newest one that answers; a beta only when it is asked for by name.

    Raises OctavoError when it is not what was fetched.
    """
    found: list[tuple[tuple[int, ...], str, Path]] = []
    for path in directory().glob("postgresql-*.tar.*"):
        version = version_in_name(path)
        if version is None or not _origin_file(path).exists():
            continue
        if version == wanted or (answers(version, wanted) and is_release(version)):
            found.append((order_of(version), version, path))
    if not found:
        return None
    _, version, path = max(found)
    sha256, _, origin = _origin_file(path).read_text().strip().partition(" ")
    if sha256_of(path) != sha256:
        raise OctavoError(f"{path} is not what was fetched (its sha256 differs); remove it and run again")
    return Source(version, path, sha256, origin)


def keep(tarball: Path, origin: str) -> Source:
    """Moves a tarball that was fetched and checked to the others; it counts once its origin stands beside it."""
    version = version_in_name(tarball)
    assert version is not None
    path = directory() / f"postgresql-{version}.tar.{tarball.name.rpartition('.tar.')[2]}"
    sha256 = sha256_of(tarball)
    shutil.move(tarball, path)
    write_durably(_origin_file(path), f"{sha256} {origin}\n")
    return Source(version, path, sha256, origin)


def _origin_file(path: Path) -> Path:
    return path.with_suffix(".origin")

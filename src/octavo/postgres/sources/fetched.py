"""The tarballs that were fetched before. They are used first, and also work without a network."""

import shutil
from pathlib import Path

from octavo.errors import OctavoError
from octavo.home import octavo_home, write_durably
from octavo.postgres.sources.base import Source, sha256_of, version_in_name
from octavo.postgres.versions import answers, is_release, order_of


def directory() -> Path:
    """The directory in which they are kept."""
    return octavo_home() / "sources"


def find(wanted: str) -> Source | None:
    """The newest matching one; a beta only if it is requested by name.

    Raises OctavoError if the file has changed since it was fetched.
    """
    found = max(_answering(wanted), key=lambda source: (order_of(source.version), source.tarball), default=None)
    if found and sha256_of(found.tarball) != found.sha256:
        raise OctavoError(f"{found.tarball} is not what was fetched (its sha256 differs); remove it and run again")
    return found


def digests(wanted: str) -> set[str]:
    """The digests of all matching ones, as recorded when they were fetched. The tarballs are not read."""
    return {source.sha256 for source in _answering(wanted)}


def _answering(wanted: str) -> list[Source]:
    found: list[Source] = []
    for path in directory().glob("postgresql-*.tar.*"):
        version = version_in_name(path)
        if version is None or not _origin_file(path).exists():
            continue
        if version == wanted or (answers(version, wanted) and is_release(version)):
            sha256, _, origin = _origin_file(path).read_text().strip().partition(" ")
            found.append(Source(version, path, sha256, origin))
    return found


def keep(tarball: Path, origin: str) -> Source:
    """Moves a fetched and verified tarball to the others. It is used once its origin is stored next to it."""
    version = version_in_name(tarball)
    assert version is not None
    path = directory() / f"postgresql-{version}.tar.{tarball.name.rpartition('.tar.')[2]}"
    sha256 = sha256_of(tarball)
    shutil.move(tarball, path)
    write_durably(_origin_file(path), f"{sha256} {origin}\n")
    return Source(version, path, sha256, origin)


def _origin_file(path: Path) -> Path:
    return path.with_suffix(".origin")

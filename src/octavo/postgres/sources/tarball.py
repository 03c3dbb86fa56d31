"""A local tarball, such as a release, or a snapshot under any name."""

import tarfile
from pathlib import Path

from octavo.errors import UsageError
from octavo.host.journal import Journal
from octavo.postgres.sources.base import TELLING_FILES, Source, sha256_of, version_in_name, version_in_text
from octavo.postgres.versions import is_version

# configure.ac has 90 kB.
_MOST_TEXT = 16 * 1024**2


def recognises(path: Path, /) -> bool:
    """Whether it is a file."""
    return path.is_file()


def take(path: Path, journal: Journal, /) -> Source:
    """The tarball; its version is in its name, else in its files."""
    version = version_in_name(path) or _version_inside(path)
    if version is None or not is_version(version):
        raise UsageError(f"--source {path}: not a tarball of PostgreSQL; give one such as postgresql-18.6.tar.bz2")
    try:
        return Source(version, path, sha256_of(path), f"local file {path.name}")
    except OSError as error:
        raise UsageError(f"--source {path}: it cannot be read: {error.strerror}") from error


def _version_inside(path: Path) -> str | None:
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = member.name.removeprefix("./").partition("/")[2]
                file = archive.extractfile(member) if name in TELLING_FILES else None
                if file and (version := version_in_text(name, file.read(_MOST_TEXT).decode(errors="replace"))):
                    return version
    except (tarfile.TarError, EOFError, OSError):
        pass
    return None

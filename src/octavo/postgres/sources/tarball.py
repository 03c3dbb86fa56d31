"""A local tarball, such as a release, or a snapshot under any name."""

import os
from pathlib import Path
from typing import IO

from octavo.archives import DAMAGED, opened
from octavo.errors import UsageError
from octavo.host import careful_open
from octavo.host.journal import Journal
from octavo.postgres.sources.base import TELLING_FILES, Source, sha256_of, version_in_name, version_in_text
from octavo.postgres.sources.snapshot import check_room, new_directory
from octavo.postgres.versions import is_version

# configure.ac has 90 kB.
_MOST_TEXT = 16 * 1024**2
# No release is this large, unpacked or not.
_MOST_BYTES = 4 * 1024**3
_PIECE = 1024**2


def recognises(path: Path, /) -> bool:
    """Whether it is a file."""
    return path.is_file()


def take(path: Path, journal: Journal, /) -> Source:
    """Copies the tarball; the copy is removed when the journal is closed. The version comes from its name, else from
    its files.

    It is opened once, so that the build matches the digest, whatever happens to the file meanwhile. Raises UsageError
    if it cannot be read or is none of PostgreSQL's, HostError without room for the copy.
    """
    try:
        with os.fdopen(careful_open.open_file(path), "rb") as file:
            version = version_in_name(path) or _version_inside(file)
            if version is None or not is_version(version):
                raise UsageError(
                    f"--source {path}: not a tarball of PostgreSQL; give one such as postgresql-18.6.tar.bz2"
                )
            copy = new_directory(journal) / path.name
            _copy(file, copy, path)
        return Source(version, copy, sha256_of(copy), f"local file {path.name}")
    except OSError as error:
        check_room(error, path)
        raise UsageError(f"--source {path}: it cannot be read: {error.strerror}; name the file itself") from error


def _copy(file: IO[bytes], copy: Path, path: Path) -> None:
    file.seek(0)
    with copy.open("xb") as target:
        while piece := file.read(_PIECE):
            target.write(piece)
            if target.tell() > _MOST_BYTES:
                raise UsageError(f"--source {path}: it has more than {_MOST_BYTES // 1024**3} GB")


def _version_inside(file: IO[bytes]) -> str | None:
    try:
        with opened(file) as archive:
            for member in archive:
                name = member.name.removeprefix("./").partition("/")[2]
                text = archive.extractfile(member) if name in TELLING_FILES else None
                if text and (version := version_in_text(name, text.read(_MOST_TEXT).decode(errors="replace"))):
                    return version
    except DAMAGED:
        pass
    return None

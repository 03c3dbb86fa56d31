"""A directory's files as a tarball that is the same for the same contents, so that its digest stands for them."""

import os
import secrets
import stat
import tarfile
from collections.abc import Iterable
from pathlib import Path

from octavo.errors import OctavoError, UsageError
from octavo.home import make_directory
from octavo.host.copy_out import open_below
from octavo.host.journal import Journal
from octavo.host.safe_read import read_text
from octavo.postgres.sources import fetched
from octavo.postgres.sources.base import TELLING_FILES, Source, sha256_of, version_in_text
from octavo.postgres.versions import is_version

# One time for every file: that of its last change is no part of the contents. 1980, because zip starts there.
_TIME = 315532800
# configure.ac has 90 kB.
_MOST_TEXT = 16 * 1024**2


def version_of_tree(root: Path) -> str:
    """The version that the tree itself tells. Raises UsageError when it tells none."""
    for name in TELLING_FILES:
        try:
            version = version_in_text(name, read_text(root / name, _MOST_TEXT))
        except (OSError, ValueError):
            continue
        if version and is_version(version):
            return version
    raise UsageError(f"--source {root}: no PostgreSQL source tree (its configure.ac and meson.build name no version)")


def take_snapshot(root: Path, names: Iterable[str], origin: str, journal: Journal) -> Source:
    """Packs these files (paths relative to the root) of the tree. The tarball goes when the journal is closed.

    What is built is what the digest says, whatever happens to the tree meanwhile. Raises OctavoError when a file
    cannot be read, or changes while it is.
    """
    version = version_of_tree(root)
    directory = fetched.directory() / f".snapshot-{secrets.token_hex(4)}"
    journal.record("directory", path=str(directory))
    make_directory(directory)
    tarball = directory / f"postgresql-{version}.tar"
    name = ""
    try:
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with tarfile.open(tarball, "w", format=tarfile.PAX_FORMAT) as archive:
                for name in sorted(names):
                    _add(archive, top, name, f"postgresql-{version}/{name}")
        finally:
            os.close(top)
    except (OSError, ValueError) as error:
        raise OctavoError(
            f"--source {root}: {name} cannot be taken: {getattr(error, 'strerror', '') or error}"
        ) from error
    return Source(version, tarball, sha256_of(tarball), origin)


def _add(archive: tarfile.TarFile, top: int, path: str, name: str) -> None:
    """Adds a file or link below the open directory, which may be another user's: no link is followed."""
    member = tarfile.TarInfo(name)
    member.mtime = _TIME
    directory, _, last = path.rpartition("/")
    place = open_below(top, directory, os.O_DIRECTORY) if directory else os.dup(top)
    try:
        facts = os.stat(last, dir_fd=place, follow_symlinks=False)
        if stat.S_ISLNK(facts.st_mode):
            member.type = tarfile.SYMTYPE
            member.mode = 0o755
            member.linkname = os.readlink(last, dir_fd=place)
            archive.addfile(member)
            return
        with os.fdopen(open_below(place, last), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise ValueError("it is no regular file")
            member.mode = 0o755 if facts.st_mode & 0o111 else 0o644
            member.size = facts.st_size
            archive.addfile(member, file)
    finally:
        os.close(place)

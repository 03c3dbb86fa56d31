"""A directory's files as a tarball that is the same for the same contents, so that its digest identifies them."""

import errno
import os
import secrets
import stat
import tarfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from octavo.errors import HostError, OctavoError, UsageError
from octavo.home import make_directory
from octavo.host import careful_open
from octavo.host.copy_out import open_below
from octavo.host.journal import Journal
from octavo.postgres.sources import fetched
from octavo.postgres.sources.base import TELLING_FILES, Source, sha256_of, version_in_text
from octavo.postgres.versions import is_version

# One time for every file, because the time of the last change is not part of the contents. 1980, because zip starts
# there.
_TIME = 315532800
# configure.ac has 90 kB.
_MOST_TEXT = 16 * 1024**2
FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def opened_tree(root: Path) -> Generator[int, None, None]:
    """Yields a descriptor of the tree's own directory, so that the same tree is examined, checked for its owner, and
    packed.

    Links are handled as in `careful_open.open_directory`. Raises UsageError.
    """
    try:
        top = careful_open.open_directory(root)
    except OSError as error:
        why = "another user's symbolic link" if error.errno in (errno.ELOOP, errno.ENOTDIR) else error.strerror
        raise UsageError(f"--source {root}: it cannot be opened: {why}; name the directory itself") from None
    try:
        yield top
    finally:
        os.close(top)


def new_directory(journal: Journal) -> Path:
    """A directory of ours for a user's source, which is removed when the journal is closed."""
    directory = fetched.directory() / f".snapshot-{secrets.token_hex(4)}"
    journal.record("directory", path=str(directory))
    return make_directory(directory)


def check_room(error: Exception, source: Path) -> None:
    """Raises HostError if the error is that there is no room for our copy of the source."""
    if isinstance(error, OSError) and error.errno in FULL:
        raise HostError(
            f"{fetched.directory()} has no room for a copy of {source}: {error.strerror}; free some space there"
        ) from error


def version_of_tree(root: Path, top: int) -> str:
    """The version in the files of the open tree. Raises UsageError if there is none."""
    for name in TELLING_FILES:
        try:
            with os.fdopen(open_below(top, name), "rb") as file:
                text = file.read(_MOST_TEXT).decode(errors="replace")
        except OSError:
            continue
        version = version_in_text(name, text)
        if version and is_version(version):
            return version
    raise UsageError(f"--source {root}: not a PostgreSQL source tree (configure.ac and meson.build name no version)")


def take_snapshot(root: Path, top: int, names: Iterable[str], origin: str, journal: Journal) -> Source:
    """Packs these files (paths relative to the open tree). The tarball is removed when the journal is closed.

    The build then matches the digest, whatever happens to the tree meanwhile. Raises OctavoError if a file cannot be
    read, or changes meanwhile, HostError without room for the tarball.
    """
    version = version_of_tree(root, top)
    tarball = new_directory(journal) / f"postgresql-{version}.tar"
    name = ""
    try:
        with tarfile.open(tarball, "w", format=tarfile.PAX_FORMAT) as archive:
            for name in sorted(names):
                _add(archive, top, name, f"postgresql-{version}/{name}")
    except (OSError, ValueError) as error:
        check_room(error, root)
        raise OctavoError(
            f"--source {root}: {name} cannot be taken: {getattr(error, 'strerror', '') or error}"
        ) from error
    return Source(version, tarball, sha256_of(tarball), origin)


def _add(archive: tarfile.TarFile, top: int, path: str, name: str) -> None:
    """Adds a file or link below the open directory, which may be another user's. No link is followed."""
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
                raise ValueError("it is not a regular file")
            member.mode = 0o755 if facts.st_mode & 0o111 else 0o644
            member.size = facts.st_size
            archive.addfile(member, file)
    finally:
        os.close(place)

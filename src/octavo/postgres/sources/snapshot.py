"""A directory's files as a tarball that is the same for the same contents, so that its digest stands for them."""

import secrets
import tarfile
from collections.abc import Iterable
from pathlib import Path

from octavo.errors import OctavoError, UsageError
from octavo.home import make_directory
from octavo.host.journal import Journal
from octavo.postgres.sources import fetched
from octavo.postgres.sources.base import TELLING_FILES, Source, sha256_of, version_in_text
from octavo.postgres.versions import is_version

# One time for every file: that of its last change is no part of the contents. 1980, because zip starts there.
_TIME = 315532800


def version_of_tree(root: Path) -> str:
    """The version that the tree itself tells. Raises UsageError when it tells none."""
    for name in TELLING_FILES:
        try:
            version = version_in_text(name, (root / name).read_text(errors="replace"))
        except OSError:
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
        with tarfile.open(tarball, "w", format=tarfile.PAX_FORMAT) as archive:
            for name in sorted(names):
                _add(archive, root / name, f"postgresql-{version}/{name}")
    except (OSError, ValueError) as error:
        raise OctavoError(
            f"--source {root}: {name} cannot be taken: {getattr(error, 'strerror', '') or error}"
        ) from error
    return Source(version, tarball, sha256_of(tarball), origin)


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    facts = path.lstat()
    member = tarfile.TarInfo(name)
    member.mtime = _TIME
    member.mode = 0o755 if facts.st_mode & 0o111 else 0o644
    if path.is_symlink():
        member.type = tarfile.SYMTYPE
        member.linkname = str(path.readlink())
        archive.addfile(member)
        return
    member.size = facts.st_size
    with path.open("rb") as file:
        archive.addfile(member, file)

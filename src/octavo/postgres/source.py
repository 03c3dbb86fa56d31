"""PostgreSQL's source: the user's own, one that was fetched before, or one fetched now. The kinds are in `sources/`.

A user's source (tarball, tree, git checkout) and a fetched one (Debian's source package, upstream's tarball) all become
a tarball with its version, its digest and a description of its origin.
"""

import secrets
from dataclasses import replace
from pathlib import Path
from typing import IO

from octavo.archives import DAMAGED, extract, opened_to_extract
from octavo.errors import HostError, OctavoError, UsageError
from octavo.home import make_directory
from octavo.host import trees
from octavo.host.journal import Journal
from octavo.postgres.sources import FETCHED_KINDS, LOCAL_KINDS, fetched
from octavo.postgres.sources.base import Source, sha256_of
from octavo.postgres.sources.snapshot import FULL
from octavo.postgres.versions import answers, is_version, major_of

__all__ = ["Source", "find_source", "sha256_of", "unpack", "unpack_file"]


def find_source(version: str, journal: Journal, local: Path | None = None) -> Source:
    """The source of a major (`18`: the newest available) or minor (`18.6`) version.

    With `local` it is only that file or directory. Otherwise it is the newest that was fetched before, so that a major
    version stays at its minor one until the user requests another; then each kind of source that can be fetched. Raises
    UsageError if `local` is another version, HostError with the list of attempts if no source has the version.
    """
    if not is_version(version):
        raise UsageError(f"{version!r} is not a PostgreSQL version; write 18, or a minor release such as 18.6")
    if local is not None:
        return _local(local.absolute(), version, journal)
    if kept := fetched.find(version):
        return kept
    tried = [f"none in {fetched.directory()}"]
    for kind in FETCHED_KINDS:
        scratch = make_directory(fetched.directory()) / f".{secrets.token_hex(8)}"
        entry = journal.record("directory", path=str(scratch))
        try:
            scratch.mkdir(mode=0o700)
            tarball, origin = kind.fetch(version, scratch, journal)
            return fetched.keep(tarball, origin)
        except OctavoError as error:
            tried.append(str(error))
        finally:
            if trees.remove(scratch):
                journal.done(entry)
    raise HostError(
        f"no source of PostgreSQL {version}: {'; '.join(tried)}; "
        "give a tarball, a source tree or a git checkout with --source"
    )


def unpack(source: Source, target: Path) -> Path:
    """Unpacks the tarball into the target directory and returns the source tree's root."""
    with source.tarball.open("rb") as tarball:
        return unpack_file(tarball, target)


def unpack_file(tarball: IO[bytes], target: Path) -> Path:
    """Unpacks an open tarball in the same way.

    Raises OctavoError when it is not a tarball of a source, or an entry leads outside of it, OSError when the disk is
    full.
    """
    try:
        with opened_to_extract(tarball, target.parent) as archive:
            extract(archive, target)
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno in FULL:  # of which the tarball is not the cause
            raise
        raise OctavoError(f"{tarball.name} cannot be unpacked: {error}; give another source") from error
    roots = [entry for entry in target.iterdir() if entry.is_dir()]
    if len(roots) != 1:
        raise OctavoError(f"{tarball.name} has {len(roots)} top-level directories instead of one; give another tarball")
    return roots[0]


def _local(path: Path, wanted: str, journal: Journal) -> Source:
    kind = next((kind for kind in LOCAL_KINDS if kind.recognises(path)), None)
    if kind is None:
        raise UsageError(
            f"--source {path}: no such file or directory; give a tarball, a source tree or a git checkout of PostgreSQL"
        )
    source = replace(kind.take(path, journal), given=path)
    if not answers(source.version, wanted):
        say = str(major_of(source.version)) if wanted.isdecimal() else source.version
        raise UsageError(
            f"--source {path}: it is PostgreSQL {source.version}, not {wanted}; give --pg {say} or another source"
        )
    return source

"""The parts of a package from the release's source: licences and date."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from octavo.archives import DAMAGED, opened, time_of
from octavo.errors import OctavoError
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build
from octavo.postgres.source import find_source

_LICENCE_FILES = ("COPYRIGHT", "COPYING", "LICENSE")
_LONGEST_LICENCE, _MOST_LICENCES = 1024**2, 100


@dataclass(frozen=True, slots=True)
class Release:
    """Of a release: the texts of its licence files by their path in the source, and its date.

    The date is that of the newest file in it, in seconds since 1970.
    """

    licences: tuple[tuple[str, str], ...]
    epoch: int

    def copyright(self) -> str:
        """All licence files as one text, PostgreSQL's own first."""
        return "\n".join(f"{path}:\n\n{text.strip()}\n" for path, text in self.licences)


def release_of(build: Build, journal: Journal, local: Path | None) -> Release:
    """The release that a build was made from, out of its source: `local` when the user gave one.

    Raises HostError if the source is not available, OctavoError if the build was made from another one.
    """
    source = find_source(build.manifest["version"], journal, local)
    if source.sha256 != build.manifest["source_sha256"]:
        raise OctavoError(
            f"{build.name} was made from another source than {source.origin}, and its licences are in its own; "
            "give that one with --source"
        )
    return _read(source.tarball.resolve(), source.sha256)


@cache  # decompressing takes seconds, and many builds have one source
def _read(tarball: Path, sha256: str) -> Release:
    licences: list[tuple[str, str]] = []
    epoch = 0
    try:
        with tarball.open("rb") as opened_tarball, opened(opened_tarball) as archive:
            for member in archive:
                epoch = max(epoch, time_of(member, tarball))
                path = member.name.partition("/")[2]
                is_licence = member.isreg() and path.rpartition("/")[2] in _LICENCE_FILES
                if is_licence and (file := archive.extractfile(member)):
                    licences.append((path, file.read(_LONGEST_LICENCE).decode(errors="replace")))
                if len(licences) > _MOST_LICENCES:
                    raise OctavoError(f"{tarball} has more than {_MOST_LICENCES} licence files; give another source")
    except DAMAGED as error:
        raise OctavoError(f"{tarball} cannot be read: {error}; give another source") from error
    if not licences:
        raise OctavoError(f"{tarball} has no COPYRIGHT; a package must contain PostgreSQL's licence")
    return Release(tuple(sorted(licences, key=lambda licence: (licence[0].count("/"), licence[0]))), epoch)

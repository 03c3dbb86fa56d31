"""The result of every kind of source: a tarball, and its identity."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from octavo.host.journal import Journal

# The end of a fetched source's origin.
SIGNED, KNOWN = "signature checked by apt", "sha256 known to Octavo"


@dataclass(frozen=True, slots=True)
class Source:
    """A source's tarball: its version (`18.6`), its digest, and a description of its origin."""

    version: str
    tarball: Path
    sha256: str
    origin: str
    given: Path | None = None
    """The path given by the user, None if it was fetched."""

    @property
    def whose(self) -> str:
        """The owner of cached objects: the author of a source can only change the cached objects of that source."""
        return str(self.given or ("releases" if is_checked(self.origin) else self.sha256))


def is_checked(origin: str) -> bool:
    """Whether a source of this origin is a release verified by others, so that all of these are equally trustworthy."""
    return origin.endswith((SIGNED, KNOWN)) and not origin.startswith(("local ", "git "))


class LocalKind(Protocol):
    """A kind of source that the user provides."""

    def recognises(self, path: Path, /) -> bool:
        """Whether the path (absolute) looks like one of this kind."""
        ...

    def take(self, path: Path, journal: Journal, /) -> Source:
        """Takes the source there. Raises UsageError when it is not PostgreSQL's or cannot be used in its present
        state."""
        ...


class FetchedKind(Protocol):
    """A kind of source that is fetched."""

    def fetch(self, wanted: str, scratch: Path, journal: Journal, /) -> tuple[Path, str]:
        """Fetches the newest minor version of a major version, or the given minor version, into the scratch directory
        and verifies it.

        Returns the tarball and a description of its origin. Raises OctavoError with the kind if it is not available.
        """
        ...


def sha256_of(path: Path) -> str:
    """The file's sha256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Upstream's and Debian's names: postgresql-18.6.tar.bz2, postgresql-18_18.6.orig.tar.bz2, postgresql-19_19~beta1...
_NAME = re.compile(r"postgresql-(?:\d+_)?(\d+)~?(\.\d+|devel|(?:alpha|beta|rc)\d+)(?:\.orig)?\.tar(?:\.(?:bz2|gz|xz))?")


def version_in_name(path: Path) -> str | None:
    """The version in a tarball's name.

    >>> version_in_name(Path("postgresql-18.6.tar.bz2")), version_in_name(Path("postgresql-19_19~beta1.orig.tar.xz"))
    ('18.6', '19beta1')
    """
    match = _NAME.fullmatch(path.name)
    return match[1] + match[2] if match else None


# The files with the version of a tree: configure.ac, and meson.build since 16. Each has its path in the tree.
_TELLING = {
    "configure.ac": re.compile(r"^AC_INIT\(\[PostgreSQL\],\s*\[([^]]+)\]", re.MULTILINE),
    "meson.build": re.compile(r"^project\('postgresql',[^)]*?\bversion:\s*'([^']+)'", re.MULTILINE),
}

TELLING_FILES = tuple(_TELLING)


def version_in_text(name: str, text: str) -> str | None:
    """The version in the text of one of these files, or None.

    >>> version_in_text("configure.ac", "AC_INIT([PostgreSQL], [19devel], [pgsql-bugs@lists.postgresql.org], [], [])")
    '19devel'
    """
    match = _TELLING[name].search(text)
    return match[1] if match else None

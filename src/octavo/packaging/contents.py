"""The contents of every package, whatever its format: the build's files, how it was made, its licences, its SBOM."""

import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.errors import HostError, OctavoError
from octavo.home import octavo_home
from octavo.host.journal import Journal
from octavo.host.published import MANIFEST
from octavo.packaging import sbom
from octavo.packaging.binaries import Linkage, linkage, strip
from octavo.packaging.names import PackageNames, names_of
from octavo.packaging.release import Release, release_of
from octavo.postgres.builds.cache import Build
from octavo.postgres.builds.usage import added_files

# What the manifest says of the way, not of the result: two builds of the same may differ in it. The files are
# those before stripping.
_OF_THE_WAY = ("files", "key", "made", "origin", "source")


@dataclass(frozen=True, slots=True)
class PackageContents:
    """The files of a package, complete below `prefix`, and their metadata."""

    prefix: Path
    names: PackageNames
    data_block: str
    wal_block: str
    release: Release
    linkage: Linkage


def lay_out(build: Build, prefix: Path, scratch: Path, journal: Journal, local: Path | None) -> PackageContents:
    """Puts everything that a package holds below the prefix, which must not exist yet; works in `scratch`.

    Raises HostError without binutils, the release's source or room, OctavoError when the build is incomplete.
    """
    names = names_of(build)
    release = release_of(build, journal, local)
    _copy_own(build, prefix)
    for path in (prefix, *prefix.rglob("*")):
        if not path.is_symlink():  # the account reads it, whatever the umask was when it was built
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    if not _keeps_debug_symbols(build.manifest["options"]):
        strip(prefix, scratch / "strip", journal)
    linked = linkage(prefix, journal)
    documents = prefix / "share" / "doc"
    documents.mkdir(parents=True, exist_ok=True)
    if not documents.resolve().is_relative_to(prefix.resolve()):  # by a link that somebody's sources installed
        raise OctavoError(f"share/doc of {build.name} leads out of the build; build it again without its extensions")
    (documents / "COPYRIGHT").write_text(release.copyright())
    (documents / "build.json").write_text(json.dumps(_how_it_was_built(build), indent=1, sort_keys=True) + "\n")
    # Last, for it names every other file.
    document = sbom.spdx(names, build.manifest, prefix, linked.needed, release.epoch)
    (documents / "sbom.spdx.json").write_text(json.dumps(document, indent=1) + "\n")
    return PackageContents(prefix, names, build.manifest["data_block"], build.manifest["wal_block"], release, linked)


def _copy_own(build: Build, prefix: Path) -> None:
    """Copies the build without Octavo's records, and without extensions that were added to it: their licences are not
    the release's."""
    left_out = {MANIFEST, *added_files(build)}

    def ignore(directory: str, names: list[str]) -> list[str]:
        here = Path(directory).relative_to(build.prefix)
        return [name for name in names if str(here / name) in left_out]

    def copy(source: str, target: str) -> None:
        try:
            shutil.copy2(source, target)
        except OSError as error:  # of which copytree would collect one for each file
            raise HostError(f"{source} cannot be copied: {error.strerror}; make room in {octavo_home()}") from error

    shutil.copytree(build.prefix, prefix, symlinks=True, ignore=ignore, copy_function=copy)
    above = {parent for path in left_out for parent in Path(path).parents[:-1]}
    for directory in sorted(above, key=lambda path: len(path.parts), reverse=True):
        with suppress(OSError):  # it has files of PostgreSQL's, too
            (prefix / directory).rmdir()


def _keeps_debug_symbols(options: Sequence[str]) -> bool:
    """Whether the build was asked for them, in the words of meson or of configure."""
    flags = [flag for option in options if option.startswith("CFLAGS=") for flag in option[7:].split()]
    return "-Ddebug=true" in options or "-g" in flags


def _how_it_was_built(build: Build) -> dict[str, Any]:
    return {name: value for name, value in build.manifest.items() if name not in _OF_THE_WAY}

"""Packages of a finished build. A new format is a file here and a line in the table.

A package depends only on the build and on the release that it was built from, not on time, place or user: the same
build made twice, in two places, gives identical packages.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from octavo.errors import HostError, UsageError
from octavo.home import make_directory, octavo_home, replacing_file, sync_directory
from octavo.host import trees
from octavo.host.journal import Journal
from octavo.packaging import deb, tar
from octavo.postgres.builds import cross
from octavo.postgres.builds.cache import Build
from octavo.report.text_file import make_directory_for_files, refuse_planted

# Writes the package somewhere below the directory, which is its own to work in, and returns its path. The last
# argument is the source that the user gave.
Writer = Callable[[Build, Path, Journal, Path | None], Path]

FORMATS: dict[str, Writer] = {
    "deb": deb.write,
    "tar": tar.write,
}


def check_compiler(compiler: str) -> None:
    """Raises UsageError for one that compiles for another machine, because the tools that strip programs and find their
    libraries are for this one."""
    if machine := cross.machine_of(compiler):
        raise UsageError(f"--package: {compiler} compiles for {machine}; make packages for that on such a machine")


def package(build: Build, format: str, directory: Path, journal: Journal, *, local: Path | None = None) -> Path:
    """Writes the build's package into the directory and returns its path; one of the same name is replaced.

    The licences come from the source that the build was made from: `local`, or the one that is fetched.

    Raises UsageError for an unknown format or a build for another machine, HostError when a tool that the format needs
    or the release's source is missing, or the package cannot be written there, OctavoError when the build is
    incomplete.
    """
    if format not in FORMATS:
        raise UsageError(f"--package {format}: unknown format; allowed: {', '.join(FORMATS)}")
    check_compiler(build.manifest.get("compiler_command", "gcc"))
    make_directory_for_files(directory)
    work = make_directory(octavo_home() / "scratch") / f"package-{journal.token[:8]}"
    entry = journal.record("directory", path=str(work))
    try:
        made = FORMATS[format](build, make_directory(work), journal, local)
        target = directory.absolute() / made.name
        refuse_planted(target)
        try:
            # It appears under its name only once it is complete, also on another filesystem.
            with made.open("rb") as package, replacing_file(target) as file:
                shutil.copyfileobj(package, file)
            sync_directory(directory)
        except OSError as error:
            raise HostError(f"{target} cannot be written: {error.strerror}; name another --output") from error
    finally:
        if trees.remove(work):
            journal.done(entry)
    return directory / made.name

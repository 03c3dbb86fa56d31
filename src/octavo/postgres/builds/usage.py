"""Disk space and last use of the cached builds, and removing unused ones."""

import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from octavo.errors import OctavoError, UsageError
from octavo.host import children, published
from octavo.host.journal import Journal
from octavo.host.published import MANIFEST
from octavo.postgres.builds import traced
from octavo.postgres.builds.cache import (
    RECORDS,
    Build,
    find_build,
    list_builds,
    locked,
    read_build,
)
from octavo.postgres.builds.flags import are_harmless, is_harmless
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.sources.base import is_checked
from octavo.postgres.versions import answers

# The place of compiler flags in the options of meson and of configure.
_FLAGS = ("-Dc_args=", "CFLAGS=")


@dataclass(frozen=True, slots=True)
class Usage:
    """The disk space of a build in bytes, the part shared with other builds, and its last use (epoch)."""

    build: Build
    size: int
    shared: int
    last_used: float


def note_use(build: Build) -> None:
    """Records that the build is used now."""
    published.note_use(build.prefix)


def user_environment(build: Build) -> dict[str, str]:
    """The user's own environment with the build's programs first on the PATH."""
    path = os.environ.get("PATH") or children.PLAIN_PATH
    return {**os.environ, "PATH": f"{build.prefix / 'bin'}{os.pathsep}{path}"}


def not_postgresqls(build: Build) -> list[str]:
    """The parts of the build (itself, its extensions) that were made from sources other than a checked release of
    PostgreSQL, or with flags or options that may have run other people's programs.

    Of an extension whose installation was interrupted some files may be there."""
    origin: str = build.manifest.get("origin", "an unknown source")
    own = [] if is_checked(origin) else [f"itself from {origin}"]
    compiler: str = build.manifest.get("compiler_command", "gcc")
    options: list[str] = build.manifest.get("options", [])
    given = [option.partition("=")[2] for option in options if option.startswith(_FLAGS)]
    words = [word for text in given for word in text.split() if word != traced.COMPILER_FLAG]
    if not are_harmless(compiler, words):
        own.append(f"itself, compiled by {' '.join((compiler, *words))}")
    if further := [option for option in options if not option.startswith(_FLAGS) and not is_harmless(option)]:
        own.append(f"itself, configured with {' '.join(further)}")
    records = (build.prefix / RECORDS).glob("*")
    names = {path.stem.removeprefix(".") for path in records if path.suffix in (".json", ".begun")}
    return own + [f"the extension {name}" for name in sorted(names)]


def added_files(build: Build) -> set[str]:
    """The paths below the prefix of what extensions added to the build, also of one whose installation was interrupted,
    and of the records of them."""
    found = {RECORDS}
    for path in (build.prefix / RECORDS).glob("*"):
        found.add(f"{RECORDS}/{path.name}")
        if path.suffix in (".json", ".begun"):
            found.update(json.loads(path.read_text())["files"])
    return found - set(build.manifest.get("files", ()))


def usage_of(build: Build) -> Usage:
    """Size and last use of one build."""
    size = shared = 0
    for facts, here in _inodes([build]).values():
        size += _allocated(facts)
        if facts.st_nlink > here:
            shared += _allocated(facts)
    return Usage(build, size, shared, (build.prefix / MANIFEST).stat().st_mtime)


def size_together(builds: Iterable[Build]) -> int:
    """The bytes on disk of all these builds; shared files count once."""
    return sum(_allocated(facts) for facts, _ in _inodes(builds).values())


def size_freed(builds: Iterable[Build]) -> int:
    """The bytes that removing all these builds would free, without files shared with remaining builds."""
    return sum(_allocated(facts) for facts, here in _inodes(builds).values() if facts.st_nlink <= here)


def find_cached(spec: BuildSpec, name: str | None) -> Build | None:
    """The cached build of this name, else the one that matches the spec. Raises UsageError for an unknown name."""
    return by_name(name) if name else find_build(spec)


def by_name(name: str) -> Build:
    """The cached build of this name. Raises UsageError when there is none."""
    build = None if "/" in name or name.startswith(".") else read_build(name)
    if build is None:
        raise UsageError(f"there is no build {name}; octavo build ls shows their names")
    return build


def choose(
    names: Sequence[str],
    *,
    version: str | None = None,
    data_block: str | None = None,
    wal_block: str | None = None,
    unused_seconds: float | None = None,
) -> list[Build]:
    """The named builds, or else those that meet every given condition.

    Raises UsageError for an unknown name, and without any name or condition, which must not mean all.
    """
    conditions = (version, data_block, wal_block, unused_seconds)
    if names and any(condition is not None for condition in conditions):
        raise UsageError("give names or conditions, not both")
    if names:
        return [by_name(name) for name in dict.fromkeys(names)]
    if all(condition is None for condition in conditions):
        raise UsageError(
            "no builds were chosen; pass a name, --pg, --data-block, --wal-block or --unused-for (0d for all)"
        )
    now = time.time()
    return [
        build
        for build in list_builds()
        if (version is None or answers(build.manifest["version"], version))
        and data_block in (None, build.manifest["data_block"])
        and wal_block in (None, build.manifest["wal_block"])
        and (unused_seconds is None or now - (build.prefix / MANIFEST).stat().st_mtime >= unused_seconds)
    ]


def running_from(build: Build, proc: Path = Path("/proc")) -> int | None:
    """The pid of a process that runs one of the build's programs, or None.

    It only compares paths, because another user's program may be on a filesystem that does not respond.
    """
    inside = f"{build.prefix.resolve()}/"
    for entry in proc.iterdir():
        with suppress(OSError):  # it has ended, or is another user's
            if entry.name.isdecimal() and str((entry / "exe").readlink()).startswith(inside):
                return int(entry.name)
    return None


def remove(build: Build, journal: Journal) -> int:
    """Removes a build from the cache, unless it is gone already. Returns the bytes freed.

    Raises OctavoError when one of its programs is running or it is being made.
    """

    def refuse() -> NoReturn:
        raise OctavoError(f"{build.name} is being made or changed by another process; try again when that has ended")

    with locked(build.name, refuse):
        if read_build(build.name) is None:
            return 0
        if pid := running_from(build):
            raise OctavoError(f"{build.name} is in use: process {pid} runs from it; stop that first")
        freed = size_freed([build])
        published.remove(build.prefix, journal)
    return freed


def _inodes(builds: Iterable[Build]) -> dict[tuple[int, int], tuple[os.stat_result, int]]:
    """Every inode of these builds, with the number of its links in them."""
    found: dict[tuple[int, int], tuple[os.stat_result, int]] = {}
    for build in builds:
        for directory, _, names in os.walk(build.prefix):
            for path in (directory, *(f"{directory}/{name}" for name in names)):
                facts = os.lstat(path)
                key = (facts.st_dev, facts.st_ino)
                # A directory has one name, whatever its link count (which includes the .. of its subdirectories).
                here = facts.st_nlink if path == directory else found[key][1] + 1 if key in found else 1
                found[key] = (facts, here)
    return found


def _allocated(facts: os.stat_result) -> int:
    """Bytes on disk: st_blocks counts 512-byte units whatever the filesystem's block is (stat(2))."""
    return facts.st_blocks * 512

"""Verifies that a shared tree gives the same files as a build from scratch, byte for byte."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from octavo.host.journal import Journal
from octavo.postgres.builds.cache import read_build
from octavo.postgres.builds.make import (
    FROM_SCRATCH,
    Planned,
    Report,
    ensure_builds,
    made_from_scratch,
    make_from_scratch,
    plan_builds,
    quiet,
)
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.builds.usage import remove
from octavo.postgres.source import sha256_of


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of comparing a cached build with one from scratch: the compared files, and those that differ."""

    name: str
    files: int
    differing: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether every file is the same."""
        return not self.differing


def draw(specs: Sequence[BuildSpec], count: int) -> list[BuildSpec]:
    """A random sample of so many of the specs; all of them if there are fewer."""
    return random.SystemRandom().sample(list(specs), min(count, len(specs)))


def prove(spec: BuildSpec, journal: Journal, *, local: Path | None = None, progress: Report = quiet) -> Proof:
    """Builds once more from scratch, without the compiler's cache, and compares every file with the cached build's.

    Both are read from disk, so changes to a cached build since then are detected, too. Files that an extension added
    are not compared.
    """
    (cached,) = ensure_builds([spec], journal, local=local, progress=progress)
    (planned,) = plan_builds([spec], journal, local)
    with made_from_scratch(planned, journal, progress, cached=False) as (root, _):
        again = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_symlink() or path.is_file()}
        names = sorted(again | set(cached.manifest["files"]))
        differing = [name for name in names if _content(root / name) != _content(cached.prefix / name)]
    return Proof(cached.name, len(names), tuple(differing))


def replace_derived(
    specs: Sequence[BuildSpec], journal: Journal, *, local: Path | None = None, progress: Report = quiet
) -> int:
    """Discards those of the builds that came from a shared tree, and makes each from scratch. Returns their number."""
    derived: list[Planned] = []
    for planned in plan_builds(specs, journal, local):
        build = read_build(planned.name)
        if build is not None and build.manifest["made"] != FROM_SCRATCH:
            remove(build, journal)
            derived.append(planned)
    for planned in derived:
        make_from_scratch(planned, journal, progress)
    return len(derived)


def _content(path: Path) -> str:
    """A value that distinguishes the contents of a file or link from others, and from a missing one."""
    if path.is_symlink():
        return f"link to {path.readlink()}"
    return sha256_of(path) if path.is_file() else "nothing"

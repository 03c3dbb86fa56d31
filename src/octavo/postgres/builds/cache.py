"""The cache of finished builds: one directory each, which appears under its name only once it is complete."""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.home import lock_file, make_directory, octavo_home
from octavo.host import published
from octavo.host.journal import Journal
from octavo.postgres.builds import traced, training
from octavo.postgres.builds.recipe import options
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.sources.fetched import digests
from octavo.postgres.versions import order_of

# The directory for the records of extensions that were added.
RECORDS = "extensions"


@dataclass(frozen=True, slots=True)
class Build:
    """A finished build in the cache."""

    name: str
    prefix: Path
    manifest: dict[str, Any]

    def program(self, name: str) -> Path:
        """The path of one of its programs."""
        return self.prefix / "bin" / name


def builds_directory() -> Path:
    """The directory of finished builds, one directory each."""
    return octavo_home() / "builds"


def key_of(ingredients: Mapping[str, Any]) -> str:
    """The digest of everything that a build depends on."""
    return hashlib.sha256(json.dumps(ingredients, sort_keys=True).encode()).hexdigest()[:12]


def read_build(name: str) -> Build | None:
    """The build of this name, if it is finished."""
    prefix = builds_directory() / name
    found = published.read(prefix)
    return None if found is None else Build(name, prefix, found[0])


def list_builds() -> list[Build]:
    """The finished builds, by name."""
    return [build for name in published.names(builds_directory()) if (build := read_build(name)) is not None]


def find_build(spec: BuildSpec) -> Build | None:
    """A finished build that matches the spec, newest minor version first. It reads no source and runs no compiler.

    If a matching source was fetched, builds of other sources (`--source`) do not match; they have their own names.
    """
    fetched = digests(spec.version)
    found = [
        build
        for build in list_builds()
        if build.manifest["data_block"] == spec.data_block
        and build.manifest["wal_block"] == spec.wal_block
        and build.manifest.get("data_segment") == spec.data_segment
        and build.manifest.get("traced") == (traced.digest() if spec.traced else None)
        and build.manifest.get("trained") == (training.digest() if training.is_trained(spec.options) else None)
        and build.manifest.get("compiler_command") == spec.compiler
        and (build.manifest["version"] + ".").startswith(spec.version + ".")
        and (not fetched or build.manifest.get("source_sha256") in fetched)
        and build.manifest["options"] == options(spec, build.manifest["version"])
    ]
    return max(found, key=lambda build: order_of(build.manifest["version"]), default=None)


def publish(root: Path, name: str, manifest: Mapping[str, Any]) -> Build:
    """Moves a complete installation into the cache."""
    os.sync()
    prefix = builds_directory() / name
    published.publish(root, prefix, manifest)
    return Build(name, prefix, dict(manifest))


@contextmanager
def unpublished(name: str, journal: Journal) -> Generator[Path, None, None]:
    """Yields a hidden path for a build, which does not exist yet. Anything left there at the end is removed."""
    with published.unpublished(builds_directory(), name, journal) as root:
        yield root


@contextmanager
def locked(name: str, waiting: Callable[[], None]) -> Generator[None, None, None]:
    """Holds the lock for making the build of this name. `waiting` is called when another process has it."""
    directory = make_directory(builds_directory())
    with lock_file(directory / f".{name}.lock") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield

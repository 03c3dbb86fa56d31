"""The other builds that a build is checked with: another block size, another version of the same sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from octavo.postgres.builds import cross
from octavo.postgres.builds.cache import Build
from octavo.postgres.limits import DEFAULT_BLOCK, MAJOR_VERSIONS
from octavo.postgres.versions import is_release, major_of, order_of
from octavo.units import parse_size

_SIZES = ("data_block", "wal_block", "data_segment")
_DEFAULTS = {"data_segment": "1GB"}
# What a related build should share, so that a difference is one of sizes or versions only.
_LIKE = ("compiler", "compiler_command", "options")


class Skip(Exception):
    """Raised by an operation that cannot be tried here; its text is the reason and the way out."""


@dataclass(frozen=True, slots=True)
class RelatedBuilds:
    """The other builds that operations need, one for each role; None if the cache has none.

    An operation without its build raises Skip with the command that makes it.
    """

    build: Build
    another_data_block: Build | None
    another_wal_block: Build | None
    same_major: Build | None
    older_major: Build | None

    def need_another_data_block(self) -> Build:
        """A build of the same version that differs in its data block alone."""
        data_block = "4kB" if self.build.manifest["data_block"] == "8kB" else "8kB"
        return self._need(self.another_data_block, "another data block", data_block=data_block)

    def need_another_wal_block(self) -> Build:
        """A build of the same version that differs in its WAL block alone."""
        wal_block = "16kB" if self.build.manifest["wal_block"] == "8kB" else "8kB"
        return self._need(self.another_wal_block, "another WAL block", wal_block=wal_block)

    def need_older_major(self) -> Build:
        """A build of an older major version with the same sizes."""
        major = major_of(self.build.manifest["version"])
        older = next((one for one in MAJOR_VERSIONS if int(one) < major), str(major - 1))
        return self._need(self.older_major, "an older major version with these sizes", version=older)

    def need_same_major(self) -> Build:
        """A build of the same major version, not newer, with the same sizes; minor version or options may differ."""
        what = "this major version and these sizes, of another minor version or with other options,"
        version = self.build.manifest["version"]
        major, _, minor = order_of(version)
        if is_release(version) and minor > 0:
            return self._need(self.same_major, what, version=f"{major}.{minor - 1}")
        has_symbols = "-Ddebug=true" in self.build.manifest["options"]
        return self._need(self.same_major, what, "" if has_symbols else " --debug-symbols")

    def _need(self, found: Build | None, what: str, options: str = "", **wanted: str) -> Build:
        if found is not None:
            return found
        manifest = {**_DEFAULTS, **self.build.manifest, **wanted}
        sizes = f"--data-block {manifest['data_block']} --wal-block {manifest['wal_block']}"
        if manifest["data_segment"] != _DEFAULTS["data_segment"]:
            sizes += f" --data-segment {manifest['data_segment']}"
        version = manifest["version"]
        if str(major_of(version)) not in MAJOR_VERSIONS:  # which octavo build makes of the user's own source alone
            options += " --source ITS_SOURCE"
        raise Skip(f"no build of {what} in the cache; make one with: octavo build {sizes} --pg {version}{options}")


def choose(build: Build, others: Sequence[Build]) -> RelatedBuilds:
    """The related builds of a build among others that run here: as much like it as possible, then nearest to the
    default 8 kB."""
    candidates = [other for other in others if other.prefix != build.prefix and _runs_here(other)]
    same_version = [other for other in candidates if other.manifest["version"] == build.manifest["version"]]
    same_sizes = [other for other in candidates if all(_size(other, name) == _size(build, name) for name in _SIZES)]
    major = major_of(build.manifest["version"])
    older = [other for other in same_sizes if major_of(other.manifest["version"]) < major]
    return RelatedBuilds(
        build,
        another_data_block=_best(build, [other for other in same_version if _differ(build, other) == {"data_block"}]),
        another_wal_block=_best(build, [other for other in same_version if _differ(build, other) == {"wal_block"}]),
        same_major=_best(build, [other for other in same_sizes if _updates(build, other)]),
        older_major=max(
            older, key=lambda other: (order_of(other.manifest["version"]), _likeness(build, other)), default=None
        ),
    )


def _runs_here(build: Build) -> bool:
    return cross.cannot_run(build.manifest.get("compiler_command", "gcc")) is None


def _updates(build: Build, old: Build) -> bool:
    """Whether the build takes the old one's place: a major version's catalogs are final with its release."""
    new, before = build.manifest["version"], old.manifest["version"]
    if not (is_release(new) and is_release(before)):
        return new == before
    return major_of(new) == major_of(before) and order_of(before) <= order_of(new)


def _differ(build: Build, other: Build) -> set[str]:
    return {name for name in _SIZES if _size(build, name) != _size(other, name)}


def _best(build: Build, candidates: Sequence[Build]) -> Build | None:
    return max(
        candidates,
        key=lambda other: (_likeness(build, other), [-abs(_size(other, name) - DEFAULT_BLOCK) for name in _SIZES[:2]]),
        default=None,
    )


def _likeness(build: Build, other: Build) -> int:
    return sum(build.manifest.get(name) == other.manifest.get(name) for name in _LIKE)


def _size(build: Build, name: str) -> int:
    value: Any = build.manifest.get(name, _DEFAULTS.get(name))
    return parse_size(value)


def described(build: Build) -> str:
    """A build in the words of its manifest."""
    manifest = build.manifest
    return f"{manifest['version']} with {manifest['data_block']} data and {manifest['wal_block']} WAL blocks"

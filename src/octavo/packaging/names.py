"""The names of a package and of its contents."""

import hashlib
import json
from dataclasses import dataclass

from octavo.postgres.builds.cache import Build
from octavo.postgres.builds.recipe import options
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.versions import is_release, major_of


@dataclass(frozen=True, slots=True)
class PackageNames:
    """The names that every format is made from.

    >>> PackageNames("18.6", "b4w8").package, PackageNames("18.6", "b4w8").version, PackageNames("18.6", "b4w8").place
    ('octavo-postgresql-18-b4w8', '18.6+b4w8', '18-b4w8')
    """

    release: str
    label: str

    @property
    def major(self) -> str:
        """The major version."""
        return str(major_of(self.release))

    @property
    def package(self) -> str:
        """The package's name: one a major version and label, so that a minor version is an upgrade."""
        return f"octavo-postgresql-{self.major}-{self.label}"

    @property
    def version(self) -> str:
        """The release, and after a `+` the differences from the distribution's (deb-version(7) sorts it as intended).

        A `~` sorts before nothing at all: 19~~devel comes before 19~beta1, and that before 19.0.
        """
        before_release = "" if is_release(self.release) else "~~" if self.release.endswith("devel") else "~"
        release = self.release.replace(self.major, f"{self.major}{before_release}", 1)
        return f"{release}+{self.label.replace('-', '.')}"

    @property
    def place(self) -> str:
        """The directory below /opt/octavo/postgresql: a minor upgrade keeps it, for scripts and units name it."""
        return f"{self.major}-{self.label}"


def names_of(build: Build) -> PackageNames:
    """The names of a build's package.

    A build that differs from the default one in more than its sizes gets a digest of how it differs in its label,
    so that the two can be installed together.
    """
    facts = build.manifest
    spec = BuildSpec(facts["version"], facts["data_block"], facts["wal_block"], facts["data_segment"])
    label = spec.sizes.label
    compiled = [facts["compiler_command"], facts["options"]]
    if compiled != [spec.compiler, options(spec, spec.version)]:
        label += f"-{hashlib.sha256(json.dumps(compiled).encode()).hexdigest()[:8]}"
    return PackageNames(spec.version, label)

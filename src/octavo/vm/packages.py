"""Debian's packages of another architecture: a kernel, and what a PostgreSQL server needs to run; fetched by apt."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import HostError, OctavoError
from octavo.host import apt, children, trees
from octavo.host.apt import Apt
from octavo.host.children import Finished
from octavo.host.journal import Journal
from octavo.vm.kernels import POSTGRES, SUITE, Machine

_ROOTS = (f"postgresql-{POSTGRES}", f"postgresql-client-{POSTGRES}", "busybox-static")
# Depended on by the packages' scripts, by who logs in, or by just-in-time compilation, and by no program that runs.
_NOT_NEEDED = re.compile(
    r"perl.*|.*-perl|lib(perl|llvm|z3|debconf|sem|sepol|bsd|md0|gdbm|db5|proc).*|debconf.*|adduser|passwd|base-passwd"
    r"|locales|libc-l10n|openssl.*|ssl-cert|sensible-utils|ucf|procps|netbase|readline-common|login.*"
    r"|init-system-helpers|sysvinit-utils|gcc-.*|postgresql-common.*|libpam-modules.*"
)
# What apt prints with --print-uris: 'URI' FILE SIZE HASH; the file's name is package_version_architecture.deb.
_URI = re.compile(r"'[^']*' (([a-z0-9][a-z0-9+.-]*)_([A-Za-z0-9+.~%-]+)_(?:[a-z0-9]+)\.deb) ([0-9]{1,12}) ?\S*")
_MOST_BYTES = 1024**3


@dataclass(frozen=True, slots=True)
class Package:
    """A package in the archive: its name, its version, the file's name there and its size in bytes."""

    name: str
    version: str
    file: str
    size: int


@dataclass(frozen=True, slots=True)
class Archive:
    """Debian's archive for a machine, its lists read."""

    own: Apt
    machine: Machine

    def system(self) -> list[Package]:
        """The packages of a system that runs a PostgreSQL server. Raises HostError if apt cannot list them."""
        found = self._closure(*_ROOTS)
        return [package for package in found if not _NOT_NEEDED.fullmatch(package.name)]

    def kernel(self, meta: str) -> Package:
        """The kernel's package that a meta package stands for. Raises HostError when the suite has none."""
        finished = self.own.run("apt-cache", "depends", "--important", meta)
        names = re.findall(r"Depends: (linux-image-\d[a-z0-9.+-]*)", finished.stdout)
        if finished.returncode != 0 or not names:
            raise HostError(f"Debian's {SUITE} has no {meta}: {apt.problem(finished) or 'it depends on no kernel'}")
        found = listed(self._apt_get("download", "--print-uris", names[0]))
        if len(found) != 1:
            raise HostError(f"Debian's {SUITE} lists {names[0]} without a location; try again later")
        return found[0]

    def fetch(self, packages: Sequence[Package], into: Path) -> None:
        """Downloads them into the account's directory. Raises HostError."""
        wanted = [f"{package.name}={package.version}" for package in packages]
        _check(self.own.run("apt-get", "download", *wanted, directory=into))

    def _closure(self, *names: str) -> list[Package]:
        return listed(self._apt_get("install", "--print-uris", "--yes", "--no-install-recommends", *names))

    def _apt_get(self, *arguments: str) -> str:
        return _check(self.own.run("apt-get", *arguments)).stdout


def open_archive(machine: Machine, scratch: Path, journal: Journal) -> Archive:
    """Reads the archive's lists for the machine in a scratch directory of ours. Raises HostError."""
    own = Apt(scratch, journal, machine.debian, children.build_account())
    suites = {"debian": [SUITE], "debian-security": [f"{SUITE}-security"]}
    own.set_up(apt.sources_text(apt.archives(), suites, "deb"))
    _check(own.run("apt-get", "update", "--error-on=any"))
    return Archive(own, machine)


def _check(finished: Finished) -> Finished:
    """The same, unless apt failed. Raises HostError."""
    if finished.returncode != 0:
        raise HostError(f"Debian: {apt.problem(finished)}; check the network and /etc/apt, then run this again")
    return finished


def listed(text: str) -> list[Package]:
    """The packages of apt's --print-uris, by name. Raises OctavoError when they are too large.

    >>> listed("'http://x/a_1%3a2-1_arm64.deb' a_1%3a2-1_arm64.deb 12 SHA256:00\\nReading...\\n")
    [Package(name='a', version='1:2-1', file='a_1%3a2-1_arm64.deb', size=12)]
    """
    found = {
        match[2]: Package(match[2], match[3].replace("%3a", ":"), match[1], int(match[4]))
        for line in text.splitlines()
        if (match := _URI.fullmatch(line.strip()))
    }
    if sum(package.size for package in found.values()) > _MOST_BYTES:
        raise OctavoError("Debian: the packages are larger than 1 GB, the limit")
    return [found[name] for name in sorted(found)]


def identity(packages: Sequence[Package], *further: str) -> str:
    """A digest of what an image is made from: the packages with their versions, and further words."""
    words = [*(f"{package.name}={package.version}" for package in packages), *further]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:12]


def downloads(scratch: Path) -> Path:
    """A new directory of the account's to download into."""
    return trees.make_for(scratch / "packages", children.build_account())

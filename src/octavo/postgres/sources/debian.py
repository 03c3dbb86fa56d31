"""Debian's source packages: the upstream tarball in them, with apt's own checks of signature and digests."""

import re
from pathlib import Path

from octavo.errors import HostError
from octavo.host import apt
from octavo.host.apt import Apt
from octavo.host.journal import Journal
from octavo.postgres.sources.base import SIGNED, version_in_name
from octavo.postgres.versions import answers, is_release, is_version, major_of, order_of


def fetch(wanted: str, scratch: Path, journal: Journal, /) -> tuple[Path, str]:
    """Fetches the newest matching version from all suites that have one.

    Suites are this machine's release, stable (each with its security updates) and unstable, which together have
    every supported major version. The machine's apt configuration is read for the archive's address and not
    changed: lists and caches are private.
    """
    addresses = apt.archives()
    own = Apt(scratch, journal)
    release = apt.release()
    suites = {
        "debian": [*release, "stable", "unstable"],
        "debian-security": [*(f"{name}-security" for name in release), "stable-security"],
    }
    own.set_up(apt.sources_text(addresses, suites, "deb-src"))
    updated = own.run("apt-get", "update")
    package = f"postgresql-{major_of(wanted)}"
    offered = _offered(own.run("apt-cache", "showsrc", "--only-source", package).stdout)
    chosen = [
        (version, full)
        for version, full in offered
        if answers(version, wanted) and (is_release(version) or version == wanted)
    ]
    if not chosen:
        problem = apt.problem(updated)
        if offered:
            problem = f"it has {', '.join(sorted({version for version, _ in offered}, key=order_of))} of {package}"
        raise HostError(f"Debian: {problem or f'no suite has {package}'}")
    problem = ""
    # A mirror may list a version that it does not have yet; then the next older one is the newest available.
    for _, full in sorted(chosen, key=lambda offer: order_of(offer[0]), reverse=True):
        download = scratch / f"{package}={full}"
        download.mkdir()
        finished = own.run("apt-get", "source", "--download-only", f"{package}={full}", directory=download)
        tarballs = [path for path in download.glob("*.orig.tar.*") if version_in_name(path)]
        if finished.returncode == 0 and tarballs:
            (description,) = download.glob("*.dsc")
            return tarballs[0], f"Debian source package {description.stem}, {SIGNED}"
        problem = problem or apt.problem(finished)
    raise HostError(f"Debian: {problem}")


def _offered(listing: str) -> list[tuple[str, str]]:
    """The versions in apt-cache's listing: PostgreSQL's, and the package's full one.

    >>> _offered("Package: postgresql-19\\nVersion: 19~beta1-2\\n\\nVersion: 15.18-0+deb12u1\\n")
    [('19beta1', '19~beta1-2'), ('15.18', '15.18-0+deb12u1')]
    """
    found: list[tuple[str, str]] = []
    for full in dict.fromkeys(re.findall(r"^Version: (\S+)$", listing, re.MULTILINE)):
        version = full.rpartition("-")[0].replace("~", "")
        if is_version(version):
            found.append((version, full))
    return found

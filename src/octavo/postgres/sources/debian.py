"""Debian's source packages: upstream's tarball out of them, with apt's own checks of signature and digests."""

import os
import platform
import re
import shutil
from pathlib import Path

from octavo.errors import HostError
from octavo.host import children
from octavo.host.children import Finished
from octavo.host.journal import Journal
from octavo.postgres.sources.base import SIGNED, version_in_name
from octavo.postgres.versions import answers, is_release, is_version, major_of, order_of

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def fetch(wanted: str, scratch: Path, journal: Journal, /) -> tuple[Path, str]:
    """Fetches the newest version that answers out of all suites that have one.

    Suites are this machine's release, stable (each with its security updates) and unstable, which together have
    every supported major version. The machine's apt configuration is read for the archive's address and not
    changed: lists and caches are private.
    """
    addresses = _archives()
    if "debian" not in addresses or shutil.which("apt-get") is None:
        raise HostError("Debian: this system has no Debian archive in its apt sources")
    if not _KEYRING.exists():
        raise HostError(f"Debian: {_KEYRING} is missing; install debian-archive-keyring")
    apt = _Apt(scratch, journal)
    (scratch / "archive.sources").write_text(_sources_text(addresses))
    updated = apt.run("apt-get", "update")
    package = f"postgresql-{major_of(wanted)}"
    offered = _offered(apt.run("apt-cache", "showsrc", "--only-source", package).stdout)
    chosen = [
        (version, full)
        for version, full in offered
        if answers(version, wanted) and (is_release(version) or version == wanted)
    ]
    if not chosen:
        problem = _problem(updated)
        if offered:
            problem = f"it has {', '.join(sorted({version for version, _ in offered}, key=order_of))} of {package}"
        raise HostError(f"Debian: {problem or f'no suite has {package}'}")
    problem = ""
    # A mirror may list what it does not have yet, so that the next older version is the newest to be had.
    for _, full in sorted(chosen, key=lambda offer: order_of(offer[0]), reverse=True):
        download = scratch / f"{package}={full}"
        download.mkdir()
        finished = apt.run("apt-get", "source", "--download-only", f"{package}={full}", directory=download)
        tarballs = [path for path in download.glob("*.orig.tar.*") if version_in_name(path)]
        if finished.returncode == 0 and tarballs:
            (description,) = download.glob("*.dsc")
            return tarballs[0], f"Debian source package {description.stem}, {SIGNED}"
        problem = problem or _problem(finished)
    raise HostError(f"Debian: {problem}")


class _Apt:
    """apt with lists and caches of its own below a scratch directory."""

    def __init__(self, scratch: Path, journal: Journal) -> None:
        self._scratch = scratch
        self._journal = journal
        for part in ("lists/partial", "cache/archives/partial"):
            (scratch / part).mkdir(parents=True)
        self._options = (
            "-o", f"Dir::State::lists={scratch / 'lists'}",
            "-o", f"Dir::Cache={scratch / 'cache'}",
            "-o", f"Dir::Etc::sourcelist={scratch / 'archive.sources'}",
            "-o", "Dir::Etc::sourceparts=-",
            "-o", "APT::Sandbox::User=",
            "-o", "Acquire::Languages=none",
            # Whatever the machine allows itself: no index without a good signature, no source that is in none.
            "-o", "APT::Get::AllowUnauthenticated=false",
            "-o", "Acquire::AllowInsecureRepositories=false",
            "-o", "Acquire::AllowWeakRepositories=false",
            "-o", "Acquire::AllowDowngradeToInsecureRepositories=false",
        )  # fmt: skip

    def run(self, program: str, *arguments: str, directory: Path | None = None) -> Finished:
        """Runs apt-get or apt-cache to its end."""
        return children.run(
            [program, "-q", *self._options, *arguments],
            self._journal,
            role=program,
            directory=directory or self._scratch,
        )


def _sources_text(addresses: dict[str, str]) -> str:
    release = _release()
    suites = {"debian": [*release, "stable", "unstable"]}
    if "debian-security" in addresses:
        suites["debian-security"] = [*(f"{name}-security" for name in release), "stable-security"]
    return "\n".join(
        f"Types: deb-src\nURIs: {addresses[archive]}\nSuites: {' '.join(names)}\n"
        f"Components: main\nSigned-By: {_KEYRING}\n"
        for archive, names in suites.items()
    )


def _release() -> list[str]:
    """This machine's Debian release by its codename, if it is one that has a name in the archive."""
    try:
        facts = platform.freedesktop_os_release()
    except OSError:
        return []
    return [facts["VERSION_CODENAME"]] if facts.get("ID") == "debian" and "VERSION_CODENAME" in facts else []


def _archives() -> dict[str, str]:
    """The addresses of the archives `debian` and `debian-security` in this machine's apt sources."""
    directory = Path("/etc/apt")
    found: dict[str, str] = {}
    for file in (directory / "sources.list", *sorted((directory / "sources.list.d").glob("*"))):
        if not file.is_file() or not os.access(file, os.R_OK):
            continue
        for line in file.read_text(errors="replace").splitlines():
            match = re.match(r"\s*(?:URIs:|deb\s+(?:\[[^]]*\]\s+)?)\s*(\S+/(debian|debian-security)/?)(?:\s|$)", line)
            if match:
                found.setdefault(match[2], match[1])
    return found


def _offered(listing: str) -> list[tuple[str, str]]:
    """The versions in apt-cache's listing: PostgreSQL's, and the package's whole one.

    >>> _offered("Package: postgresql-19\\nVersion: 19~beta1-2\\n\\nVersion: 15.18-0+deb12u1\\n")
    [('19beta1', '19~beta1-2'), ('15.18', '15.18-0+deb12u1')]
    """
    found: list[tuple[str, str]] = []
    for full in dict.fromkeys(re.findall(r"^Version: (\S+)$", listing, re.MULTILINE)):
        version = full.rpartition("-")[0].replace("~", "")
        if is_version(version):
            found.append((version, full))
    return found


def _problem(finished: Finished) -> str:
    """What apt says is wrong: its first line that begins with E."""
    lines = [line[3:] for line in finished.stderr.splitlines() if line.startswith(("E: ", "W: "))]
    return lines[0] if lines else finished.stderr.strip().partition("\n")[0]

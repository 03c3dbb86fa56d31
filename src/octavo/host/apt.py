"""apt with lists and caches of its own: packages from this machine's Debian archive, verified by apt itself.

The machine's apt configuration is read for the archive's address and not changed.
"""

import os
import platform
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import HostError
from octavo.host import children, trees
from octavo.host.children import Account, Finished
from octavo.host.journal import Journal

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Of sources.list(5), in both formats: whose keys sign an archive, and its address.
_KEYS = re.compile(r"signed-by\s*[:=]\s*(\S*)", re.IGNORECASE)
_DEBIANS = "debian-archive"  # in the names of all files of the package debian-archive-keyring
_ARCHIVE = re.compile(r"\s*(?:URIs:|deb\s+(?:\[[^]]*\]\s+)?)\s*(\S+/(debian|debian-security)(?:/|\.list)?)(?:\s|$)")


@dataclass(frozen=True, slots=True)
class Apt:
    """apt that works in a scratch directory, for packages of `architecture` (Debian's name; None for this machine's).

    It runs as the account, which has directories of its own in there, else as ourselves.
    """

    scratch: Path
    journal: Journal
    architecture: str | None = None
    account: Account | None = None

    def set_up(self, sources: str) -> None:
        """Makes what apt needs, with these `sources` (deb822), in the scratch directory, which is ours."""
        for part, below in (("lists", "partial"), ("cache", "archives/partial")):
            if self.account is None:
                (self.scratch / part / below).mkdir(parents=True)
            else:
                tree = trees.make_for(self.scratch / part, self.account)
                trees.act_inside(tree, ["mkdir", "-p", below], self.journal, self.account)
        (self.scratch / "status").touch()
        (self.scratch / "archive.sources").write_text(sources)

    def run(self, program: str, *arguments: str, directory: Path | None = None) -> Finished:
        """Runs apt-get or apt-cache to its end."""
        return children.run(
            [program, "-q", *self._options(), *arguments],
            self.journal,
            role=program,
            account=self.account,
            network=True,
            directory=directory or self.scratch,
        )

    def _options(self) -> list[str]:
        settings = [
            f"Dir::State::lists={self.scratch / 'lists'}",
            f"Dir::Cache={self.scratch / 'cache'}",
            f"Dir::Etc::sourcelist={self.scratch / 'archive.sources'}",
            "Dir::Etc::sourceparts=-",
            "APT::Sandbox::User=",
            "Acquire::Languages=none",
            # Whatever the machine allows itself: no index without a good signature, no package that is in none.
            "APT::Get::AllowUnauthenticated=false",
            "Acquire::AllowInsecureRepositories=false",
            "Acquire::AllowWeakRepositories=false",
            "Acquire::AllowDowngradeToInsecureRepositories=false",
        ]
        if self.architecture is not None:
            # Another machine, on which nothing is installed yet.
            settings += [
                f"Dir::State::status={self.scratch / 'status'}",
                f"APT::Architecture={self.architecture}",
                f"APT::Architectures::={self.architecture}",
            ]
        return [word for setting in settings for word in ("-o", setting)]


def archives() -> dict[str, str]:
    """The addresses of the archives `debian` and `debian-security` in this machine's apt sources.

    Raises HostError where there is no Debian archive, apt-get or keyring.
    """
    found = addresses()
    if "debian" not in found or shutil.which("apt-get") is None:
        raise HostError("Debian: this system has no Debian archive in its apt sources")
    if not KEYRING.exists():
        raise HostError(f"Debian: {KEYRING} is missing; install debian-archive-keyring")
    return found


def addresses(directory: Path = Path("/etc/apt")) -> dict[str, str]:
    """Those that the sources in the directory name, whatever else is missing.

    Archives of others are called debian, too: docker's, citus', those of packagecloud. They are signed by other keys.
    Debian's cloud images name a file of mirrors instead of an archive (apt-transport-mirror(1)).
    """
    found: dict[str, str] = {}
    for file in (directory / "sources.list", *sorted((directory / "sources.list.d").glob("*"))):
        if not file.is_file() or not os.access(file, os.R_OK):
            continue
        text = file.read_text(errors="replace")
        for source in re.split(r"\n\s*\n", text) if file.suffix == ".sources" else text.splitlines():
            keys = _KEYS.search(source)
            for line in source.splitlines() if keys is None or _DEBIANS in keys[1] else ():
                if match := _ARCHIVE.match(line):
                    found.setdefault(match[2], match[1])
    return found


def sources_text(addresses: Mapping[str, str], suites: Mapping[str, list[str]], kind: str) -> str:
    """apt's sources (deb822) of this kind, deb or deb-src, for the suites of each archive."""
    return "\n".join(
        f"Types: {kind}\nURIs: {addresses[archive]}\nSuites: {' '.join(names)}\n"
        f"Components: main\nSigned-By: {KEYRING}\n"
        for archive, names in suites.items()
        if archive in addresses
    )


def release() -> list[str]:
    """This machine's Debian release by its codename, if it is one that has a name in the archive."""
    try:
        facts = platform.freedesktop_os_release()
    except OSError:
        return []
    return [facts["VERSION_CODENAME"]] if facts.get("ID") == "debian" and "VERSION_CODENAME" in facts else []


def problem(finished: Finished) -> str:
    """apt's problem: its first line that begins with E or W."""
    lines = [line[3:] for line in finished.stderr.splitlines() if line.startswith(("E: ", "W: "))]
    return lines[0] if lines else finished.stderr.strip().partition("\n")[0]

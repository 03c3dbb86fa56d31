"""Clean Debians to install packages in: made once per suite, from the archive that this host's apt uses."""

import platform
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.namespaces import LET_VOLUMES_GO
from tests.tools import needs

from octavo.home import make_directory
from octavo.host import children
from octavo.host.journal import Journal

needs_debootstrap = needs("debootstrap")


def this_suite() -> str:
    """The code name of this host's release; empty if it has none."""
    return platform.freedesktop_os_release().get("VERSION_CODENAME", "")


@contextmanager
def clean_debian(home: Path, journal: Journal, suite: str, packages: Sequence[str] = ()) -> Generator[Path, None, None]:
    """The root of a minimal Debian with these packages, for one user; skips the test if it cannot be made."""
    kept = _tarball(home, journal, suite, packages)
    root = home / f"debian-{suite}"
    root.mkdir()
    try:
        _output(journal, "tar", "--extract", "--same-permissions", "--directory", root, "--file", kept)
        shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
        yield root
    finally:
        shutil.rmtree(root)


def _tarball(home: Path, journal: Journal, suite: str, packages: Sequence[str]) -> Path:
    """The Debian as a tarball, kept in the directory of the builds."""
    own = this_suite()
    archives = _output(
        journal, "apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages"
    )
    addresses = [line.split()[1] for line in archives.splitlines() if line.split()[0] == own]
    if not addresses:
        pytest.skip(f"apt knows no archive of {own or 'this suite'}; apt-get update first")
    directory = make_directory((home / "builds").resolve().parent / "debian")
    kept = directory / f"{'-'.join((suite, *packages, platform.machine()))}.tar.gz"
    if kept.exists():
        return kept
    root = home / "debootstrap"
    chosen = [f"--include={','.join(packages)}"] if packages else []
    try:
        # A mount namespace of its own: its mounts disappear with it, however it ends.
        made = children.run(
            ["unshare", "--mount", "sh", "-c", f'{LET_VOLUMES_GO} && exec "$@"', "sh",
             "debootstrap", "--variant=minbase", *chosen, suite, root, addresses[0]],
            journal,
            role="debootstrap",
        )  # fmt: skip
        if made.returncode != 0:
            pytest.skip(f"debootstrap: {(made.stdout + made.stderr).strip().splitlines()[-1]}")
        _output(journal, "chroot", root, "apt-get", "clean")
        _output(journal, "tar", "--create", "--gzip", "--directory", root, "--file", kept.with_suffix(".part"), ".")
        kept.with_suffix(".part").rename(kept)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return kept


def _output(journal: Journal, *arguments: str | Path) -> str:
    return children.check(children.run(arguments, journal, role="test"), str(arguments[0])).stdout

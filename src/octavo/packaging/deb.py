"""`--package deb`: a Debian package (deb(5)) below /opt, beside the distribution's own PostgreSQL."""

import hashlib
import os
import shutil
from pathlib import Path

from octavo.errors import HostError
from octavo.host import children
from octavo.host.children import build_account
from octavo.host.journal import Journal
from octavo.packaging.archive import write_ar, write_tar
from octavo.packaging.contents import PackageContents, lay_out
from octavo.packaging.names import names_of
from octavo.postgres.builds.cache import Build
from octavo.text import one_line
from octavo.units import parse_size

_PLACE = "opt/octavo/postgresql"


def write(build: Build, scratch: Path, journal: Journal, local: Path | None) -> Path:
    """Writes the .deb below the scratch directory. Raises HostError without dpkg-dev."""
    if shutil.which("dpkg-shlibdeps", path=children.PLAIN_PATH) is None:
        raise HostError("dpkg-shlibdeps is missing; install dpkg-dev, or take --package tar, which needs no dpkg")
    names = names_of(build)
    root = scratch / "root"
    contents = lay_out(build, root / _PLACE / names.place, scratch, journal, local)
    documents = root / "usr" / "share" / "doc" / names.package
    documents.mkdir(parents=True)
    # Where Debian's policy (12.5) wants it, and where images that leave documentation out keep it.
    (documents / "copyright").write_text(_copyright(contents))
    control = scratch / "control"
    control.mkdir()
    architecture = children.check(
        children.run(["dpkg", "--print-architecture"], journal, role="dpkg", account=build_account()),
        "asking dpkg for the architecture",
    ).stdout.strip()
    depends = _depends(contents, root, scratch, journal)
    (control / "control").write_text(control_file(contents, architecture, depends, _installed_kilobytes(root)))
    (control / "md5sums").write_text(_md5sums(root))

    version = scratch / "debian-binary"
    version.write_text("2.0\n")
    epoch = contents.release.epoch
    write_tar(control, scratch / "control.tar.xz", epoch)
    write_tar(root, scratch / "data.tar.xz", epoch)
    path = scratch / f"{names.package}_{names.version}_{architecture}.deb"
    write_ar((version, scratch / "control.tar.xz", scratch / "data.tar.xz"), path, epoch)
    return path


def control_file(contents: PackageContents, architecture: str, depends: str, installed_kilobytes: int) -> str:
    """The control file (deb-control(5)); DEBFULLNAME and DEBEMAIL name the maintainer, as with Debian's tools."""
    names = contents.names
    maintainer = one_line(os.environ.get("DEBFULLNAME", "Octavo"))
    address = one_line(os.environ.get("DEBEMAIL", "octavo@localhost"))
    data, wal = (parse_size(block) // 1024 for block in (contents.data_block, contents.wal_block))
    fields = {
        "Package": names.package,
        "Version": names.version,
        "Architecture": architecture,
        "Maintainer": f"{maintainer} <{address}>",
        "Installed-Size": str(installed_kilobytes),
        "Depends": depends,
        "Section": "database",
        "Priority": "optional",
        "Homepage": "https://www.postgresql.org/",
        "Description": f"PostgreSQL {names.major} with {data} kB data and {wal} kB WAL blocks",
    }
    text = "".join(f"{name}: {value}\n" for name, value in fields.items())
    return (
        f"{text} Server, client programs, contrib modules, headers and PGXS in /{_PLACE}/{names.place}.\n"
        " It has no part in the clusters of the distribution's PostgreSQL, and a data\n"
        " directory of another block size is refused: make one with its own initdb.\n"
    )


def _depends(contents: PackageContents, root: Path, scratch: Path, journal: Journal) -> str:
    """The packages that hold the needed libraries, in versions that have the symbols (dpkg-shlibdeps(1))."""
    place = scratch / "dependencies"
    (place / "debian").mkdir(parents=True)
    name = contents.names.package
    (place / "debian" / "control").write_text(f"Source: {name}\n\nPackage: {name}\nArchitecture: any\n")
    # By this directory it knows the root of the package, and with it where $ORIGIN leads.
    (root / "DEBIAN").mkdir()
    try:
        finished = children.run(
            ["dpkg-shlibdeps", "-O", f"-S{root}", *(f"-e{path}" for path in contents.linkage.files)],
            journal,
            role="dpkg-shlibdeps",
            account=build_account(),
            directory=place,
        )
    finally:
        (root / "DEBIAN").rmdir()
    return children.check(finished, "dpkg-shlibdeps").stdout.strip().removeprefix("shlibs:Depends=")


def _copyright(contents: PackageContents) -> str:
    names = contents.names
    return (
        f"PostgreSQL {names.release} with {contents.data_block} data and {contents.wal_block} WAL blocks,\n"
        "built by Octavo; PostgreSQL's releases are at https://www.postgresql.org/ftp/source/, and the source of this\n"
        f"build is that whose SHA-256 is in /{_PLACE}/{names.place}/share/doc/build.json.\n"
        f"The licence files of the source follow.\n\n{contents.release.copyright()}"
    )


def _installed_kilobytes(root: Path) -> int:
    """As dpkg-gencontrol(1) counts, on no filesystem in particular: files in whole kB, anything else 1 kB."""
    return sum(
        -(-path.stat().st_size // 1024) if path.is_file() and not path.is_symlink() else 1 for path in root.rglob("*")
    )


def _md5sums(root: Path) -> str:
    """What `dpkg --verify` reads."""
    return "".join(
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {path.relative_to(root)}\n"
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    )

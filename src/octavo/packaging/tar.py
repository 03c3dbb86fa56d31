"""`--package tar`: one directory that runs wherever it is unpacked."""

import platform
from pathlib import Path

from octavo.host.journal import Journal
from octavo.packaging.archive import write_tar
from octavo.packaging.contents import lay_out
from octavo.packaging.names import names_of
from octavo.postgres.builds.cache import Build


def write(build: Build, scratch: Path, journal: Journal, local: Path | None) -> Path:
    """Writes the tar.xz below the scratch directory. It raises what every format does."""
    names = names_of(build)
    root = scratch / "root"
    contents = lay_out(build, root / f"octavo-postgresql-{names.version}", scratch, journal, local)
    path = scratch / f"octavo-postgresql-{names.version}-linux-{platform.machine()}.tar.xz"
    write_tar(root, path, contents.release.epoch)
    return path

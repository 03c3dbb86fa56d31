"""`octavo build --package`: packages of finished builds."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octavo.host.journal import Journal
    from octavo.postgres.builds.cache import Build

_HOW_TO_INSTALL = {
    "deb": "as root: apt install {}",
    "tar": "unpack it anywhere: tar xf {}",
}


def package(
    builds: "Iterable[Build]", format: str, directory: Path, journal: "Journal", local: Path | None = None
) -> None:
    """Writes a package of each build into the directory, and prints its path. `local` is the source that was given."""
    from octavo.packaging import package as write_package
    from octavo.units import human_size

    for build in builds:
        path = write_package(build, format, directory, journal, local=local).absolute()
        print(f"{human_size(path.stat().st_size)}; {_HOW_TO_INSTALL[format].format(path)}", file=sys.stderr)
        print(path, flush=True)

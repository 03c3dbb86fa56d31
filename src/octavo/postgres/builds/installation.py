"""Laying out an installation, and its manifest."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.host import children
from octavo.host.children import build_account
from octavo.host.journal import Journal
from octavo.postgres.builds import cross
from octavo.postgres.builds.recipe import PREFIX, RUN_PATH, RUN_PATH_FOR_MAKE, SOURCE_PLACE
from octavo.postgres.source import Source, sha256_of

_ELF = b"\x7fELF"
# The run path of a program, and the part that a compilation adds for programs that run from its own tree. Meson removes
# that part only in `meson install`; left in, it could be a directory of somebody else's.
_SEARCHED = b"$ORIGIN/../lib"


@dataclass(frozen=True, slots=True)
class InstalledFiles:
    """An installation as pairs: files (source, destination), and symbolic links (target, path)."""

    files: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...]


def lay_out(installed: InstalledFiles, destination: Path, work: Path) -> Path:
    """Copies an installation below the destination. Returns the directory of the prefix."""
    for source, target in installed.files:
        path = destination / target.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if Path(source).is_dir():
            shutil.copytree(source, path, dirs_exist_ok=True)
        else:
            shutil.copy(source, path)
    for text, target in installed.links:
        (destination / target.lstrip("/")).symlink_to(text)
    root = destination / PREFIX.lstrip("/")
    make_portable(root, work)
    return root


def make_portable(root: Path, work: Path) -> None:
    """Makes an installation independent of where it was made, and relocatable.

    - A text that names the workspace names one neutral place instead.
    - Programs look for libraries in the installation and where the system has its own. The regression drivers are
      deeper below lib than a program is, and look beside their own directory.
    - make takes the dollar of `$ORIGIN` in Makefile.global as its own, and pkg-config's files name the prefix, where
      `pcfiledir` (pkg-config(1)) is the directory that they are in.
    """
    before, after = str(work).encode(), SOURCE_PLACE.encode()
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if content.startswith(_ELF):
                _cut_run_path(path, content)
                searched = path.parent.parent / "lib"
                if not searched.exists():
                    searched.symlink_to(os.path.relpath(root / "lib", searched.parent))
            elif before in content:
                path.write_bytes(content.replace(before, after))
    for path in root.glob("lib/pgxs/src/Makefile.global"):
        path.write_text(path.read_text().replace(RUN_PATH, RUN_PATH_FOR_MAKE))
    for path in root.glob("lib/pkgconfig/*.pc"):
        path.write_text(path.read_text().replace(f"prefix={PREFIX}\n", "prefix=${pcfiledir}/../..\n"))


def _cut_run_path(path: Path, content: bytes) -> None:
    """The run path is a string that ends at its first zero byte; its length in the file does not change."""
    if (beyond := _SEARCHED + b":$ORIGIN/") in content:
        path.write_bytes(content.replace(beyond, _SEARCHED + b"\0$ORIGIN/"))


def derive(base: Path, files: Mapping[str, Path], root: Path) -> Path:
    """An installation like the base's except for some files (relative path: the compiled file to copy instead).

    Identical files are linked, not copied, because the files of a finished build never change.
    """
    for path in sorted(base.rglob("*")):
        relative = str(path.relative_to(base))
        if path.is_symlink():
            (root / relative).symlink_to(path.readlink())
        elif path.is_dir():
            (root / relative).mkdir(parents=True, exist_ok=True)
        elif relative in files:
            shutil.copy(files[relative], root / relative)
            _cut_run_path(root / relative, files[relative].read_bytes())
        else:
            os.link(path, root / relative)
    return root


def make_manifest(
    root: Path, source: Source, ingredients: Mapping[str, Any], how: str, journal: Journal, digests: Mapping[str, str]
) -> dict[str, Any]:
    """The manifest of a build: its source, how it was made, and the sha256 of every file.

    `digests` has those of the regular files. Raises OctavoError if the new server runs here, but does not even print
    its version.
    """
    foreign = cross.machine_of(ingredients["compiler_command"])
    if foreign and not cross.runs_here(foreign):
        reported = f"PostgreSQL {source.version} for {foreign}, which does not run here"
    else:
        reported = children.check(
            children.run([root / "bin" / "postgres", "--version"], journal, role="smoke test", account=build_account()),
            "the new postgres",
        ).stdout.strip()
    linked = sorted(path for path in root.rglob("*") if path.is_symlink() and path.is_file())
    files = {**digests, **{str(path.relative_to(root)): sha256_of(path) for path in linked}}
    return {
        "version": source.version,
        "reported": reported,
        "origin": source.origin,
        **ingredients,
        "made": how,
        "source": {
            "version": source.version,
            "tarball": source.tarball.name,
            "sha256": source.sha256,
            "origin": source.origin,
        },
        "files": dict(sorted(files.items(), key=lambda file: Path(file[0]))),
    }

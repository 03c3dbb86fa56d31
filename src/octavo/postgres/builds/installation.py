"""Laying out an installation, and the manifest that names all of it."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from octavo.host import children
from octavo.host.journal import Journal
from octavo.postgres.builds.recipe import PREFIX, RUN_PATH, RUN_PATH_FOR_MAKE, SOURCE_PLACE
from octavo.postgres.source import Source, sha256_of

_ELF = b"\x7fELF"


def lay_out(files: Sequence[tuple[str, str]], destination: Path, work: Path) -> Path:
    """Copies an installation's files (pairs of from and to) below the destination. Returns what stands for the prefix.

    A text that names the workplace names the same neutral place in every build instead.
    """
    for source, target in files:
        path = destination / target.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not source.startswith("/"):
            path.symlink_to(source)
        elif Path(source).is_dir():
            shutil.copytree(source, path, dirs_exist_ok=True)
        else:
            shutil.copy(source, path)
    root = destination / PREFIX.lstrip("/")
    forget_place(root, work)
    return root


def forget_place(root: Path, work: Path) -> None:
    """Makes an installation the same wherever it was made, and right for those who compile against it anywhere."""
    before, after = str(work).encode(), SOURCE_PLACE.encode()
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if before in content and not content.startswith(_ELF):
                path.write_bytes(content.replace(before, after))
    _make_relocatable(root)


def _make_relocatable(root: Path) -> None:
    """Mends what a build with a relative run path tells those who compile against it.

    make takes the dollar of `$ORIGIN` in Makefile.global as its own, and pkg-config's files name the prefix, where
    `pcfiledir` (pkg-config(1)) is the directory that they are in.
    """
    for path in root.glob("lib/pgxs/src/Makefile.global"):
        path.write_text(path.read_text().replace(RUN_PATH, RUN_PATH_FOR_MAKE))
    for path in root.glob("lib/pkgconfig/*.pc"):
        path.write_text(path.read_text().replace(f"prefix={PREFIX}\n", "prefix=${pcfiledir}/../..\n"))


def derive(base: Path, files: Mapping[str, Path], root: Path) -> Path:
    """An installation like the base's but for some files (relative path: the file to copy instead).

    What is the same is linked, not copied: the files of a build never change once they are there.
    """
    for directory, _, names in os.walk(base):
        relative = Path(directory).relative_to(base)
        (root / relative).mkdir(parents=True, exist_ok=True)
        for name in names:
            path = relative / name
            if str(path) in files:
                shutil.copy(files[str(path)], root / path)
            elif str(path) != "manifest.json":
                os.link(base / path, root / path, follow_symlinks=False)
    return root


def make_manifest(
    root: Path, source: Source, ingredients: Mapping[str, Any], how: str, journal: Journal, known: Mapping[str, str]
) -> dict[str, Any]:
    """What is known of a build: where it came from, how it was made, and the sha256 of every file.

    `known` has digests that need no computing. Raises OctavoError when the new server does not even tell its version.
    """
    reported = children.check(
        children.run([root / "bin" / "postgres", "--version"], journal, role="smoke test"), "the new postgres"
    ).stdout.strip()
    files = sorted(path for path in root.rglob("*") if path.is_file())
    digests = {name: known.get(name) or sha256_of(path) for path in files if (name := str(path.relative_to(root)))}
    return {
        "version": source.version,
        "reported": reported,
        "origin": source.origin,
        **ingredients,
        "made": how,
        "source": {**asdict(source), "tarball": source.tarball.name},
        "files": digests,
    }

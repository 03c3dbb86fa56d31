"""A local source tree without version control, or with a system other than git."""

import os
from collections.abc import Generator
from pathlib import Path

from octavo.errors import UsageError
from octavo.host.journal import Journal
from octavo.postgres.sources.base import Source
from octavo.postgres.sources.snapshot import opened_tree, take_snapshot, version_of_tree

# Files that configure leaves in the tree in which it runs, and meson or configure in a build directory.
_CONFIGURED = ("config.status", "src/include/pg_config.h")
_BUILD_DIRECTORY = ("config.status", "meson-private")
_NOT_SOURCE = frozenset({".git", ".svn", ".hg", "tmp_install"})


def recognises(path: Path, /) -> bool:
    """Whether it is a directory."""
    return path.is_dir()


def take(path: Path, journal: Journal, /) -> Source:
    """Takes all files of the tree except those of build directories in it."""
    with opened_tree(path) as top:
        version_of_tree(path, top)
        for name in _CONFIGURED:
            if (path / name).exists():
                raise UsageError(
                    f"--source {path}: it was configured in place ({name}), and no other build can be made from it; "
                    "run make distclean there, or give a copy without what was built"
                )
        return take_snapshot(path, top, _files(path), f"local source tree {path.name}", journal)


def _files(root: Path) -> Generator[str, None, None]:
    for directory, subdirectories, names in os.walk(root):
        here = Path(directory)
        subdirectories[:] = [
            name
            for name in subdirectories
            if name not in _NOT_SOURCE and not any((here / name / mark).exists() for mark in _BUILD_DIRECTORY)
        ]
        links = [name for name in subdirectories if (here / name).is_symlink()]
        for name in (*names, *links):
            path = here / name
            if path.is_symlink() or path.is_file():
                yield str(path.relative_to(root))

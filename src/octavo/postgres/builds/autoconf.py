"""PostgreSQL's build with configure and make (before 16)."""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from octavo.postgres.builds.installation import make_portable
from octavo.postgres.builds.recipe import PREFIX
from octavo.postgres.builds.spec import Progress
from octavo.postgres.builds.stages import COMPILATION, CONFIGURATION
from octavo.postgres.builds.workspace import BuildWorkspace

# make reports no total: 15.18 has this many steps, and other minor versions about as many.
_COMPILATIONS = 1344
_COMPILATION = re.compile(r" -c (?:.* )?-o \S+\.o\b")


def install_with_make(
    workspace: BuildWorkspace, tree: Path, destination: Path, options: Sequence[str], progress: Progress
) -> Path:
    """Configures, compiles and installs the server, its programs and contrib. Returns the directory of the prefix.

    It compiles in the unpacked tree itself, which is ours alone: in another directory make would name every source by
    its full path, and each message of the server would contain the workspace.
    """
    progress(CONFIGURATION, 0, 1)
    workspace.run("env", "-C", tree, "./configure", *options, doing=CONFIGURATION)
    # PostgreSQL's makefiles pass LDFLAGS to pg_config through a shell that expands $ORIGIN: so it is set to itself.
    make = ("env", "ORIGIN=$ORIGIN", "make", "-C", tree)
    compiled = 0

    def watch(line: str) -> None:
        nonlocal compiled
        if _COMPILATION.search(line):
            compiled += 1
            progress(COMPILATION, compiled, max(compiled, _COMPILATIONS))

    workspace.run(*make, f"-j{os.cpu_count() or 1}", "world-bin", doing=COMPILATION, on_line=watch)
    workspace.run(*make, "install-world-bin", f"DESTDIR={destination}", doing="installation")
    # The modules that test extensions, which make skips unless configure found everything that its own tests need.
    perl = tree / "src" / "test" / "perl"
    workspace.run(*make[:-1], perl, "install", "enable_tap_tests=yes", f"DESTDIR={destination}", doing="installation")
    root = destination / PREFIX.lstrip("/")
    shutil.rmtree(root / "share" / "doc", ignore_errors=True)
    make_portable(root, workspace.directory)
    return root

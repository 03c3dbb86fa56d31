"""An extension's own build (PGXS): make against a build's pg_config, in a copy of the source.

PostgreSQL's documentation, "Extension Building Infrastructure", describes the form of such a source.
"""

import os
from pathlib import Path
from typing import IO

from octavo.errors import OctavoError
from octavo.postgres.builds.workspace import BuildWorkspace


def install_extension(workspace: BuildWorkspace, source: IO[bytes], pg_config: str, prefix: str, subject: str) -> Path:
    """Compiles the extension and installs it below a directory of the workspace. Returns the directory of the prefix.

    `source` is a tar of its directory. Raises OctavoError if it does not compile, installs nothing, or installs files
    outside the build's prefix.
    """
    tree, stage = workspace.directory / "source", workspace.directory / "stage"
    tree.mkdir()
    workspace.run(
        "tar", "--extract", "--no-same-owner", f"--directory={tree}", "--file=-", doing="unpacking", stdin=source
    )
    for doing, arguments in (
        ("cleaning", ["clean"]),
        ("compilation", [f"-j{os.cpu_count() or 1}"]),
        ("installation", ["install", f"DESTDIR={stage}"]),
    ):
        _make(workspace, tree, pg_config, *arguments, doing=doing)
    root = stage / prefix.lstrip("/")
    files = sorted(path for path in stage.rglob("*") if path.is_symlink() or path.is_file())
    if outside := next((path for path in files if not path.is_relative_to(root)), None):
        raise OctavoError(f"{subject} installs /{outside.relative_to(stage)}, which is not below the build's prefix")
    if not files:
        raise OctavoError(f"{subject} installs nothing; its Makefile names no EXTENSION, DATA or MODULES")
    return root


def _make(workspace: BuildWorkspace, tree: Path, pg_config: str, *arguments: str, doing: str) -> None:
    workspace.run(
        "make",
        "--no-print-directory",
        f"--directory={tree}",
        f"PG_CONFIG={pg_config}",
        "USE_PGXS=1",  # as required by contrib's makefiles
        f"CC={workspace.environment['CC']}",
        *arguments,
        doing=doing,
        on_line=lambda line: None,  # so that the compiler's errors are included in the output
    )

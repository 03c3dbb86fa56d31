"""PostgreSQL's meson build (16 and later): configuration, list of installed files, compilation."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from octavo.postgres.builds import cross
from octavo.postgres.builds.installation import InstalledFiles
from octavo.postgres.builds.spec import Progress
from octavo.postgres.builds.stages import COMPILATION, CONFIGURATION
from octavo.postgres.builds.workspace import BuildWorkspace


def configure(workspace: BuildWorkspace, tree: Path, build: Path, options: Sequence[str]) -> None:
    """Configures the build directory, or changes the options of a configured one."""
    again = ["--reconfigure"] if (build / "build.ninja").exists() else []
    foreign: list[str | Path] = []
    if text := cross.meson_file(workspace.environment["CC"]):
        file = workspace.directory / "cross.ini"
        file.write_text(text)
        foreign = ["--cross-file", file]
    workspace.run("meson", "setup", *again, *foreign, build, tree, *options, doing=CONFIGURATION)


def compile_installed(
    workspace: BuildWorkspace, build: Path, progress: Progress, doing: str = COMPILATION
) -> list[str]:
    """Compiles only what is installed (no tests). Returns ninja's targets for it."""
    listed = workspace.run("ninja", "-C", build, "-t", "targets", "all", doing="listing")
    known = {line.rpartition(": ")[0] for line in listed.splitlines()}
    files = _introspected(workspace, build)
    targets = sorted(known & {os.path.relpath(path, build) for path in files if Path(path).is_relative_to(build)})
    workspace.ninja("-C", build, *targets, doing=doing, progress=progress)
    return targets


def installed(workspace: BuildWorkspace, build: Path) -> InstalledFiles:
    """The files that `meson install` would install, once everything is compiled.

    Meson's introspection has one destination for each file; further destinations and links come from a dry run.
    """
    plan = _introspected(workspace, build)
    files = [(path, target) for path, target in plan.items() if path.startswith("/")]
    rehearsal = workspace.run(
        "meson", "install", "-C", build, "--no-rebuild", "--dry-run", "--destdir", "/rehearsal", doing="rehearsal"
    )
    for source, directory in re.findall(r"^Installing (\S+) to /rehearsal(\S+)$", rehearsal, re.MULTILINE):
        known = plan.get(str(build / source))
        if known is not None and Path(known).parent != Path(directory):
            files.append((str(build / source), str(Path(directory) / Path(known).name)))
    links = re.findall(r"^Installing symlink pointing to (\S+) to /rehearsal(\S+)$", rehearsal, re.MULTILINE)
    return InstalledFiles(tuple(files), tuple(links))


def _introspected(workspace: BuildWorkspace, build: Path) -> dict[str, str]:
    return json.loads(workspace.run("meson", "introspect", "--installed", build, doing="introspection"))

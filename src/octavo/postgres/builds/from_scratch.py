"""One build by itself: unpack, configure, compile, install."""

from collections.abc import Mapping
from pathlib import Path
from typing import IO

from octavo.postgres.builds import meson, profile_guided, recipe, training
from octavo.postgres.builds.autoconf import install_with_make
from octavo.postgres.builds.installation import lay_out
from octavo.postgres.builds.spec import BuildSpec, Progress
from octavo.postgres.builds.stages import CONFIGURATION
from octavo.postgres.builds.workspace import BuildWorkspace
from octavo.postgres.source import unpack_file


def install_from_scratch(
    workspace: BuildWorkspace,
    spec: BuildSpec,
    version: str,
    tarball: IO[bytes],
    progress: Progress,
    trained_with: Mapping[str, str] | None = None,
) -> Path:
    """Builds in the workspace. Returns the installation's root, still inside it.

    `trained_with`: the files of the training, for a profile-guided build.
    """
    tree = unpack_file(tarball, workspace.directory / "source")
    destination = workspace.directory / "install"
    options = [*recipe.options(spec, version), *recipe.size_options(spec.sizes, version)]
    if not recipe.has_meson(version):
        return install_with_make(workspace, tree, destination, options, progress)
    build = workspace.directory / "build"
    if training.is_trained(options):
        profile_guided.train(workspace, tree, build, options, trained_with or {}, progress)
    else:
        progress(CONFIGURATION, 0, 1)
        meson.configure(workspace, tree, build, options)
    meson.compile_installed(workspace, build, progress)
    return lay_out(meson.installed(workspace, build), destination, workspace.directory)

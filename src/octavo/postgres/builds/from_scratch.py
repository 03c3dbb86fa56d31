"""One build by itself: unpack, configure, compile, install."""

from pathlib import Path
from typing import IO

from octavo.postgres.builds import meson, recipe
from octavo.postgres.builds.autoconf import install_with_make
from octavo.postgres.builds.installation import lay_out
from octavo.postgres.builds.spec import BuildSpec, Progress
from octavo.postgres.builds.stages import CONFIGURATION
from octavo.postgres.builds.workplace import BuildWorkspace
from octavo.postgres.source import unpack_file


def install_from_scratch(
    workplace: BuildWorkspace, spec: BuildSpec, version: str, tarball: IO[bytes], progress: Progress
) -> Path:
    """Builds in the workplace. Returns the installation's root, still inside it."""
    tree = unpack_file(tarball, workplace.directory / "source")
    destination = workplace.directory / "install"
    options = [*recipe.options(spec, version), *recipe.size_options(spec.sizes, version)]
    if not recipe.has_meson(version):
        return install_with_make(workplace, tree, destination, options, progress)
    build = workplace.directory / "build"
    progress(CONFIGURATION, 0, 1)
    meson.configure(workplace, tree, build, options)
    meson.compile_installed(workplace, build, progress)
    return lay_out(meson.installed(workplace, build), destination, workplace.directory)

"""One build by itself: unpack, configure, compile, install."""

from pathlib import Path

from octavo.postgres.builds import meson, recipe
from octavo.postgres.builds.autoconf import install_with_make
from octavo.postgres.builds.installation import lay_out
from octavo.postgres.builds.spec import BuildSpec, Progress
from octavo.postgres.builds.workplace import Workplace
from octavo.postgres.source import Source, unpack


def install_from_scratch(workplace: Workplace, spec: BuildSpec, source: Source, progress: Progress) -> Path:
    """Builds in the workplace. Returns the installation's root, still inside it."""
    tree = unpack(source, workplace.directory / "source")
    destination = workplace.directory / "install"
    options = [*recipe.options(spec, source.version), *recipe.size_options(spec.sizes, source.version)]
    if not recipe.has_meson(source.version):
        return install_with_make(workplace, tree, destination, options, progress)
    build = workplace.directory / "build"
    meson.configure(workplace, tree, build, options)
    meson.compile_installed(workplace, build, progress)
    return lay_out(meson.installed(workplace, build), destination, workplace.directory)

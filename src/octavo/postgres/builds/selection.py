"""The selected builds: every combination of the levels in the options."""

import re
from collections.abc import Sequence
from itertools import product

from octavo.errors import UsageError
from octavo.factor import Factor, matching, one_of
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.limits import DATA_BLOCKS, DATA_SEGMENTS, MAJOR_VERSIONS, WAL_BLOCKS
from octavo.postgres.versions import is_version

_EVERY = "all"
# No path: a build wraps the compiler in a script of the same name below its own directory.
COMPILER = matching(r"[A-Za-z0-9][A-Za-z0-9._+-]*", "the name of a C compiler on the PATH, such as gcc or clang-16")


def selected_specs(
    *,
    data_block: str,
    wal_block: str,
    data_segment: str,
    pg: str,
    compiler: str,
    flags: Sequence[str],
    options: Sequence[str],
    asserts: bool,
    debug_symbols: bool,
    traced: bool = False,
    own_source: bool = False,
) -> list[BuildSpec]:
    """Every combination, with the defaults first, because the others are derived from the first one.

    Versions are those that we have built and run; with the user's own source, any version.

    Raises UsageError for an unknown level, with the option and the known levels, or a compiler that is not a name.
    """
    compilers = [Factor("--compiler", "build", "", "", COMPILER).level(each) for each in compiler.split(",")]
    versions = pg.split(",") if own_source else _levels("--pg", pg, MAJOR_VERSIONS, minor=True)
    for version in versions:
        if not is_version(version):
            raise UsageError(f"--pg: {version!r} is not a version; write 18, or a minor version such as 18.6")
    specs = [
        BuildSpec(version, data, wal, segment, each, tuple(flags), tuple(options), asserts, debug_symbols, traced)
        for version, each, segment, data, wal in product(
            versions,
            list(dict.fromkeys(compilers)),
            _levels("--data-segment", data_segment, DATA_SEGMENTS),
            _levels("--data-block", data_block, DATA_BLOCKS),
            _levels("--wal-block", wal_block, WAL_BLOCKS),
        )
    ]
    return sorted(specs, key=lambda spec: (spec.data_block != "8kB") + (spec.wal_block != "8kB"))


def data_block_specs(data_block: str, pg: str) -> list[BuildSpec]:
    """The same for options --data-block and --pg, which has one version; everything else has PostgreSQL's defaults."""
    usual = BuildSpec("")
    specs = selected_specs(
        data_block=data_block, wal_block=usual.wal_block, data_segment=usual.data_segment, pg=pg,
        compiler=usual.compiler, flags=(), options=(), asserts=False, debug_symbols=False,
    )  # fmt: skip
    if len({spec.version for spec in specs}) > 1:
        raise UsageError(f"--pg {pg}: name one version")
    return specs


def _levels(option: str, text: str, known: Sequence[str], *, minor: bool = False) -> list[str]:
    """The levels of an option: `all`, or some of the known ones, separated by commas, each once."""
    if text == _EVERY:
        return list(known)
    found = list(dict.fromkeys(level.strip() for level in text.split(",")))
    for level in found:
        major = re.sub(r"\D.*", "", level)
        Factor(option, "build", "", "", one_of(*known)).level(major if minor and major else level)
    return found

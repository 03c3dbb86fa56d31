"""The factors that every workload has: PostgreSQL's builds and clusters, and the state of a run."""

from collections.abc import Mapping

from octavo import knobs
from octavo.errors import UsageError
from octavo.factor import Factor, matching, one_of, size
from octavo.host.host_class import ANY
from octavo.postgres.builds.selection import COMPILER
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.builds.variants import WORDS, made_with
from octavo.postgres.limits import DATA_BLOCKS, DATA_SEGMENTS, MAJOR_VERSIONS, WAL_BLOCKS, WAL_SEGMENTS
from octavo.postgres.versions import is_version, major_of

# The factor whose levels are classes of hosts: always a condition, for ratios are taken within a host.
HOST_CLASS = "host_class"


def _version(text: str) -> str:
    """A major version, for which the newest minor release is taken, or one release of it."""
    if not is_version(text) or str(major_of(text)) not in MAJOR_VERSIONS:
        raise UsageError(f"allowed: {', '.join(MAJOR_VERSIONS)}, or a release of these, such as {MAJOR_VERSIONS[0]}.1")
    return text


_FLAGS = matching(r"none|-\S+( -\S+)*", "none, or flags separated by spaces, such as '-O3 -march=native'")


# What `octavo.host.host_class` finds, or what the file of hosts says.
_CLASS = matching(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", "any, or a class of hosts: from hosts.toml, or found, such as x86_64-4kB-nvme"
)


def _build_options(text: str) -> str:
    """Words joined by +, in their own order, so that a build has one name."""
    chosen = text.split("+")
    if text != "none" and (not set(chosen) <= set(WORDS) or len(set(chosen)) < len(chosen)):
        raise UsageError(f"allowed: none, or joined by + any of {', '.join(WORDS)}, such as lto+O3")
    return text if text == "none" else "+".join(word for word in WORDS if word in chosen)


_REGIMES = ("after-checkpoint", "steady")

COMMON: tuple[Factor, ...] = (
    Factor("version", "build", "PostgreSQL's version, major or minor", MAJOR_VERSIONS[0], _version),
    Factor("data_block", "build", "data block (BLCKSZ)", "8kB", one_of(*DATA_BLOCKS)),
    Factor("wal_block", "build", "WAL block (XLOG_BLCKSZ)", "8kB", one_of(*WAL_BLOCKS)),
    Factor("data_segment", "build", "table segment file size (RELSEG_SIZE)", "1GB", one_of(*DATA_SEGMENTS)),
    Factor("compiler", "build", "C compiler", "gcc", COMPILER),
    Factor("compiler_flags", "build", "flags of the C compiler, after the build's own -O2", "none", _FLAGS),
    Factor("build_options", "build", "O3, lto, no-plt, aligned-text, pgo, joined by +", "none", _build_options),
    Factor("wal_segment", "run", "WAL segment (initdb --wal-segsize)", "16MB", one_of(*WAL_SEGMENTS)),
    Factor("checksums", "cluster", "data checksums (initdb)", "on", one_of("on", "off")),
    Factor("recycled_wal", "run", "recycled WAL segments when a trial starts", "384MB", size("2MB", "1TB")),
    Factor("shared_buffers", "run", "PostgreSQL's own cache", "128MB", size("16kB", "1TB")),
    Factor("equal", "run", "what shared_buffers sets: buffers, or all shared memory", "buffers",
           one_of("buffers", "memory")),
    Factor("memory", "run", "memory limit of the server (cgroup; needs root)", "none", size("64MB", "1TB", "none")),
    Factor("cache", "run", "cache state when a trial starts", "warm", one_of("warm", "cold")),
    Factor("wal_regime", "run", "position in the checkpoint cycle", "after-checkpoint", one_of(*_REGIMES)),
    *knobs.factors(),
    Factor(HOST_CLASS, "run", "class of the hosts that measure the cell", ANY, _CLASS),
)  # fmt: skip


def build_of(levels: Mapping[str, str]) -> BuildSpec:
    """The build that a cell with these levels needs; a factor that an older run did not know has its default."""
    chosen = {factor.name: levels.get(factor.name, factor.default) for factor in COMMON if factor.kind == "build"}
    flags = chosen["compiler_flags"]
    variant, options = made_with(chosen["build_options"], chosen["version"])
    return BuildSpec(
        version=chosen["version"],
        data_block=chosen["data_block"],
        wal_block=chosen["wal_block"],
        data_segment=chosen["data_segment"],
        compiler=chosen["compiler"],
        flags=(*variant, *(() if flags == "none" else flags.split())),
        options=options,
    )

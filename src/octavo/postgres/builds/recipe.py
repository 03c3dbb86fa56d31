"""The options of a spec for PostgreSQL's two build systems: meson since 16, configure and make before."""

from octavo.postgres.builds import cross, traced
from octavo.postgres.builds.spec import BuildSpec, Sizes
from octavo.postgres.versions import major_of

PREFIX = "/opt/octavo/postgresql"

# A relative `rpath` makes an installation relocatable, with the same bytes in any directory.
RUN_PATH = "-Wl,-rpath,$ORIGIN/../lib"
# make expands $$ to $, and the shell that runs the linker keeps quoted text.
RUN_PATH_FOR_MAKE = "-Wl,-rpath,'$$ORIGIN'/../lib"

# The options of a production package that affect hot paths; -O2 as in the distributions, without assertions.
_MESON = (
    f"--prefix={PREFIX}",
    "--libdir=lib",
    "--auto-features=disabled",
    "-Doptimization=2",
    "-Dicu=enabled",
    "-Dliburing=enabled",
    "-Dlibnuma=enabled",
    "-Dlz4=enabled",
    "-Dzstd=enabled",
    "-Dzlib=enabled",
    "-Dreadline=enabled",
    "-Dssl=openssl",
    "-Drpath=false",
)
# liburing and libnuma support came with 18.
_MESON_SINCE = {
    "-Dliburing=enabled": 18, "-Dlibnuma=enabled": 18, "-Dliburing=disabled": 18, "-Dlibnuma=disabled": 18,
}  # fmt: skip

# Each option with its first version. configure only warns about an unknown one, and ignores it.
_CONFIGURE = {
    f"--prefix={PREFIX}": 0, "--disable-rpath": 0, "--with-icu": 0, "--with-lz4": 14, "--with-zstd": 15,
    "--with-ssl=openssl": 14,
}  # fmt: skip
_SSL_BEFORE_14 = "--with-openssl"

# The path that replaces the compilation directory in an installation, the same in every build.
SOURCE_PLACE = "/usr/src/octavo"


def has_meson(version: str) -> bool:
    """Whether this version has a meson build (PostgreSQL 16's release notes)."""
    return major_of(version) >= 16


def options(spec: BuildSpec, version: str) -> list[str]:
    """All options except the sizes, for meson or configure, whichever builds this version."""
    flags = [*spec.flags, *([traced.COMPILER_FLAG] if spec.traced else [])]
    if has_meson(version):
        linked = " ".join([RUN_PATH, *(traced.LINKER_FLAGS if spec.traced else ())])
        return [
            *(option for option in _MESON if major_of(version) >= _MESON_SINCE.get(option, 0)),
            *(option for option in _without_libraries(spec) if major_of(version) >= _MESON_SINCE.get(option, 0)),
            f"-Dc_link_args={linked}",
            f"-Ddebug={str(spec.debug_symbols).lower()}",
            f"-Dcassert={str(spec.asserts).lower()}",
            *([f"-Dc_args={' '.join(flags)}"] if flags else []),
            *spec.options,
        ]
    optimisation = ["-O2", *(["-g"] if spec.debug_symbols else []), *spec.flags]
    major = major_of(version)
    return [
        *(option for option, since in _CONFIGURE.items() if major >= since),
        *([_SSL_BEFORE_14] if major < 14 else []),
        *(["--enable-cassert"] if spec.asserts else []),
        f"CFLAGS={' '.join(optimisation)}",
        f"LDFLAGS={RUN_PATH_FOR_MAKE}",
        *spec.options,
    ]


def _without_libraries(spec: BuildSpec) -> tuple[str, ...]:
    """The options for another machine. If an option is given twice, the later one counts."""
    return cross.OPTIONS if cross.machine_of(spec.compiler) else ()


def size_options(sizes: Sizes, version: str) -> list[str]:
    """The options that set the sizes: kB for the blocks, GB for the segment in both build systems."""
    data, wal, segment = sizes.data_block // 1024, sizes.wal_block // 1024, sizes.data_segment // 1024**3
    if has_meson(version):
        return [f"-Dblocksize={data}", f"-Dwal_blocksize={wal}", f"-Dsegsize={segment}"]
    return [f"--with-blocksize={data}", f"--with-wal-blocksize={wal}", f"--with-segsize={segment}"]

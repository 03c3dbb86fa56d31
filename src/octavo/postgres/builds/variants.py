"""Build variants other than compiler flags: the words of the factor `build_options`.

Sources: GCC manual, "Optimize Options" (-O3, -flto, -ffat-lto-objects) and "Code Gen Options" (-fno-plt); meson,
"Built-in options" (b_lto, b_pgo); ld(1), -z max-page-size. PostgreSQL's makefiles use plain `ar`, which does not
understand objects with LTO code only, so objects get both.
"""

from collections.abc import Sequence

from octavo.postgres.builds import training
from octavo.postgres.builds.recipe import RUN_PATH, RUN_PATH_FOR_MAKE, has_meson

# Text segments are aligned to 2 MB in file and memory, which a kernel needs to use huge pages for them.
_ALIGNED = "-Wl,-z,max-page-size=2097152 -Wl,-z,common-page-size=2097152"

WORDS = {
    "O3": "-O3 instead of -O2",
    "lto": "optimized over the whole program when it is linked",
    "no-plt": "libraries are called through pointers, not through stubs",
    "aligned-text": "instructions begin at 2 MB, for huge pages",
    "pgo": "optimized by the profile of a training run (pgbench and PGIO), 16 and later, gcc",
}


def made_with(words: str, version: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The compiler flags and build options for words such as `lto+O3`; empty for `none`.

    >>> made_with("lto+O3", "18")
    (('-O3',), ('-Db_lto=true',))
    >>> made_with("lto", "15.18")
    (('-flto=auto', '-ffat-lto-objects'), ())
    >>> made_with("none", "18")
    ((), ())
    """
    chosen = set(words.split("+"))
    flags: list[str] = []
    options: list[str] = []
    if "O3" in chosen:
        flags.append("-O3")
    if "no-plt" in chosen:
        flags.append("-fno-plt")
    if "lto" in chosen and has_meson(version):
        options.append("-Db_lto=true")
    elif "lto" in chosen:
        flags += ["-flto=auto", "-ffat-lto-objects"]
    if "aligned-text" in chosen:
        # It follows our own options, which it repeats: the last one counts.
        ours = f"-Dc_link_args={RUN_PATH}" if has_meson(version) else f"LDFLAGS={RUN_PATH_FOR_MAKE}"
        options.append(f"{ours} {_ALIGNED}")
    if "pgo" in chosen:
        options.append(training.USE)
    return tuple(flags), tuple(options)


def refused(options: Sequence[str], compiler: str, version: str) -> str | None:
    """Why a build with these options cannot be made, or None."""
    if training.is_trained(options):
        if not has_meson(version):
            return f"pgo needs PostgreSQL 16 or later, whose build trains itself, not {version}"
        if "gcc" not in compiler:
            return f"pgo is done with gcc's profiles, and the compiler is {compiler}"
    return None

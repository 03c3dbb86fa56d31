"""What a build may be made with besides flags of the compiler: the words of the factor `build_options`.

Sources: GCC manual, "Optimize Options" (-O3, -flto, -ffat-lto-objects) and "Code Gen Options" (-fno-plt); meson,
"Built-in options" (b_lto); ld(1), -z max-page-size. PostgreSQL's makefiles pack objects with plain `ar`, which does not
understand objects that have nothing but LTO's own code: they get both.
"""

from octavo.postgres.builds.recipe import RUN_PATH, RUN_PATH_FOR_MAKE, has_meson

# Instructions begin at a multiple of 2 MB in file and memory: what a kernel needs to put them on huge pages.
_ALIGNED = "-Wl,-z,max-page-size=2097152 -Wl,-z,common-page-size=2097152"

WORDS = {
    "O3": "-O3 instead of -O2",
    "lto": "optimized over the whole program when it is linked",
    "no-plt": "libraries are called through pointers, not through stubs",
    "aligned-text": "instructions begin at 2 MB, for huge pages",
}


def made_with(words: str, version: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Flags of the compiler and options of the build for words such as `lto+O3`; none for `none`.

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
        # It comes after ours, which it repeats: the last one counts.
        ours = f"-Dc_link_args={RUN_PATH}" if has_meson(version) else f"LDFLAGS={RUN_PATH_FOR_MAKE}"
        options.append(f"{ours} {_ALIGNED}")
    return tuple(flags), tuple(options)

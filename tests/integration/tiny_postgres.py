"""A source tarball that is configured, compiled and installed as PostgreSQL is, in seconds.

It has one of everything that the shared tree must distinguish: sources that depend on no size, on one, on both and on
neither although their text names it; a conditional; a generated source that contains its path; an archive of which a
program uses one member or another; a tool that is run during the build.
"""

import io
import tarfile
from pathlib import Path

VERSION = "18.99"

_MESON = """
project('postgresql', 'c', version: '18.99', meson_version: '>=0.54', default_options: ['b_pch=false'])
cdata = configuration_data()
blocksize = get_option('blocksize').to_int() * 1024
cdata.set('BLCKSZ', blocksize)
cdata.set('XLOG_BLCKSZ', get_option('wal_blocksize').to_int() * 1024)
cdata.set('RELSEG_SIZE', get_option('segsize') * 1024 * 1024 * 1024 / blocksize)
@EXTRA@
subdir('src/include')
inc = include_directories('src/include')
generator_tool = executable('maker', 'maker.c', include_directories: inc)
made = custom_target('made', output: 'made.txt', command: [generator_tool, '@OUTPUT@'], install: true,
  install_dir: 'share')
scanner = configure_file(input: 'scanner.c.in', output: 'scanner.c',
  configuration: {'SOURCE': meson.current_source_dir()})
common = static_library('common', 'plain.c', 'sized.c', include_directories: inc, install: true)
executable('postgres', 'postgres.c', 'data.c', 'wal.c', 'both.c', 'conditional.c', 'neither.c', scanner,
  include_directories: inc, link_with: common, install: true)
executable('plain_program', 'plain_program.c', include_directories: inc, link_with: common, install: true)
executable('sized_program', 'sized_program.c', include_directories: inc, link_with: common, install: true)
"""

_OPTIONS = """
option('blocksize', type: 'combo', choices: ['1', '2', '4', '8', '16', '32'], value: '8')
option('wal_blocksize', type: 'combo', choices: ['1', '2', '4', '8', '16', '32', '64'], value: '8')
option('segsize', type: 'integer', value: 1)
option('rpath', type: 'boolean', value: true)
option('cassert', type: 'boolean', value: false)
option('ssl', type: 'string', value: 'none')
""" + "".join(
    f"option('{name}', type: 'feature', value: 'auto')\n"
    for name in ("icu", "liburing", "libnuma", "lz4", "zstd", "zlib", "readline")
)

_FILES = {
    "meson_options.txt": _OPTIONS,
    "COPYRIGHT": "nobody's\n",
    "src/include/meson.build": (
        "configure_file(output: 'pg_config.h', configuration: cdata, install: true, install_dir: 'include')\n"
        "install_headers('c.h', install_dir: 'include')\n"
    ),
    "src/include/c.h": """
        #include "pg_config.h"
        typedef union PGAlignedBlock { char data[BLCKSZ]; double force; } PGAlignedBlock;
        typedef union PGAlignedXLogBlock { char data[XLOG_BLCKSZ]; double force; } PGAlignedXLogBlock;
        static inline int half(void) { return BLCKSZ / 2; }
        #define MANY_BLOCKS (BLCKSZ >= 4096)
        extern int data_size(void), wal_size(void), both_sizes(void), conditional(void), neither(void);
        extern int plain(void), sized(void);
    """,
    # As flex writes its scanners: with the full path of the source.
    "scanner.c.in": '#line 1 "@SOURCE@/scanner.l"\nconst char *scanner(void) { return __FILE__; }\n',
    "data.c": '#include "c.h"\nint data_size(void) { PGAlignedBlock block; return sizeof(block); }\n',
    "wal.c": '#include "c.h"\nint wal_size(void) { PGAlignedXLogBlock block; return sizeof(block); }\n',
    "both.c": '#include "c.h"\nint both_sizes(void) { return half() * 2 + XLOG_BLCKSZ; }\n',
    "conditional.c": """
        #include "c.h"
        #if MANY_BLOCKS && XLOG_BLCKSZ < 16384
        int conditional(void) { return 1; }
        #else
        int conditional(void) { return 0; }
        #endif
    """,
    "neither.c": '#include "c.h"\nint neither(void) { int data = 7; return data; }\n',
    "plain.c": '#include "c.h"\nint plain(void) { return 3; }\n',
    "sized.c": '#include "c.h"\nint sized(void) { return RELSEG_SIZE; }\n',
    "plain_program.c": '#include "c.h"\nint main(void) { return plain() - 3; }\n',
    "sized_program.c": '#include "c.h"\n#include <stdio.h>\nint main(void) { printf("%d\\n", sized()); return 0; }\n',
    "maker.c": """
        #include <stdio.h>
        int main(int argc, char **argv) { FILE *file = fopen(argv[argc - 1], "w"); fputs("made\\n", file); return 0; }
    """,
    "postgres.c": """
        #include "c.h"
        #include <stdio.h>
        #include <string.h>
        int main(int argc, char **argv)
        {
            if (argc > 1 && strcmp(argv[1], "--version") == 0) puts("postgres (PostgreSQL) 18.99");
            else printf("%d %d %d %d %d\\n", data_size(), wal_size(), both_sizes(), conditional(), plain());
            return neither() - 7;
        }
    """,
}


def write_tarball(directory: Path, *, extra: str = "", **replaced: str) -> Path:
    """Writes the tarball. `extra` is added to meson.build, `replaced` has other contents for `NAME.c`, by NAME."""
    files = {**_FILES, "meson.build": _MESON.replace("@EXTRA@", extra)}
    files |= {f"{name}.c": text for name, text in replaced.items()}
    path = directory / f"postgresql-{VERSION}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            content = text.encode()
            facts = tarfile.TarInfo(f"postgresql-{VERSION}/{name}")
            facts.size = len(content)
            archive.addfile(facts, io.BytesIO(content))
    return path

"""The header by which a build records its own page accesses; it replaces PostgreSQL's pg_trace.h.

The source is unchanged. The compiler finds the header first, and the linker redirects calls of MarkBufferDirty and
MarkBufferDirtyHint to it. The header documents the format and the location of the records.
"""

import hashlib
from importlib import resources

HEADER = "pg_trace.h"
# Beside the build directory, in which the compiler runs.
DIRECTORY = "traced"
# Before any -I for `#include "pg_trace.h"` (gcc's manual, "Directory Options").
COMPILER_FLAG = f"-iquote../{DIRECTORY}"
LINKER_FLAGS = ("-Wl,--wrap=MarkBufferDirty", "-Wl,--wrap=MarkBufferDirtyHint")
# The probes have these arguments since this version.
SINCE = 16
# What the server's program contains.
MARK = b"octavo traced build 2"


def header() -> str:
    """The header's text."""
    return resources.files("octavo.postgres.builds.traced").joinpath(HEADER).read_text(encoding="utf-8")


def digest() -> str:
    """The header's sha256: another one makes another build."""
    return hashlib.sha256(header().encode()).hexdigest()

"""The header by which a build records its own page accesses; it replaces PostgreSQL's pg_trace.h.

The source is unchanged. The compiler finds the header first, and the linker redirects calls of MarkBufferDirty and
MarkBufferDirtyHint to it. The header documents the format and the location of the records.
"""

import hashlib
from importlib import resources

HEADER = "pg_trace.h"
# Relative to the build directory, in which the compiler runs.
DIRECTORY = "traced"
# Has precedence over any -I for `#include "pg_trace.h"` (gcc's manual, "Directory Options").
COMPILER_FLAG = f"-iquote../{DIRECTORY}"
LINKER_FLAGS = ("-Wl,--wrap=MarkBufferDirty", "-Wl,--wrap=MarkBufferDirtyHint")
# The first version whose probes have these arguments.
SINCE = 16
# A text in the server's program that identifies a tracing build.
MARK = b"octavo traced build 2"


def header() -> str:
    """The header's text."""
    return resources.files("octavo.postgres.builds.traced").joinpath(HEADER).read_text(encoding="utf-8")


def digest() -> str:
    """The header's sha256: a changed header makes another build."""
    return hashlib.sha256(header().encode()).hexdigest()

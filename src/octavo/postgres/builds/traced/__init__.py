"""What makes a build record its own page accesses: a header that takes the place of PostgreSQL's pg_trace.h.

Nothing of the source is changed. The compiler finds the header first, and the linker leads calls of MarkBufferDirty and
MarkBufferDirtyHint to it. The header says how records look and where they go.
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

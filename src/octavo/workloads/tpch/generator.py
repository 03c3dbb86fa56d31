"""The data: tpchgen-cli writes a table as CSV into a pipe, COPY reads it from there. Nothing of it is on disk.

The generator (package `tpchgen-cli` on PyPI) gives the rows of TPC-H's dbgen. It runs as the servers' user, from a copy
of its program that this user may execute.
"""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path

import psycopg
from psycopg.rows import DictRow

from octavo.errors import HostError, OctavoError
from octavo.host import children
from octavo.postgres.cluster import Server
from octavo.workload_support import files

_PACKAGE = _PROGRAM = "tpchgen-cli"
_PIECE = 256 * 1024
_PIPE_BYTES = 1024 * 1024  # as much as a pipe may hold (pipe(7))
_PATIENCE_SECONDS = 60.0


def program() -> Path:
    """The generator as it is installed. Raises HostError when it is not."""
    try:
        package = metadata.distribution(_PACKAGE)
    except metadata.PackageNotFoundError:
        package = None
    for file in (package.files or []) if package is not None else []:
        path = Path(str(package.locate_file(file))) if package is not None and file.name == _PROGRAM else None
        if path is not None and os.access(path, os.X_OK):
            return path.resolve()
    raise HostError(f"{_PROGRAM} is not installed, which comes with octavo[lab]: pip install 'WHEEL[lab]'")


@cache
def version() -> str:
    """The generator's version, of which the data are. Cells are asked for it again and again: 1.6 ms each time."""
    program()
    return metadata.version(_PACKAGE)


@contextmanager
def lent_program(server: Server) -> Generator[Path, None, None]:
    """A copy of the generator that the server's account may execute, gone at the end."""
    with files.lent([program()], server.journal, server.account) as (copy,):
        copy.chmod(0o750)
        yield copy


def copy_table(
    server: Server, connection: psycopg.Connection[DictRow], generator: Path, table: str, scale: str
) -> float:
    """Streams one table from the generator into COPY. Returns the seconds of waiting for the generator.

    Raises OctavoError when either fails, psycopg.Error by COPY.
    """
    waited = 0.0
    statement = f"COPY {table} FROM STDIN (FORMAT csv, HEADER)".encode()
    # The generator's end is looked at before COPY's: rows that were cut off are none.
    with connection.cursor() as cursor, cursor.copy(statement) as copy, stream(server, generator, table, scale) as pipe:
        while True:
            before = time.perf_counter()
            piece = os.read(pipe, _PIECE)
            waited += time.perf_counter() - before
            if not piece:
                break
            copy.write(piece)
    return waited


@contextmanager
def stream(server: Server, generator: Path, table: str, scale: str) -> Generator[int, None, None]:
    """A pipe with one table as CSV, which has a header. It must be read to its end within the context.

    Raises OctavoError at the end when the generator has failed.
    """
    reading, writing = os.pipe()
    try:
        _widen(reading)
        with os.fdopen(writing, "wb", buffering=0) as target:
            child, entry = children.start(
                [generator, "csv", "--scale-factor", scale, "--tables", table, "--num-threads", "1", "--quiet",
                 "--no-progress", "--stdout"],
                server.journal, role=_PROGRAM, account=server.account, below=server.below, stdout=target,
            )  # fmt: skip
        try:
            yield reading
            code = child.wait(_PATIENCE_SECONDS)
            if code != 0:
                words = (child.stderr.read(4096) if child.stderr else "").strip().splitlines()
                last = words[-1] if words else "no output"
                raise OctavoError(f"{_PROGRAM} failed (exit {code}) at {table}: {last}")
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
            if child.stderr is not None:
                child.stderr.close()
            children.ended(server.journal, entry)
    finally:
        os.close(reading)


def _widen(pipe: int) -> None:
    """A larger pipe, so that neither side waits for the other more often than it must."""
    with suppress(OSError):  # an unprivileged user's pipes may be limited
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

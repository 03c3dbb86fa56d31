"""The data: tpchgen-cli writes tables as CSV into a pipe, and COPY reads them from there, without files on disk.

The generator (package `tpchgen-cli` on PyPI) makes the rows of TPC-H's dbgen. It runs as the servers' user, from a copy
of its program that this user may execute. Before its first row it generates the text of all comments, which takes a
second of CPU at any scale. So one process writes all tables of a load, and a load begins when that process has its
first row.
"""

import fcntl
import os
import select
import subprocess
import time
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

import psycopg
from psycopg.rows import DictRow

from octavo.errors import HostError, OctavoError
from octavo.host import children
from octavo.postgres.cluster import Server
from octavo.workload_support import files
from octavo.workloads.tpch import schema

_PACKAGE = PROGRAM = "tpchgen-cli"
_PIECE = 256 * 1024
_PIPE_BYTES = 1024 * 1024  # the maximum size of a pipe (pipe(7))
_PATIENCE_SECONDS = 60.0


def program() -> Path:
    """The installed generator. Raises HostError when it is missing."""
    try:
        package = metadata.distribution(_PACKAGE)
    except metadata.PackageNotFoundError:
        package = None
    for file in (package.files or []) if package is not None else []:
        path = Path(str(package.locate_file(file))) if package is not None and file.name == PROGRAM else None
        if path is not None and os.access(path, os.X_OK):
            return path.resolve()
    raise HostError(f"{PROGRAM} is not installed, which comes with octavo[lab]: pip install 'WHEEL[lab]'")


@cache
def version() -> str:
    """The version of the generator that makes the data. It is cached, because cells request it repeatedly and a call
    takes 1.6 ms."""
    program()
    return metadata.version(_PACKAGE)


@contextmanager
def lent_program(server: Server) -> Generator[Path, None, None]:
    """Yields a copy of the generator that the server's account may execute, removed at the end."""
    with files.lent([program()], server.journal, server.account) as (copy,):
        copy.chmod(0o750)
        yield copy


@dataclass(frozen=True, slots=True)
class Rows:
    """A pipe with tables as CSV, each after its header, in any order. They must be read completely."""

    pipe: int
    tables: Sequence[str]
    child: subprocess.Popen[str]

    def wait_for_first(self) -> None:
        """Waits until there is something to read, or the pipe has ended."""
        select.select([self.pipe], [], [], _PATIENCE_SECONDS)

    def end(self) -> None:
        """Raises OctavoError if the generator has failed, because its output is then incomplete."""
        code = self.child.wait(_PATIENCE_SECONDS)
        if code != 0:
            words = (self.child.stderr.read(4096) if self.child.stderr else "").strip().splitlines()
            last = words[-1] if words else "no output"
            raise OctavoError(f"{PROGRAM} failed (exit {code}) at {', '.join(self.tables)}: {last}")


@contextmanager
def stream(server: Server, generator: Path, tables: Sequence[str], scale: str) -> Generator[Rows, None, None]:
    """Starts the generator with these tables; its process is gone at the end."""
    reading, writing = os.pipe()
    try:
        _widen(reading)
        with os.fdopen(writing, "wb", buffering=0) as target:
            child, entry = children.start(
                [generator, "csv", "--scale-factor", scale, "--tables", ",".join(tables), "--num-threads", "1",
                 "--quiet", "--no-progress", "--stdout"],
                server.journal, role=PROGRAM, account=server.account, below=server.below, stdout=target,
            )  # fmt: skip
        try:
            yield Rows(reading, tables, child)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
            if child.stderr is not None:
                child.stderr.close()
            children.ended(server.journal, entry)
    finally:
        os.close(reading)


def copy_rows(connection: psycopg.Connection[DictRow], rows: Rows) -> float:
    """Copies every table, in the order of arrival. Returns the seconds of waiting for the generator.

    Raises OctavoError when the generator fails, psycopg.Error when COPY fails.
    """
    waited, pending, missing = 0.0, b"\n", set(rows.tables)
    copy: psycopg.Copy | None = None
    # Check the generator's exit before ending the last COPY, so that truncated rows are not accepted.
    with connection.cursor() as cursor, ExitStack() as current:
        while True:
            before = time.perf_counter()
            piece = os.read(rows.pipe, _PIECE)
            waited += time.perf_counter() - before
            if not piece:
                break
            whole, newline, rest = (pending + piece).rpartition(b"\n")
            pending = newline + rest
            for table, text in parts(whole, missing):
                if table is not None:
                    missing.remove(table)
                    current.close()
                    copy = current.enter_context(cursor.copy(f"COPY {table} FROM STDIN (FORMAT csv)".encode()))
                if copy is not None and text:
                    copy.write(text[1:] + b"\n")
        rows.end()
        if pending != b"\n":
            raise OctavoError(f"{PROGRAM} ended in the middle of a row")
        if missing:
            raise OctavoError(f"{PROGRAM} wrote nothing of {', '.join(sorted(missing))}")
    return waited


def parts(text: bytes, tables: Collection[str]) -> Iterator[tuple[str | None, bytes]]:
    """Cuts lines, each of which begins with a newline, at the headers of these tables: rows of the table before (None),
    and of each that begins there.

    >>> list(parts(b"\\n1,a\\n2,b\\nr_regionkey,r_name\\n0,AFRICA\\n1,ASIA", ["region", "nation"]))
    [(None, b'\\n1,a\\n2,b'), ('region', b'\\n0,AFRICA\\n1,ASIA')]
    """
    # A row begins with a number, and no text has a newline.
    begins = ((text.find(f"\n{schema.TABLES[table].split(' ', 1)[0]},".encode()), table) for table in tables)
    found = sorted(one for one in begins if one[0] >= 0)
    ends = [at for at, _ in found] + [len(text)]
    yield None, text[: ends[0]]
    for (at, table), end in zip(found, ends[1:], strict=True):
        header = text.find(b"\n", at + 1, end)
        yield table, text[header:end] if header >= 0 else b""


def _widen(pipe: int) -> None:
    """Enlarges the pipe, so that neither side waits for the other more often than necessary."""
    with suppress(OSError):  # an unprivileged user's pipes may be limited
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

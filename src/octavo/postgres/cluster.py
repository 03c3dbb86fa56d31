"""Clusters and their servers: initdb, start, stop, and detecting a crash."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psycopg
from psycopg.rows import DictRow

from octavo.errors import HostError, OctavoError, UsageError
from octavo.home import SOCKET_PATH_LIMIT, make_directory, runtime_directory
from octavo.host import careful_open, children, trees
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.host.safe_read import read_tail, read_text
from octavo.postgres import program_pages, shared_memory_left, sql
from octavo.postgres.builds.cache import Build
from octavo.postgres.own_connection import connect_own
from octavo.postgres.versions import major_of

SUPERUSER = "octavo"
DATABASE = "octavo"
_PORT = 5432  # only a part of the socket's name: no server listens on TCP
_START_SECONDS = 120.0
_STOP_SECONDS = 60.0
_SHUT_DOWN_SECONDS = 300.0
_SLOW_DISK = 10_000_000  # bytes per second
_PATIENCE_SECONDS = 60


def initialise(
    build: Build, directory: Path, journal: Journal, account: Account, *, wal_segment: int, checksums: bool
) -> None:
    """Runs initdb into a new directory, which the account owns. Sizes in bytes.

    initdb does not sync the files: kept copies (a load, a graft's stock) are synced as a whole, later. Raises HostError
    if the directory already exists or the account cannot reach it, OctavoError if initdb fails.
    """
    make_directory(directory.parent)
    check_reachable(directory, account)
    trees.make_for(directory, account)
    checksum_option = "--data-checksums" if checksums else "--no-data-checksums"
    if not checksums and major_of(build.manifest["version"]) < 18:
        checksum_option = ""  # off was the default, and the option for it was added in 18
    arguments = [
        build.program("initdb"), "--pgdata", directory, "--username", SUPERUSER, "--auth=trust", "--encoding=UTF8",
        "--locale=C", "--no-instructions", "--no-sync", f"--wal-segsize={wal_segment // 1024**2}", checksum_option,
    ]  # fmt: skip
    run_initdb([argument for argument in arguments if argument], journal, account)


def run_initdb(arguments: Sequence[str | Path], journal: Journal, account: Account) -> None:
    """Runs initdb with this command line. Raises OctavoError when it fails."""
    shared_memory_left.note(journal)
    children.check(children.run(arguments, journal, role="initdb", account=account), "initdb")


def check_blocks(build: Build, directory: Path, journal: Journal, account: Account) -> None:
    """Checks every block of a cluster that was shut down. Raises OctavoError when a checksum is wrong."""
    arguments = [build.program("pg_checksums"), "--check", "--pgdata", directory]
    children.check(children.run(arguments, journal, role="pg_checksums", account=account), "pg_checksums")


def would_have(
    build: Build, directory: Path, settings: Mapping[str, str], name: str, journal: Journal, account: Account
) -> str:
    """The value that a setting would have in a server on this directory, which is not started (postgres -C).

    Raises UsageError with PostgreSQL's message when it refuses one of the settings.
    """
    arguments: list[str | Path] = [build.program("postgres"), "-D", directory]
    for setting, value in settings.items():
        arguments += ["-c", f"{setting}={value}"]
    finished = children.run([*arguments, "-C", name], journal, role="postgres -C", account=account)
    if finished.returncode != 0:
        problem = next((line for line in finished.stderr.splitlines() if "FATAL" in line), finished.stderr.strip())
        raise UsageError(f"settings: PostgreSQL refuses them: {problem.partition('FATAL:')[2].strip() or problem}")
    return finished.stdout.strip()


def check_reachable(directory: Path, account: Account) -> None:
    """Raises HostError when the account, which has no other group than its own, cannot enter a parent of the
    directory."""
    if os.geteuid() != 0:
        return
    for parent in reversed(directory.absolute().parents):
        facts = parent.stat()
        # One class of the mode's bits counts, whatever the others allow (path_resolution(7)).
        right = 0o100 if facts.st_uid == account.uid else 0o010 if facts.st_gid == account.gid else 0o001
        if not facts.st_mode & right:
            raise HostError(f"the user {account.name} cannot enter {parent}; chmod o+x it or set OCTAVO_HOME")


@dataclass(slots=True)
class Server:
    """A running server on a private Unix socket; a context manager that stops it on exit."""

    build: Build
    directory: Path
    log: Path
    socket_directory: Path
    account: Account
    journal: Journal
    process: subprocess.Popen[str]
    entries: list[int]
    group: Path | None = None
    """The memory group in which it was started. A client that should share its limits enters it, too."""
    below: Path | None = None
    """The group that contains the server's own, if the server is stopped together with its client."""
    arguments: tuple[str | Path, ...] = ()
    """The command line with which it was started."""
    started: float = 0.0
    """The start time, in seconds since 1970."""
    _connection: psycopg.Connection[DictRow] | None = field(default=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def connection(self) -> psycopg.Connection[DictRow]:
        """A connection to Octavo's database, kept open."""
        if self._connection is None or self._connection.closed:
            self._connection = self.connect(DATABASE)
        return self._connection

    def connect(self, database: str, *, patience: int = _PATIENCE_SECONDS) -> psycopg.Connection[DictRow]:
        """A new autocommit connection. Raises OctavoError when the server refuses it, is gone, or has not answered
        after `patience` seconds."""
        try:
            return connect_own(
                self.socket_directory, _PORT, user=SUPERUSER, database=database,
                account=self.account, pid=self.process.pid, patience_seconds=patience,
            )  # fmt: skip
        except psycopg.OperationalError as error:
            raise OctavoError(
                f"could not connect to the server: {str(error).splitlines()[0]}; its log is {self.log}"
            ) from error

    def create_database(self) -> None:
        """Creates Octavo's database."""
        with self.connect("postgres") as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}".encode())

    def query(self, name: str) -> list[dict[str, Any]]:
        """The rows of a query from `postgres/sql`, in its version for this server."""
        connection = self.connection
        return connection.execute(sql.load(name, connection.info.server_version).encode()).fetchall()

    def execute(self, statement: str) -> None:
        """Runs a statement of our own, such as CHECKPOINT."""
        self.connection.execute(statement.encode())

    def disconnect(self) -> None:
        """Closes the kept connection, so that it does not affect the measurement."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def settings(self) -> dict[str, str]:
        """All settings of the server, by name."""
        return {row["name"]: row["value"] for row in self.query("settings")}

    def client_environment(self) -> dict[str, str]:
        """The environment with which a client program finds this server (libpq's variables)."""
        return {
            "PGHOST": str(self.socket_directory),
            "PGPORT": str(_PORT),
            "PGUSER": SUPERUSER,
            "PGDATABASE": DATABASE,
        }

    def run_client(self, program: str, *arguments: str) -> children.Finished:
        """Runs one of the build's client programs against this server, as the unprivileged user."""
        return children.run(
            [self.build.program(program), *arguments],
            self.journal,
            role=program,
            account=self.account,
            directory=self.socket_directory,
            environment=self.client_environment(),
        )

    def start_client(self, program: str, *arguments: str, output: Path) -> tuple[subprocess.Popen[str], int]:
        """Starts a client program of this server, which is paused together with it. Returns it with its journal number.

        The caller ends it and records that (`children.ended`). All its output goes to the file `output`.
        """
        with output.open("w") as file:
            return children.start(
                [self.build.program(program), *arguments], self.journal,
                role=program, account=self.account, below=self.below, directory=self.socket_directory,
                environment=self.client_environment(), stdout=file, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def is_alive(self) -> bool:
        """Whether the postmaster runs."""
        return self.process.poll() is None

    def shut_down(self) -> None:
        """Stops it with a checkpoint, which may have to write all of its data.

        Raises OctavoError when it does not end cleanly, or not within the time that a slow disk needs.
        """
        self._end_cleanly()
        self._clear()

    def restart(self, meanwhile: Callable[[], object]) -> None:
        """Stops the server with a checkpoint and starts it again in the same way, on the same processors and with the
        same log. `meanwhile` is called while it is down.

        Raises OctavoError like `shut_down` and `start`; then it stays down.
        """
        processors = os.sched_getaffinity(self.process.pid)
        self._end_cleanly()
        children.ended(self.journal, self.entries.pop())
        meanwhile()
        log = careful_open.open_file(self.log, os.O_WRONLY | os.O_APPEND)
        try:
            self.process, entry = _launch(
                self.arguments, self.directory, self.journal, self.account, log, self.group, self.below
            )
        finally:
            os.close(log)
        self.entries.append(entry)
        os.sched_setaffinity(self.process.pid, processors)
        try:
            _wait_until_ready(self)
        except BaseException:
            self.stop()
            raise

    def _end_cleanly(self) -> None:
        self.disconnect()
        patience = _SHUT_DOWN_SECONDS + trees.allocated_bytes(self.directory) / _SLOW_DISK
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            raise OctavoError(f"the server did not shut down within {patience:.0f} s; its log is {self.log}") from None
        if code != 0:
            raise OctavoError(f"the server did not shut down cleanly: {last_log_line(self.log)}; its log is {self.log}")

    def stop(self) -> None:
        """Stops it at once, without a checkpoint: its data directory will be discarded."""
        with suppress(psycopg.Error):
            self.disconnect()
        if self.is_alive():
            self.process.send_signal(signal.SIGQUIT)
            try:
                self.process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._clear()

    def _clear(self) -> None:
        """Ends the processes that the server started, then removes its sockets: their directory is unused then."""
        if not self.entries:
            return
        directory_entry, *process_entries = self.entries
        self.entries.clear()
        for process_entry in process_entries:
            children.ended(self.journal, process_entry)
        if (self.process.poll() or 0) < 0:
            shared_memory_left.remove(self.started, self.account)
        if trees.remove(self.socket_directory):
            self.journal.done(directory_entry)


def start(
    build: Build,
    directory: Path,
    settings: Mapping[str, str],
    journal: Journal,
    account: Account,
    *,
    log: Path,
    memory_group: Path | None = None,
    below: Path | None = None,
) -> Server:
    """Starts a server on the data directory, in the memory group if there is one, and waits until it is ready.

    Its own group is created in `below`, which is stopped as a whole (`child_group.together`). Settings override those
    that initdb wrote. The log's directory must belong to us alone; an old log of this name is replaced. Raises
    OctavoError with the server's last log line when it does not start.
    """
    socket_directory = _socket_directory(journal)
    entry = journal.record("directory", path=str(socket_directory))
    trees.make_for(socket_directory, account)
    arguments: list[str | Path] = [build.program("postgres"), "-D", directory]
    ours = {
        "listen_addresses": "",
        "unix_socket_directories": str(socket_directory),
        "port": str(_PORT),
        "logging_collector": "off",
        "log_line_prefix": "%m [%p] %b ",
        "log_timezone": "UTC",
    }
    for name, value in {**settings, **ours}.items():
        arguments += ["-c", f"{name}={value}"]
    if memory_group is not None:
        program_pages.read_first(build.program("postgres"), build.prefix / "lib", journal)
    log_file = trees.new_log(log)
    shared_memory_left.note(journal)
    started = time.time()
    try:
        process, process_entry = _launch(arguments, directory, journal, account, log_file, memory_group, below)
    finally:
        os.close(log_file)
    entries = [entry, process_entry]
    server = Server(
        build, directory, log, socket_directory, account, journal, process, entries, memory_group, below,
        tuple(arguments), started,
    )  # fmt: skip
    try:
        _wait_until_ready(server)
    except BaseException:
        server.stop()
        raise
    return server


def _launch(
    arguments: Sequence[str | Path],
    directory: Path,
    journal: Journal,
    account: Account,
    log: int,
    memory_group: Path | None,
    below: Path | None,
) -> tuple["subprocess.Popen[str]", int]:
    return children.start(
        arguments, journal,
        role="server", account=account, groups=[memory_group] if memory_group else [], below=below,
        rings=any(str(argument).lower() == "io_method=io_uring" for argument in arguments),
        directory=directory, stdout=log, stderr=subprocess.STDOUT, end_signal=signal.SIGQUIT,
    )  # fmt: skip


def _wait_until_ready(server: Server) -> None:
    """Polls postmaster.pid, whose eighth line is the state (src/include/utils/pidfile.h), as pg_ctl does."""
    deadline = time.monotonic() + _START_SECONDS
    status = server.directory / "postmaster.pid"
    while time.monotonic() < deadline:
        if not server.is_alive():
            raise OctavoError(f"the server did not start: {last_log_line(server.log)}; its log is {server.log}")
        with suppress(OSError, ValueError):
            lines = read_text(status).splitlines()
            if len(lines) >= 8 and lines[0] == str(server.process.pid) and lines[7].strip() == "ready":
                return
        time.sleep(0.01)
    raise OctavoError(f"the server was not ready after {_START_SECONDS:.0f} s; its log is {server.log}")


def last_log_line(log: Path) -> str:
    """The last error at the end of the server's log, else its last line."""
    try:
        lines = read_tail(log).splitlines()
    except OSError:
        lines = []
    severe = [line for line in lines if any(f"{word}: " in line for word in ("FATAL", "PANIC", "ERROR"))]
    chosen = severe or lines
    return chosen[-1].strip() if chosen else "no output"


def without_log(error: Exception) -> str:
    """The text of an error without the path of the server's log, which is removed before the text is read."""
    return str(error).partition("; its log is ")[0]


def _socket_directory(journal: Journal) -> Path:
    """The path of a new directory for one server's socket."""
    parent = make_directory(runtime_directory())
    path = parent / f"{journal.token[:8]}-{os.urandom(3).hex()}"
    if len(str(path / f".s.PGSQL.{_PORT}")) > SOCKET_PATH_LIMIT:
        raise HostError(f"the socket path below {parent} is too long; set XDG_RUNTIME_DIR to a shorter one")
    return path

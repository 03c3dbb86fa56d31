"""The environment of operations: clusters with known contents, servers, a temporary directory."""

import os
import shutil
import signal
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from octavo.errors import HostError, OctavoError
from octavo.home import make_directory, octavo_home, runtime_directory
from octavo.host import children, kept, trees
from octavo.host.children import Account, Finished
from octavo.host.journal import TOKEN_VARIABLE, Journal
from octavo.host.process import end, find_by_environment
from octavo.host.safe_read import read_tail, read_text
from octavo.operations import contents
from octavo.operations.contents import Contents
from octavo.operations.program_output import server_errors
from octavo.operations.related_builds import RelatedBuilds
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import SUPERUSER, Server
from octavo.postgres.scratch import scratch_directory
from octavo.units import human_size

# Replication of every kind, WAL that stays small, and nothing that writes by itself while digests are compared.
# Clusters are thrown away, so they need not be durable; what is timed turns fsync on.
SETTINGS = {
    "wal_level": "logical",
    "max_wal_senders": "10",
    "max_replication_slots": "10",
    "wal_keep_size": "64MB",
    "shared_buffers": "64MB",
    "min_wal_size": "8MB",
    "max_wal_size": "128MB",
    "autovacuum": "off",
    "wal_retrieve_retry_interval": "100ms",
    "fsync": "off",
}
DURABLE = {"fsync": "on"}
# Small, because every copy of a cluster takes some along.
_WAL_SEGMENT = 4 * 1024**2
_FILLING = {"wal_level": "minimal", "max_wal_senders": "0", "wal_keep_size": "0", "max_wal_size": "16MB"}
# At most four clusters, their WAL, a dump and an archive at once.
_DISK_BYTES = 1200 * 1024**2
_DISK_BYTES_PER_SCALE = 100 * 1024**2
_PATIENCE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Filled:
    """A cluster that was filled and shut down cleanly, never started again: it is copied. Size in bytes."""

    directory: Path
    contents: Contents
    database_bytes: int


@dataclass(slots=True)
class Sandbox:
    """Where the operations of one build are tried."""

    build: Build
    related_builds: RelatedBuilds
    journal: Journal
    account: Account
    root: Path
    scale: int
    _filled: dict[str, Filled] = field(default_factory=dict[str, Filled])
    _initialised_builds: set[str] = field(default_factory=set[str])
    _work_directory: Path | None = None

    @property
    def work_directory(self) -> Path:
        """The directory of the operation that is being tried."""
        assert self._work_directory is not None
        return self._work_directory

    @contextmanager
    def operation(self, number: int) -> Generator[None, None, None]:
        """A directory of an operation's own, removed after it."""
        self._work_directory = trees.make_for(self.root / f"{number}", self.account)
        try:
            yield
        finally:
            trees.remove(self._work_directory)
            self._work_directory = None

    def directory(self, name: str) -> Path:
        """A new directory that belongs to the servers' account."""
        self.act("mkdir", "-m", "700", name)
        return self.work_directory / name

    def log_of(self, directory: Path) -> Path:
        """Where the server on a data directory of this operation logs: where its account cannot write."""
        return self.root / f"{self.work_directory.name}-{directory.name}.log"

    def act(self, *arguments: str | Path) -> None:
        """Runs one of the system's programs in this operation's directory, as the account. Raises OctavoError."""
        trees.act_inside(self.work_directory, arguments, self.journal, self.account)

    def filled(self, build: Build | None = None) -> Filled:
        """A cluster with known contents, made by this build at the first call."""
        build = build or self.build
        if build.name not in self._filled:
            directory = self.root / f"filled-{build.name}"
            trees.remove(directory)  # of an operation that failed in the middle
            trees.copy(self._initialised(build), directory, self.journal, self.account)
            log = self.root / f"{directory.name}.log"
            settings = {**SETTINGS, **_FILLING}
            with cluster.start(build, directory, settings, self.journal, self.account, log=log) as server:
                server.create_database()
                contents.fill(server, self.scale)
                known = contents.read(server)
                size: int = server.query("size")[0]["bytes"]
                server.shut_down()
            kept.keep(directory, self.account)
            self._filled[build.name] = Filled(directory, known, size)
        return self._filled[build.name]

    def copy(self, name: str, build: Build | None = None) -> Path:
        """A copy of the filled cluster, for this operation alone."""
        target = self.work_directory / name
        trees.copy_over(self.filled(build).directory, target, self.journal, self.account)
        return target

    def empty(self, name: str, build: Build | None = None) -> Path:
        """A new cluster without Octavo's database."""
        target = self.work_directory / name
        trees.copy_over(self._initialised(build or self.build), target, self.journal, self.account)
        return target

    def serve(
        self, directory: Path, build: Build | None = None, settings: Mapping[str, str] = MappingProxyType({})
    ) -> Server:
        """A server on the data directory. Raises OctavoError with its last words when it does not start."""
        log = self.log_of(directory)
        return cluster.start(
            build or self.build, directory, {**SETTINGS, **settings}, self.journal, self.account, log=log
        )

    def refusal(self, directory: Path) -> str:
        """The server's exact words when it must not start on this data directory. Raises OctavoError when it does."""
        try:
            server = self.serve(directory)
        except OctavoError:
            return server_errors(read_tail(self.log_of(directory)))
        server.stop()
        raise OctavoError("the server started on a data directory that it must refuse")

    def run(self, build: Build, program: str, *arguments: str | Path) -> Finished:
        """Runs a program of a build that needs no server, in this operation's directory."""
        return children.run(
            [build.program(program), *arguments],
            self.journal, role=program, account=self.account, directory=self.work_directory,
        )  # fmt: skip

    def run_upgrade(self, old: Build, old_data: Path, new_data: Path, *options: str) -> Finished:
        """Runs this build's pg_upgrade, whose own servers are ended also when it is interrupted."""
        sockets = make_directory(runtime_directory()) / f"{self.journal.token[:8]}-{os.urandom(3).hex()}"
        entry = self.journal.record("directory", path=str(sockets))
        try:
            trees.make_for(sockets, self.account)
            return self.run(
                self.build, "pg_upgrade", *options,
                "--old-bindir", old.prefix / "bin", "--new-bindir", self.build.prefix / "bin",
                "--old-datadir", old_data, "--new-datadir", new_data,
                "--socketdir", sockets, "--username", SUPERUSER,
            )  # fmt: skip
        finally:
            # pg_ctl puts them into sessions of their own: they outlive a pg_upgrade that is ended.
            for identity in find_by_environment(TOKEN_VARIABLE, self.journal.token):
                if identity.pid in {_server_pid(old_data), _server_pid(new_data)}:
                    end(identity, signal.SIGQUIT)
            if trees.remove(sockets):
                self.journal.done(entry)

    @contextmanager
    def load(self, server: Server, rate: int) -> Generator[None, None, None]:
        """pgbench writes at this rate a second meanwhile; at the end it is cut off, as an application would be."""
        log = self.root / "load.log"
        output = trees.new_log(log)
        child, entry = children.start(
            [
                server.build.program("pgbench"), "--no-vacuum", "--client=2", f"--rate={rate}", "--time=86400",
                "--random-seed=1",
            ],
            self.journal, role="pgbench", account=self.account, directory=self.work_directory,
            environment={**server.client_environment(), "PGAPPNAME": "load"}, stdout=output, stderr=output,
        )  # fmt: skip
        os.close(output)
        try:
            wait_for(
                "pgbench to write",
                lambda: child.poll() is not None or first(server, "SELECT count(*) FROM pgbench_history") > 0,
            )
            yield
            if child.poll() is not None:
                raise OctavoError(f"pgbench stopped while it should write: {read_tail(log).strip()[-200:]}")
        finally:
            children.end(child)
            children.ended(self.journal, entry)
        wait_for(
            "the backends of pgbench to end",
            lambda: first(server, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'load'") == 0,
        )

    def _initialised(self, build: Build) -> Path:
        """A cluster as initdb leaves it, made at the first call: it is copied, because initdb takes seconds."""
        directory = self.root / f"initialised-{build.name}"
        if build.name not in self._initialised_builds:
            trees.remove(directory)
            cluster.initialise(build, directory, self.journal, self.account, wal_segment=_WAL_SEGMENT, checksums=True)
            kept.keep(directory, self.account)
            self._initialised_builds.add(build.name)
        return directory


@contextmanager
def prepared(
    build: Build, related_builds: RelatedBuilds, journal: Journal, account: Account, scale: int
) -> Generator[Sandbox, None, None]:
    """A sandbox for a build's operations. Raises HostError when the disk has no room for it, or becomes full."""
    parent = make_directory(octavo_home() / "scratch")
    needed = _DISK_BYTES + _DISK_BYTES_PER_SCALE * scale
    free = shutil.disk_usage(parent).free
    if free < needed:
        raise HostError(f"{parent} has {human_size(free)} free, the operations need {human_size(needed)}")
    with scratch_directory(journal) as root:
        yield Sandbox(build, related_builds, journal, account, root, scale)


def first(server: Server, query: str, *parameters: object) -> Any:
    """The first value of the first row of a query, with a parameter for each %s."""
    row = server.connection.execute(query.encode(), parameters or None).fetchone()
    return next(iter(row.values())) if row else None


def wait_for(what: str, happened: Callable[[], bool], patience_seconds: float = _PATIENCE_SECONDS) -> float:
    """Waits until it has happened, as a DBA does: by looking again. Returns the seconds, raises OctavoError at last."""
    started = time.monotonic()
    while not happened():
        if time.monotonic() - started > patience_seconds:
            raise OctavoError(f"gave up after {patience_seconds:.0f} s: {what}")
        time.sleep(0.01)
    return time.monotonic() - started


def _server_pid(data: Path) -> int | None:
    """The pid in the data directory's postmaster.pid."""
    with suppress(OSError, ValueError, IndexError):
        return int(read_text(data / "postmaster.pid").splitlines()[0])
    return None

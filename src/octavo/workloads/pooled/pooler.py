"""The real pgbouncer in front of a server: server connections that persist when their clients disconnect.

As in the published test: session pooling, as many server connections as clients, none of them ever closed for its age
(pgbouncer's manual: min_pool_size, server_lifetime, server_idle_timeout). It listens on a Unix socket beside the
server's own. Its settings and log are in a directory that only Octavo may write.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.rows import DictRow

from octavo.errors import HostError, OctavoError
from octavo.host import children, trees
from octavo.host.children import Account
from octavo.host.safe_read import read_tail
from octavo.postgres.cluster import DATABASE, SUPERUSER, Server
from octavo.postgres.own_connection import connect_own
from octavo.text import one_line

_PORT = 6432
_READY_SECONDS = 60.0
_STOP_SECONDS = 10.0
_FOREVER = 10 * 86_400  # longer than any trial (its duration is at most a day)

_CONFIGURATION = """\
[databases]
{database} = host={directory} port={port} dbname={database} user={user}

[pgbouncer]
listen_addr =
listen_port = {pooler_port}
unix_socket_dir = {directory}
auth_type = any
pool_mode = session
max_client_conn = {most_clients}
default_pool_size = {connections}
min_pool_size = {connections}
server_lifetime = {forever}
server_idle_timeout = {forever}
query_wait_timeout = 0
"""


@dataclass(frozen=True, slots=True)
class Pooler:
    """A running pgbouncer: libpq's environment variables for it, its process and its account."""

    environment: Mapping[str, str]
    account: Account
    pid: int

    def connect(self) -> psycopg.Connection[DictRow]:
        """Connects through it. Raises psycopg.Error, or OctavoError when another process listens."""
        return connect_own(
            Path(self.environment["PGHOST"]), int(self.environment["PGPORT"]), user=SUPERUSER, database=DATABASE,
            account=self.account, pid=self.pid, patience_seconds=10,
        )  # fmt: skip


def program(name: str) -> str:
    """The path of a program from a separate package. Raises HostError with the package's name."""
    path = shutil.which(name, path=children.PLAIN_PATH)
    if path is None:
        raise HostError(f"{name} is not installed; on Debian and Ubuntu: apt-get install {name}")
    return path


@contextmanager
def pooled(server: Server, connections: int) -> Generator[Pooler, None, None]:
    """Runs pgbouncer with so many idle connections to the server.

    Raises HostError without pgbouncer, OctavoError when it does not start.
    """
    executable = program("pgbouncer")
    environment = server.client_environment()
    directory = server.socket_directory
    configuration = _CONFIGURATION.format(
        database=DATABASE, user=SUPERUSER, directory=directory, port=environment["PGPORT"], pooler_port=_PORT,
        connections=connections, most_clients=connections + 10, forever=_FOREVER,
    )  # fmt: skip
    with trees.readable_scratch("pgbouncer", server.journal, server.account) as place, ExitStack() as stack:
        settings, log = place / "pgbouncer.ini", place / "pgbouncer.log"
        with os.fdopen(trees.new_readable(settings, server.account), "w") as file:
            file.write(configuration)
        with os.fdopen(trees.new_log(log), "w") as output:
            process, entry = children.start(
                [executable, "-q", settings], server.journal,
                role="pgbouncer", account=server.account, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        stack.callback(_stop, process, server, entry)
        pooler = Pooler({**environment, "PGPORT": str(_PORT)}, server.account, process.pid)
        _make_connections(pooler, connections, process, log)
        yield pooler


def _make_connections(pooler: Pooler, connections: int, process: subprocess.Popen[str], log: Path) -> None:
    """Opens as many clients at once as there should be connections; the server connections remain when the clients
    leave."""
    deadline = time.monotonic() + _READY_SECONDS
    with ExitStack() as stack:
        opened = 0
        while opened < connections:
            try:
                stack.enter_context(pooler.connect()).execute("SELECT 1")
                opened += 1
            except psycopg.Error as error:
                ended = process.poll() is not None
                if ended or opened or time.monotonic() > deadline:
                    raise OctavoError(f"pgbouncer: {_last_line(log) if ended else one_line(error)}") from None
                time.sleep(0.02)  # its socket does not exist yet


def _stop(process: subprocess.Popen[str], server: Server, entry: int) -> None:
    process.terminate()  # at once, whatever is connected (pgbouncer's manual: SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_SECONDS)
    process.kill()
    process.wait()
    children.ended(server.journal, entry)
    for path in server.socket_directory.glob(f".s.PGSQL.{_PORT}*"):
        with suppress(OSError):
            path.unlink()


def _last_line(log: Path) -> str:
    lines = read_tail(log).strip().splitlines()
    return lines[-1] if lines else "it ended without output"

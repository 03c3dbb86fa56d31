"""Connections to servers that we started: the environment cannot redirect them, and the peer is verified to be that
process.

libpq completes a connection string from variables whose names begin with PG, and from a service file that one of them
names (PostgreSQL's manual, "Environment Variables" of libpq). Connections of our own ignore these.
"""

import os
import socket
import struct
from pathlib import Path

import psycopg
from psycopg.rows import DictRow, dict_row

from octavo.errors import OctavoError
from octavo.host.children import Account
from octavo.host.process_table import read_process

_PREFIX = "PG"
# A server's listener is the process that we started or a close descendant: this many processes are checked, upwards.
_GENERATIONS = 4
# A path that cannot exist: libpq ignores a missing password file, and by default it would read ~/.pgpass.
NO_PASSWORDS = "/dev/null/none"


def forget_environment() -> None:
    """Removes libpq's variables from our environment, permanently.

    Restoring them would race with other threads that read the environment. No command both starts servers and connects
    to one that libpq's variables name.
    """
    for name in [name for name in os.environ if name.startswith(_PREFIX)]:
        os.environ.pop(name, None)


def without_libpq(environment: dict[str, str]) -> dict[str, str]:
    """An environment without libpq's variables.

    >>> without_libpq({"PGHOSTADDR": "192.0.2.1", "PATH": "/bin"})
    {'PATH': '/bin'}
    """
    return {name: value for name, value in environment.items() if not name.startswith(_PREFIX)}


def connect_own(
    directory: Path, port: int, *, user: str, database: str, account: Account, pid: int, patience_seconds: int
) -> psycopg.Connection[DictRow]:
    """An autocommit connection through a Unix socket in the directory to the process that we started there.

    A server that requests a password gets none, because it may run other people's code, and ~/.pgpass is ours. Raises
    psycopg.OperationalError if it is refused, OctavoError if another process listens.
    """
    forget_environment()
    connection = psycopg.Connection[DictRow].connect(
        host=str(directory), port=port, user=user, dbname=database, application_name="octavo",
        hostaddr="", options="", sslmode="disable", gssencmode="disable", requirepeer=account.name,
        passfile=NO_PASSWORDS,
        connect_timeout=patience_seconds, autocommit=True, row_factory=dict_row,
    )  # fmt: skip
    try:
        require_peer(connection.fileno(), account.uid, pid)
    except BaseException:
        connection.close()
        raise
    return connection


def require_peer(descriptor: int, uid: int, pid: int) -> None:
    """Raises OctavoError unless the listener at the other end of a Unix socket is this user's process, or its child."""
    found, owner = peer_of(descriptor)
    if owner != uid:
        raise OctavoError(f"the socket of the server is held by user {owner} (process {found}), and not by user {uid}")
    one = found
    for _ in range(_GENERATIONS):
        if one == pid:
            return
        process = read_process(one)
        if process is None:
            break
        one = process.parent
    raise OctavoError(f"process {found} listens at the server's socket, and not process {pid} that was started for it")


def peer_of(descriptor: int) -> tuple[int, int]:
    """The pid and uid of the listener at the other end of a Unix socket (SO_PEERCRED, unix(7)), in our namespaces.

    The pid is 0 for a process that is not visible from here.
    """
    with socket.socket(fileno=os.dup(descriptor)) as copy:
        credentials = copy.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return pid, uid

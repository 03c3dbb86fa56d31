"""libpq's variables do not redirect our connections, and the process that answers at our socket is one we started."""

import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.security.fake_server import Heard, answering

from octavo.errors import OctavoError
from octavo.host.children import Account
from octavo.postgres import own_connection
from octavo.postgres.own_connection import connect_own, without_libpq

_PORT = 5432


@pytest.fixture(autouse=True)
def environment_kept() -> Iterator[None]:
    """Restores the variables that these tests remove from the environment."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[tuple[Path, Heard]]:
    """A server of our own on a Unix socket: the directory, and what it received."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / f".s.PGSQL.{_PORT}"))
    listener.listen()
    with answering(listener) as heard:
        yield tmp_path, heard


@pytest.fixture
def elsewhere() -> Iterator[tuple[int, Heard]]:
    """Another user's server, over TCP: the port, and what it received."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    with answering(listener) as heard:
        yield port, heard


def _account() -> Account:
    return Account(pwd.getpwuid(os.geteuid()).pw_name, os.geteuid(), os.getegid())


def _connect(directory: Path, pid: int, account: Account | None = None) -> psycopg.Connection[dict[str, object]]:
    return connect_own(
        directory, _PORT, user="octavo", database="octavo", account=account or _account(), pid=pid, patience_seconds=60
    )


def _redirect(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, port: int) -> None:
    services = tmp_path / "services.conf"
    services.write_text(f"[elsewhere]\nhost=127.0.0.1\nport={port}\noptions=-c enable_seqscan=off\n")
    for name, value in {
        "PGHOST": "127.0.0.1", "PGHOSTADDR": "127.0.0.1", "PGPORT": str(port), "PGSERVICE": "elsewhere",
        "PGSERVICEFILE": str(services), "PGSYSCONFDIR": str(tmp_path), "PGOPTIONS": "-c zero_damaged_pages=on",
        "PGSSLMODE": "verify-full", "PGGSSENCMODE": "require", "PGCHANNELBINDING": "require",
        "PGREQUIREPEER": "nobody", "PGTARGETSESSIONATTRS": "standby", "PGPASSFILE": str(services),
        "PGCLIENTENCODING": "LATIN1", "PGTZ": "Mars", "PGREQUIREAUTH": "scram-sha-256",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)


def test_no_variable_of_libpq_leads_our_connection_elsewhere(
    monkeypatch: pytest.MonkeyPatch, ours: tuple[Path, Heard], elsewhere: tuple[int, Heard], tmp_path: Path
) -> None:
    directory, heard = ours
    port, heard_elsewhere = elsewhere
    _redirect(monkeypatch, tmp_path, port)
    _connect(directory, os.getpid()).close()
    assert heard_elsewhere.startups == []
    (startup,) = heard.startups
    assert {name: value for name, value in startup.items() if name} == {
        "user": "octavo", "database": "octavo", "application_name": "octavo",
    }  # fmt: skip


def test_a_process_that_we_did_not_start_is_refused(ours: tuple[Path, Heard]) -> None:
    directory, _ = ours
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        try:
            with pytest.raises(OctavoError, match="that was started for it"):
                _connect(directory, other.pid)
        finally:
            other.communicate(b"\n")


def test_a_child_of_the_process_that_we_started_is_taken(ours: tuple[Path, Heard]) -> None:
    directory, _ = ours
    _connect(directory, os.getppid()).close()


def test_another_users_process_is_refused(ours: tuple[Path, Heard]) -> None:
    directory, _ = ours
    uid, name = (0, "root") if os.geteuid() != 0 else (pwd.getpwnam("nobody").pw_uid, "nobody")
    with pytest.raises(psycopg.OperationalError, match="requirepeer"):
        _connect(directory, os.getpid(), Account(name, uid, uid))


def test_another_users_process_is_refused_without_libpqs_help(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "socket"))
    listener.listen()
    with listener, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "socket"))
        with pytest.raises(OctavoError, match="held by user"):
            own_connection.require_peer(client.fileno(), os.geteuid() + 1, os.getpid())


def test_a_server_of_ours_that_asks_for_a_password_gets_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code may come from anybody, and the password file belongs to the user who started it."""
    passwords = tmp_path / ".pgpass"
    passwords.write_text("*:*:*:*:hunter2\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / f".s.PGSQL.{_PORT}"))
    listener.listen()
    with answering(listener, asks_password=True) as heard:
        with pytest.raises(psycopg.OperationalError, match="no password supplied"):
            _connect(tmp_path, os.getpid())
        assert len(heard.startups) == 1
        assert heard.passwords == []


def test_programs_get_none_of_them() -> None:
    assert without_libpq({"PGOPTIONS": "-c x=y", "PGSYSCONFDIR": "/x", "HOME": "/root"}) == {"HOME": "/root"}

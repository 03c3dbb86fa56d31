"""Sockets that look like PostgreSQL's, made by anybody who can write to /tmp: `octavo doctor` as root queries them
all."""

# pyright: reportPrivateUsage=false

import itertools
import os
import socket
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from tests.security import fake_server
from tests.security.test_endless import in_time

from octavo.doctor import examine
from octavo.doctor.collect import gather
from octavo.doctor.collect.find import Listener
from octavo.doctor.examine import ExaminedServer
from octavo.errors import HostError
from octavo.postgres import user_connection
from octavo.postgres.user_connection import SessionLimits, connect, limited

_LIMITS = SessionLimits(statement_timeout="100ms", lock_timeout="100ms")
_DSN = "port=5432 user=nobody dbname=postgres sslmode=disable host="


@pytest.fixture
def planted(tmp_path: Path) -> Generator[Path, None, None]:
    """The directory of a socket whose owner accepts everybody and answers no query."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(tmp_path / ".s.PGSQL.5432"))
    listener.listen()
    with fake_server.answering(listener):
        yield tmp_path


def _nothing(*_: object) -> None:
    pass


def _refusal(name: str, problem: str) -> dict[str, str]:
    return {"server": name, "problem": problem}


def test_a_server_that_never_answers_is_left(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_connection, "_LATE_SECONDS", 0.1)
    with pytest.raises(HostError, match=r"has not answered within 0\.2 s"):
        in_time(lambda: connect(f"{_DSN}{planted}", "octavo", _LIMITS, 0))


def test_an_answer_without_end_is_left(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example if it is larger than the memory: libpq would keep all of it."""
    sizes = itertools.count(0, 1 << 40)
    monkeypatch.setattr(user_connection, "_resident_bytes", lambda: next(sizes))
    with pytest.raises(HostError, match="takes more than 25% of the memory"):
        in_time(lambda: connect(f"{_DSN}{planted}", "octavo", _LIMITS, 0))


def test_what_has_not_answered_is_closed(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_connection, "_LATE_SECONDS", 0.1)
    monkeypatch.setattr(user_connection, "_hold_to", _nothing)
    with connect(f"{_DSN}{planted}", "octavo", _LIMITS, 0) as connection:
        for query in (lambda: connection.execute("SELECT 1"), lambda: connection.execute("SELECT 1")):
            with pytest.raises(psycopg.OperationalError):
                in_time(query)
        assert connection.closed
    with connect(f"{_DSN}{planted}", "octavo", _LIMITS, 0) as connection:
        with pytest.raises(psycopg.OperationalError), limited(connection, SessionLimits("300ms", "1s")):
            pass
        assert connection.patience == pytest.approx(0.4)


def test_a_server_that_was_only_found_gets_no_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(tmp_path / ".s.PGSQL.5432"))
    listener.listen()
    (tmp_path / ".pgpass").write_text("*:*:*:*:secret\n")
    (tmp_path / ".pgpass").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PGPASSWORD", "secret")
    monkeypatch.setattr(examine, "forget_environment", lambda: None)  # as for a user other than root
    with fake_server.answering(listener, asks_password=True) as heard:
        with pytest.raises(HostError, match="asks for a password; name the server with --dsn"):
            examine._connect_to(Listener(str(tmp_path), 5432, os.geteuid()))
        assert len(heard.startups) == 1
    assert not heard.passwords


def test_one_user_cannot_keep_the_doctor_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand sockets, each as slow as a connection may be, on ports before those of the real servers."""
    clock = itertools.count()
    asked: list[Listener] = []
    found = [Listener(f"/home/him/{port}", port, 1000) for port in range(1, 1000)]
    servers = [Listener("/run/postgresql", port, 26) for port in (5432, 5433)]

    def connect_to(listener: Listener) -> Any:
        asked.append(listener)
        if listener.owner == 1000:
            for _ in range(10):
                next(clock)
        raise HostError("it says no")

    monkeypatch.setattr(examine, "listeners", lambda: [*found, *servers])
    monkeypatch.setattr(examine, "_connect_to", connect_to)
    monkeypatch.setattr(examine, "_not_asked", _refusal)
    monkeypatch.setattr(examine, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    for name in ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGPORT"):
        monkeypatch.delenv(name, raising=False)
    patients, refused = examine.patients(None)
    assert not patients
    assert asked[:2] == servers
    assert len(asked) == 2 + examine._MOST_SLOW_OF_A_USER
    assert len(refused) == examine._MOST_SOCKETS + 1
    assert refused[-1]["problem"] == f"and {len(found) + 2 - examine._MOST_SOCKETS} more sockets were not examined; " \
        "give a server with --dsn"  # fmt: skip


class _Answering:
    def __init__(self, problem: Exception | None) -> None:
        self.problem = problem

    def close(self) -> None:
        pass


@pytest.mark.parametrize("problem", [psycopg.OperationalError("gone"), ValueError("no row"), KeyError("version")])
def test_a_server_that_fails_later_does_not_end_the_report(problem: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def facts(connection: Any, _seconds: float, _sizes: Any) -> Any:
        if connection.problem is not None:
            raise connection.problem
        return gather.before_start(1 << 27, "try", Path("/"))

    monkeypatch.setattr(gather, "of_server", facts)
    bad, good = (ExaminedServer(str(one), _Answering(one)) for one in (problem, None))  # pyright: ignore
    parts = list(examine.look_at([bad, good], 0))
    assert [part["server"] for part in parts] == [str(problem), "None"]
    assert [part["problem"] is None for part in parts] == [False, True]
    with pytest.raises(HostError, match=r"no longer responds|are not PostgreSQL's"):
        list(examine.look_at([bad], 0))


@pytest.mark.parametrize(
    ("socket_", "port"),
    [("evil.example.com", "5432"), ("@abstract", "5432"), ("/a,/b", "5432"), ("/run", "9" * 5000), ("/run", "٣")],
)
def test_a_lock_file_leads_to_sockets_of_this_host_only(
    socket_: str, port: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """postmaster.pid belongs to the server's user, who chooses what root reads there."""
    from octavo.hugepages import postmaster_files
    from octavo.hugepages.postmaster_files import Running

    (tmp_path / "postmaster.pid").touch()

    def running(_data: Path) -> Running:
        return Running(7, False, socket_, port)

    def connect_to(listener: Listener) -> Any:
        pytest.fail(f"it asks {listener}")

    monkeypatch.setattr(postmaster_files, "running_on", running)
    monkeypatch.setattr(examine, "_connect_to", connect_to)
    assert examine.on(tmp_path) is None

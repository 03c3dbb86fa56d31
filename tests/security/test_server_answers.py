"""Any answer of a local user's program at a socket like PostgreSQL's becomes plain values, or psycopg's errors."""

# pyright: reportPrivateUsage=false

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.security import fake_server
from tests.security.fake_server import Column
from tests.security.test_endless import in_time

from octavo.cli import app
from octavo.doctor import examine, report
from octavo.doctor.collect.find import Listener
from octavo.doctor.examine import ExaminedServer
from octavo.doctor.facts import Facts
from octavo.errors import HostError, OctavoError
from octavo.host.in_time import in_time as in_time_of_its_own
from octavo.postgres import user_connection
from octavo.postgres.server_answers import AnswerCursor
from octavo.postgres.user_connection import SessionLimits, UsersConnection, connect

_LIMITS = SessionLimits(statement_timeout="100ms", lock_timeout="100ms")
_INT8, _NUMERIC, _JSON, _DATE, _TEXTS, _FLOAT8, _NUMERICS = 20, 1700, 114, 1082, 1009, 701, 1231


def _nothing(*_: object) -> None:
    pass


@contextmanager
def _connected(
    place: Path, monkeypatch: pytest.MonkeyPatch, column: Column | None
) -> Generator[UsersConnection, None, None]:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(place / ".s.PGSQL.5432"))
    listener.listen()
    monkeypatch.setattr(user_connection, "_hold_to", _nothing)
    with (
        fake_server.answering(listener, column=column),
        connect(f"port=5432 user=nobody dbname=postgres sslmode=disable host={place}", "octavo", _LIMITS, 0) as found,
    ):
        yield found


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (Column(b"7", _INT8), 7),
        (Column(b"12.0", _NUMERIC), 12),
        (Column(b"-0.25", _NUMERIC), -0.25),
        (Column(b"1e-999999999", _NUMERIC), 0.0),
        (Column(b"1.5", _FLOAT8), 1.5),
        (Column(b'[{"a": 1}]', _JSON), [{"a": 1}]),
        (Column(b"2026-11-26", _DATE), "2026-11-26"),
        (Column(b"\xff", 25), "\ufffd"),
        (Column(b"\xff", 4_000_000), "\ufffd"),
        (Column(b'{a,"b\\"c, {",NULL}', _TEXTS), ["a", 'b"c, {', "NULL"]),
        (Column(b"{}", _TEXTS), []),
    ],
)
def test_values_are_plain(column: Column, value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _connected(tmp_path, monkeypatch, column) as connection:
        for _ in range(2):
            row = connection.execute("SELECT").fetchone()
            assert row is not None
            assert row == {"answer": value}
            assert type(row["answer"]) is type(value)
        assert [dict(each) for each in connection.execute("SELECT")] == [{"answer": value}]


@pytest.mark.parametrize(
    "column",
    [
        Column(b"1E+999999999", _NUMERIC),
        Column(b"9" * 5000, _NUMERIC),
        Column(b"NaN", _NUMERIC),
        Column(b"9" * 4000, _INT8),
        Column(b"x", _INT8),
        Column(b"[" * 100_000, _JSON),
        Column(b"{" * 100_000, _TEXTS),
        Column(b"answer", name=b"\xff"),
        Column(bytes(8), _INT8, format=1),
        Column(b"\x00\x01\x7f\xff\x00\x00\x00\x00\x00\x01", _NUMERIC, format=1),
        Column(b"\x00", format=1),
    ],
)
def test_what_is_no_value_is_psycopgs_error(column: Column, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 1E+999999999 the conversion to an integer takes 400 MB and hours."""

    def ask() -> object:
        return int(next(iter(connection.execute("SELECT").fetchall()[0].values())))

    with _connected(tmp_path, monkeypatch, column) as connection:
        for _ in range(2):
            with pytest.raises(psycopg.Error) as raised:
                in_time(ask)
            assert len(str(raised.value)) < 200


def test_numbers_in_lists_stay_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _connected(tmp_path, monkeypatch, Column(b"{1E+999999999}", _NUMERICS)) as connection:
        assert connection.execute("SELECT").fetchone() == {"answer": "{1E+999999999}"}


def test_rows_that_would_fill_the_memory_are_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What libpq stores in a quarter of the memory takes several times as much as Python rows."""
    monkeypatch.setattr(AnswerCursor, "_most_bytes", 100.0)
    with (
        _connected(tmp_path, monkeypatch, Column(b"7")) as connection,
        pytest.raises(psycopg.DataError, match="too many for the memory"),
    ):
        connection.execute("SELECT")


def test_the_memory_that_counts_is_what_there_is_now() -> None:
    """With the maximum of the past as the limit, one large answer after another might use all of it."""
    before = user_connection._resident_bytes()
    taken = bytearray(b"x") * (256 << 20)
    with_it = user_connection._resident_bytes()
    del taken
    assert with_it - before > 200 << 20
    assert user_connection._resident_bytes() < with_it - (200 << 20)


def test_all_answers_together_have_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _connected(tmp_path, monkeypatch, Column(b"7")) as connection:
        connection.execute("SELECT")
        assert connection.waited > 0
        connection.most_waiting = connection.waited
        with pytest.raises(psycopg.OperationalError, match="answers have taken 0 s"):
            in_time(lambda: connection.execute("SELECT"))
        assert connection.closed


@pytest.mark.parametrize(
    "column", [Column(b"[" * 100_000, _JSON), Column(b"x", name=b"\xff"), Column(b"{" * 9, _TEXTS)]
)
def test_a_planted_server_does_not_end_the_doctor(
    column: Column, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A traceback at its first answer would keep the doctor from all other servers."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(tmp_path / ".s.PGSQL.5432"))
    listener.listen()
    monkeypatch.setattr(examine, "listeners", lambda: [Listener(str(tmp_path), 5432, tmp_path.stat().st_uid)])
    monkeypatch.setattr(examine, "forget_environment", _nothing)
    for name in ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGPORT"):
        monkeypatch.delenv(name, raising=False)
    with fake_server.answering(listener, column=column):
        patients, refused = examine.patients(None)
    assert not patients
    assert len(refused) == 1
    assert refused[0]["problem"]


@pytest.mark.parametrize(
    "command",
    [
        ["watch", "--once", "--interval", "100ms"],
        ["trace", "record", "--counters", "--for", "200ms", "-o", "new.octrace"],
        ["hugepages", "plan"],
        ["hugepages", "verify"],
    ],
)
def test_rows_that_are_not_those_of_a_query_are_one_line(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server to which the DSN leads may answer each query with a column of another name."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(tmp_path / ".s.PGSQL.5432"))
    listener.listen()
    monkeypatch.setattr(user_connection, "_hold_to", _nothing)
    monkeypatch.setattr(UsersConnection, "any_opened", False)
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    dsn = f"port=5432 user=nobody dbname=postgres sslmode=disable host={tmp_path}"
    with (
        fake_server.answering(listener, column=Column(b"7")),
        pytest.raises(HostError, match=r"responses are not PostgreSQL's( |$)") as raised,
    ):
        app._call([*command, "--dsn", dsn])
    assert str(raised.value).isprintable()


def test_without_such_a_server_it_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UsersConnection, "any_opened", False)
    assert app._of_a_server(KeyError("name")) is None


class _Slow:
    """A connection that has already waited for long."""

    waited = 0.0

    def close(self) -> None:
        pass


def test_a_user_whose_servers_are_slow_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """They answer each query just in time, so that examining a hundred of them takes hours."""
    asked: list[str] = []

    def facts(server: ExaminedServer, _: float) -> Facts:
        asked.append(server.name)
        server.connection.waited = 30.0 if server.owner == 1000 else 1.0
        return Facts()

    def no_report(name: str, _: Facts) -> dict[str, Any]:
        return {"server": name, "problem": None}

    def not_asked(name: str, problem: str) -> dict[str, Any]:
        return {"server": name, "problem": problem}

    monkeypatch.setattr(ExaminedServer, "facts", facts)
    monkeypatch.setattr(report, "part", no_report)
    monkeypatch.setattr(examine, "_not_asked", not_asked)
    owners = [1000] * 9 + [26, None]
    servers = [ExaminedServer(str(number), _Slow(), owner) for number, owner in enumerate(owners)]  # pyright: ignore
    parts = list(examine.look_at(servers, 0))
    assert asked == ["0", "1", "2", "9", "10"]
    assert [part["server"] for part in parts if part["problem"]] == ["3", "4", "5", "6", "7", "8"]


def test_a_look_that_does_not_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """For example a look into a data directory, named by the server, in a filesystem that does not answer."""
    looks: list[str] = []
    never = threading.Event()

    def facts(server: ExaminedServer, _: float) -> Facts:
        looks.append(server.name)
        never.wait()
        return Facts()

    monkeypatch.setattr(examine, "_MOST_LOOKING_SECONDS", 0.05)
    monkeypatch.setattr(ExaminedServer, "facts", facts)
    server = ExaminedServer("theirs", _Slow(), 1000)  # pyright: ignore
    try:
        for _ in range(2):
            with pytest.raises(HostError, match="theirs: the server, or its data directory, does not respond"):
                server.look(0)
        assert len(looks) <= 1
    finally:
        never.set()


def test_work_in_time_gives_what_it_gives() -> None:
    def fail() -> int:
        raise HostError("no")

    assert in_time_of_its_own(lambda: 7, 60) == 7
    with pytest.raises(HostError, match="no"):
        in_time_of_its_own(fail, 60)


def test_facts_that_no_report_can_be_made_of_are_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def part(*_: object) -> Any:
        raise TypeError("unhashable")

    def facts(*_: object) -> Facts:
        return Facts()

    monkeypatch.setattr(ExaminedServer, "facts", facts)
    monkeypatch.setattr(report, "part", part)
    with pytest.raises(HostError, match="its responses are not PostgreSQL's"):
        ExaminedServer("x", _Slow()).look(0)  # pyright: ignore


def test_an_error_of_a_server_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever command encounters it."""

    def command(*_: object) -> Any:
        raise psycopg.DataError("column of\nno type password=secret")

    def get_command(_: object) -> "_Command":
        return _Command(command)

    monkeypatch.setattr(app.typer.main, "get_command", get_command)
    with pytest.raises(OctavoError, match=r"no longer responds as PostgreSQL does: column of no type password=\*\*\*"):
        app._call(["watch"])


class _Command:
    def __init__(self, work: Any) -> None:
        self._work = work

    def make_context(self, *_: object) -> Any:
        return self._work()

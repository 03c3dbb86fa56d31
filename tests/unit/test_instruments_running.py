"""The time limits for the server's answers to instruments: a minute before the run, half a second during it."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
from tests.unit.test_sampler import Counting, FakeClock

from octavo.errors import OctavoError
from octavo.instruments.base import Reader, Stop
from octavo.instruments.figures import Reading
from octavo.instruments.running import InstrumentSet
from octavo.instruments.target import Target
from octavo.observation import Observation
from octavo.postgres.cluster import Server
from octavo.workloads.base import WorkloadResult

_PREFIX = "SET statement_timeout = "


class SlowConnection:
    """Answers after five seconds, or is cancelled by the limit before."""

    closed = False
    info = SimpleNamespace(server_version=180000, backend_pid=1)

    def __init__(self) -> None:
        self.limits: list[str] = []

    def execute(self, statement: bytes) -> "SlowConnection":
        text = statement.decode()
        if text.startswith(_PREFIX):
            self.limits.append(text.removeprefix(_PREFIX))
        elif not text.startswith("SET ") and self.limits and self.limits[-1] == "'500ms'":
            raise psycopg.errors.QueryCanceled("canceling statement due to statement timeout")
        return self

    def fetchall(self) -> list[dict[str, Any]]:
        return [{"cluster_name": "one"}]

    def close(self) -> None:
        self.closed = True


class Asking(Counting):
    """Queries the server when it is opened and in each reading."""

    def open(self, target: Target) -> Reader:
        def read() -> Reading:
            target.query("cluster_name")
            return {None: {"reads": 1.0, "level": 1.0}}

        read()
        return Reader(read)


@pytest.fixture
def connection() -> SlowConnection:
    return SlowConnection()


@pytest.fixture
def server(connection: SlowConnection, tmp_path: Path) -> Server:
    def connect(_: str) -> SlowConnection:
        return connection

    nothing: Callable[[], None] = lambda: None  # noqa: E731
    return cast(
        Server,
        SimpleNamespace(connect=connect, disconnect=nothing, directory=tmp_path, process=SimpleNamespace(pid=1)),
    )


def test_a_server_on_a_busy_disk_has_a_minute_before_the_run(server: Server, connection: SlowConnection) -> None:
    clock = FakeClock()
    with InstrumentSet({"database": Asking(clock)}, print).start(server, running=clock) as watching:
        assert connection.limits == ["'60s'", "'500ms'"]
        seen = watching.finish(WorkloadResult((), 1.0, 1))
    assert seen.missed == {"database": 1}  # the last reading, and not the first one
    assert connection.closed


class Lacking(Counting):
    """Has no value of one of its events."""

    def open(self, target: Target) -> Reader:
        return Reader(lambda: {None: {"reads": 1.0}}, lacking=lambda: "no counter was free for misses")


def test_what_a_reading_lacks_is_a_fact_of_the_trial(server: Server) -> None:
    clock = FakeClock()
    with InstrumentSet({"database": Lacking(clock)}, print).start(server, running=clock) as watching:
        assert watching.finish(WorkloadResult((), 1.0, 1)).off["database"] == "no counter was free for misses"


class Recording:
    """An instrument that runs from its start to its stop, as perf record does."""

    metrics = ()

    def __init__(self) -> None:
        self.runs = False

    def start(self, server: Server) -> Stop:
        del server
        self.runs = True

        def stop(_: WorkloadResult) -> list[Observation]:
            self.runs = False
            return []

        return stop


def test_what_was_started_is_stopped_when_the_server_refuses(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> SlowConnection:
        raise OctavoError("could not connect to the server: too many clients already")

    monkeypatch.setattr(server, "connect", refuse)
    recording = Recording()
    with pytest.raises(OctavoError, match="too many clients"):
        InstrumentSet({"profile": recording}, print).start(server)
    assert not recording.runs

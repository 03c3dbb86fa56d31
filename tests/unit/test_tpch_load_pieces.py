"""A step of a load that runs in a thread: how it ends, fails, and is interrupted."""

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from octavo import workloads
from octavo.errors import OctavoError
from octavo.postgres.wal_contents import Position, WalContents
from octavo.workloads.tpch import generator
from octavo.workloads.tpch.load_pieces import LoadPieces, RunningStep
from octavo.workloads.tpch.load_run import LoadRecord
from octavo.workloads.tpch.loading import Loading, LoadStep, StepWork, opened
from octavo.workloads.tpch.query import Session
from octavo.workloads.tpch.usage import QueryUsage, UsageSnapshot, observations


@dataclass
class Load:
    """Runs the given steps, on a connection without a server."""

    step: Callable[[], object]
    session: Any = None

    def run(self, name: str) -> StepWork:
        self.step()
        return StepWork(processes=((3, 2.0),))


def step_of(step: Callable[[], object], session: Any = None) -> RunningStep:
    load: Any = Load(step, session)
    return RunningStep(load, "copy")


def test_a_step_is_waited_for_in_parts() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        step = step_of(lambda: ours.recv(1))
        step.go()
        assert not step.wait(0.01)
        theirs.send(b"x")
        assert step.wait(float("inf"))


@pytest.mark.parametrize("error", [OctavoError("tpchgen-cli failed"), OSError(5, "no pipe"), KeyError("copy")])
def test_a_step_that_fails_has_not_ended(error: Exception) -> None:
    def fail() -> None:
        raise error

    step = step_of(fail)
    step.go()
    with pytest.raises(type(error)):
        step.wait(float("inf"))


def test_a_step_that_waits_for_a_server_that_stands_still_is_broken_off() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        session = SimpleNamespace(connection=SimpleNamespace(pgconn=SimpleNamespace(socket=ours.fileno())))
        step = step_of(lambda: ours.recv(1), session)
        step.go()
        step.cancel()
        assert step.wait(0)
        assert ours.fileno() >= 0  # libpq closes it


def test_a_step_has_the_time_of_its_slices_and_no_share_of_the_device_that_all_cells_share() -> None:
    found: list[tuple[LoadStep, QueryUsage]] = []

    def before() -> None:
        """Reads nothing."""

    def used() -> QueryUsage:
        return QueryUsage(seconds=70.0, cpu=4.0, waited=0.5, device=(0, 0, 900, 10**9, 60_000, 10**6))

    def after(step: LoadStep, used: QueryUsage) -> None:
        found.append((step, used))

    record: Any = SimpleNamespace(before=before, used=used, after=after)
    load: Any = Load(lambda: None, SimpleNamespace(captured=list))
    steps = LoadPieces(load, record, "keys-first")
    begun = steps.begin(("load.copy", 1))
    begun.running.go()
    assert begun.running.wait(float("inf"))
    run = begun.end(10.0)
    assert (run.seconds, steps.enough("load.copy")) == (10.0, False)
    run.keep()
    assert (steps.enough("load.copy"), steps.enough("load.pkey")) == (True, False)
    assert found == [
        (LoadStep("copy", 10.0, None, (), ((3, 2.0),)), QueryUsage(seconds=10.0, cpu=4.0, waited=0.5, device=None))
    ]


@pytest.mark.parametrize(
    ("inspected", "metrics"),
    [
        (1000, {"wal_record_bytes": 700.0, "wal_image_bytes": 200.0, "wal_read_share": 1.0}),
        (250, {"wal_read_share": 0.25}),  # the rest was recycled, or is beyond what is read
        (0, {"wal_read_share": 0.0}),
    ],
)
def test_the_parts_of_a_step_s_wal_are_those_of_all_of_it(
    inspected: int, metrics: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One cell's records of a quarter of the WAL are no less than another's of the whole."""
    ends = iter((5000, 6000))

    def position(server: object) -> Position:
        return Position(next(ends), "00000001", 8192, 16 * 1024**2)

    def contents(server: object, start: int, end: Position, most: int) -> WalContents:
        assert (start, end.end) == (5000, 6000)
        return WalContents(700, 200, inspected, 24)

    def snapshot(server: object) -> UsageSnapshot:
        return UsageSnapshot(0.0, 0.0, 0.0, None)

    monkeypatch.setattr("octavo.workloads.tpch.load_run.wal_contents.position", position)
    monkeypatch.setattr("octavo.workloads.tpch.load_run.wal_contents.contents", contents)
    monkeypatch.setattr("octavo.workloads.tpch.load_run.usage.snapshot", snapshot)
    server: Any = None
    record = LoadRecord(server)
    record.before()
    record.after(LoadStep("pkey", 1.0))
    found = {one.metric: one.value for one in record.observations if one.metric.startswith("wal_")}
    assert found == {"wal_bytes": 1000.0, "wal_page_header_bytes": 24.0, **metrics}


def test_a_load_analyses_with_the_target_of_its_cell_and_not_of_the_dataset_that_all_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    executed: list[tuple[object, object]] = []

    class Connection:
        """Notes what it is asked to execute."""

        def add_notice_handler(self, handler: object) -> None:
            """There are no notices."""

        def execute(self, statement: object, parameters: object = None) -> None:
            executed.append((statement, parameters))

    def lent_program(server: object) -> AbstractContextManager[None]:
        return nullcontext()

    def stream(*_: object) -> AbstractContextManager[SimpleNamespace]:
        return nullcontext(SimpleNamespace(wait_for_first=lambda: None))

    def connect(database: str) -> AbstractContextManager[Connection]:
        return nullcontext(Connection())

    monkeypatch.setattr(generator, "lent_program", lent_program)
    monkeypatch.setattr(generator, "stream", stream)
    server: Any = SimpleNamespace(connect=connect, execute=executed.append)
    workload = workloads.find("tpch")
    few, many = ({"phase": "load", "scale": "0.01", "statistics_target": target} for target in ("100", "1000"))
    assert workload.contents(few) == workload.contents(many)
    workload.fill(server, few)
    assert executed == []
    with opened(server, many, "off"):
        assert executed[0] == ("SELECT set_config(%s, %s, false)", ("default_statistics_target", "1000"))


def test_a_step_could_use_a_processor_for_each_worker_that_its_statements_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three statements of 2 s each the second builds its index with two workers: on three processors 3.3 s of CPU
    were 33 % of the 10 s, and not 55 % of 6 s."""
    clock = iter(float(second) for second in range(0, 100, 2))
    message = 'building index "i" on table "t" with request for 2 parallel workers'

    class Connection:
        """Reports the workers of the second statement."""

        def __init__(self) -> None:
            self.executed: list[bytes] = []
            self.handlers: list[Callable[[object], None]] = []

        def add_notice_handler(self, handler: Callable[[object], None]) -> None:
            self.handlers.append(handler)

        def execute(self, statement: bytes) -> None:
            self.executed.append(statement)
            if len(self.executed) == 2:
                self.handlers[0](SimpleNamespace(message_primary=message))

    connection: Any = Connection()
    rows: Any = None
    now = SimpleNamespace(perf_counter=lambda: next(clock))
    monkeypatch.setattr("octavo.workloads.tpch.loading.time", now)
    monkeypatch.setattr("octavo.workloads.tpch.loading._STATEMENTS", {"pkey": ("a", "b", "c")})
    work = Loading(Session(connection, "off"), rows).run("pkey")
    assert work.processes == ((1, 2.0), (3, 2.0), (1, 2.0))
    used = QueryUsage(seconds=6.0, cpu=3.3, waited=0.0, device=None, processors=3)
    found = {one.metric: one.value for one in observations(used, "load.pkey", 1, processes=work.processes)}
    assert found["server_cpu_share"] == pytest.approx(0.33)

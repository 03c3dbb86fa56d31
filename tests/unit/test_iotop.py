"""`octavo iotop`: the rows by requesting process, for whom I/O workers read, and how it degrades."""

import io
import json
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from octavo.errors import HostError
from octavo.host.diskstats import DiskTotals
from octavo.host.journal import Journal
from octavo.instruments.request_counter import Direction
from octavo.instruments.target import Target
from octavo.iotop import open as opening
from octavo.iotop.activity import Activity, ProcessActivity, doing_of
from octavo.iotop.in_flight import InFlight
from octavo.iotop.instance import instance, undo_instance
from octavo.iotop.monitor import RequestMonitor
from octavo.iotop.process_info import WRITE_BACK, ProcessInfo
from octavo.iotop.process_io import AskedBytes, AskedOf, SystemCalls
from octavo.iotop.request_source import RequestCount, RequestSource
from octavo.iotop.snapshot import IoWorkerClient, RequestRow, RequestSnapshot, RequestSum, RowKey, rows_of, settled
from octavo.iotop.terminal_text import one_line
from octavo.iotop.view import view

# --- what is shown

DIRECTIONS: tuple[Direction, ...] = ("read", "write")


@given(st.text())
def test_text_of_others_is_one_line_that_a_terminal_does_not_obey(text: str) -> None:
    shown = one_line(text)
    assert shown.isprintable()
    assert "  " not in shown and shown == shown.strip()


def test_what_the_server_says_is_believed_of_its_own_processes_only() -> None:
    ours, stranger = (
        ProcessInfo(13, 10, 999, "postgres", "client backend"),
        ProcessInfo(14, 99, 999, "postgres", "client backend"),
    )
    doing = {
        13: ProcessActivity("client backend", "shop", "SELECT 1"),
        14: ProcessActivity("walsender", "shop", "SELECT 2"),
    }
    sums = {RowKey(who, "vda", "read", ring=False): RequestSum(2, 8192) for who in (ours, stranger)}
    found = {row.who.pid: row for row in rows_of(sums, doing, 10, {})}
    assert (found[13].query, found[13].bytes_per_request) == ("SELECT 1", 4096)
    assert (found[14].query, found[14].role) == (None, "client backend")
    assert all(row.query is None for row in rows_of(sums, doing, None, {}))


def test_an_io_worker_reads_for_others_and_writes_for_itself() -> None:
    worker, stranger = (
        ProcessInfo(12, 10, 999, "postgres", "io worker"),
        ProcessInfo(22, 99, 999, "postgres", "io worker"),
    )
    doing = {13: ProcessActivity("client backend", "shop", "SELECT 1")}
    sums = {
        RowKey(who, "vda", direction, ring=False): RequestSum(2, 8192)
        for who in (worker, stranger)
        for direction in DIRECTIONS
    }
    found = {(row.who.pid, row.direction): row.readers for row in rows_of(sums, doing, 10, {13: 0.75, 14: 0.25})}
    assert found[12, "read"] == (IoWorkerClient(13, 0.75, "shop", "SELECT 1"), IoWorkerClient(14, 0.25, None, None))
    assert [key for key, readers in found.items() if readers] == [(12, "read")]
    assert not any(row.readers for row in rows_of(sums, doing, None, {13: 1.0}))


def of_server(query: Callable[[str], list[dict[str, int]]]) -> Target:
    return Target(query, 180000, None, 10, None)


def test_for_whom_io_workers_read_is_what_was_in_flight_at_each_moment() -> None:
    moments: Iterator[list[dict[str, int]] | Exception] = iter(
        [
            [{"pid": 13, "bytes": 8192}, {"pid": 14, "bytes": 32768}],
            psycopg.errors.QueryCanceled("timeout"),
            psycopg.errors.LockNotAvailable("canceling statement due to lock timeout"),
            psycopg.errors.CharacterNotInRepertoire('invalid byte sequence for encoding "EUC_JP": 0xfc'),
            psycopg.errors.UntranslatableCharacter("character has no equivalent in encoding"),
            [],
            [{"pid": 13, "bytes": 122880}],
        ]
    )

    def query(name: str) -> list[dict[str, int]]:
        assert name == "in_flight"
        found = next(moments)
        if isinstance(found, Exception):
            raise found
        return found

    in_flight = InFlight(of_server(query))
    for _ in range(7):
        in_flight.sample()
    assert list(in_flight.take().items()) == [(13, 0.8), (14, 0.2)]
    assert (in_flight.take(), in_flight.off) == ({}, None)


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (psycopg.errors.InsufficientPrivilege("permission denied"), "GRANT pg_monitor"),
        (psycopg.OperationalError("the connection\nis lost"), "the connection is lost"),
        (HostError("the server did not accept our timeouts"), "did not accept our timeouts"),
    ],
)
def test_a_server_that_does_not_tell_it_is_asked_once(problem: Exception, words: str) -> None:
    asked: list[str] = []

    def query(name: str) -> list[dict[str, int]]:
        asked.append(name)
        raise problem

    in_flight = InFlight(of_server(query))
    in_flight.sample()
    in_flight.sample()
    assert asked == ["in_flight"]
    assert in_flight.off is not None and words in in_flight.off
    assert in_flight.take() == {}


def test_a_process_whose_role_came_later_is_one_row() -> None:
    new, known = ProcessInfo(13, 10, 999, "postgres"), ProcessInfo(13, 10, 999, "postgres", "client backend")
    gone, other = ProcessInfo(13, None, None, "postgres", "ended", ended=True), ProcessInfo(14, 10, 999, "postgres")
    sums = {RowKey(who, "vda", "read", ring=False): RequestSum(2, 512) for who in (new, known, gone, other)}
    assert settled(sums) == {
        RowKey(known, "vda", "read", ring=False): RequestSum(6, 1536),
        RowKey(other, "vda", "read", ring=False): RequestSum(2, 512),
    }  # fmt: skip
    past = replace(new, role="ended", ended=True)
    assert {key.who for key in settled(sums, {14: other}.__getitem__)} == {known, other}
    lone = {RowKey(new, "vda", "read", ring=False): RequestSum(2, 512)}
    assert [key.who for key in settled(lone, {13: past}.__getitem__)] == [past]
    uncounted = {RowKey(known, None, "read", ring=False): RequestSum(None, 512)}
    assert settled(uncounted) == uncounted


def test_a_query_that_is_over_is_told_from_one_that_runs() -> None:
    row = {"backend_type": "client backend", "database": "a\nb", "state": "idle", "query": "SELECT\n 1"}
    assert doing_of(row) == ProcessActivity("client backend", "a b", "(SELECT 1)")
    assert doing_of({**row, "state": "active"}).query == "SELECT 1"
    assert doing_of({**row, "state": None, "query": None, "database": None}) == ProcessActivity(
        "client backend", None, None
    )
    hidden = {"backend_type": None, "database": "shop", "state": None, "query": "<insufficient privilege>"}
    assert doing_of(hidden) == ProcessActivity(None, "shop", None)


@pytest.mark.parametrize(
    "query",
    [
        "ALTER ROLE a PASSWORD 'hunter2'", "create user a encrypted password\n'x''hunter2' valid until 'infinity'",
        r"ALTER ROLE a PASSWORD E'x\'hunter2'", "ALTER ROLE a PASSWORD $$hunter2$$", "ALTER ROLE a PASSWORD $a$hunter2",
        "ALTER ROLE a PASSWORD 'hunter2 and what was cut o", r"ALTER ROLE a PASSWORD 'hunter2\ ".strip(),
        "CREATE USER MAPPING FOR a SERVER b OPTIONS (user 'a', password 'hunter2')",
        "CREATE SUBSCRIPTION s CONNECTION 'host=b password=hunter2 user=a' PUBLICATION p",
        "CREATE SUBSCRIPTION s CONNECTION 'host=b password=''x hunter2'' user=a' PUBLICATION p",
        "SELECT dblink_connect('postgresql://a:hunter2@b/c')", "UPDATE account SET password = 'hunter2' WHERE id = 7",
        'SELECT * FROM account WHERE "password" = \'hunter2\'',
        "CREATE SUBSCRIPTION s CONNECTION 'host=b password=''x hunter2'",  # cut off between two quotes
        r"SELECT dblink_connect('password=''x\''hunter2'' host=b')",
        r"SELECT dblink_connect(E'password=\'x hunter2\' host=b')", "ALTER ROLE a PASSWORD /* x */ 'hunter2'",
        "SET app.password TO 'hunter2'", "SELECT set_config('app.password', 'hunter2', false)",
        "SELECT log_in(password => 'hunter2')", "SELECT log_in(password := 'hunter2')",
    ],
)  # fmt: skip
def test_a_query_shows_no_password(query: str) -> None:
    row = {"pid": 7, "backend_type": "client backend", "database": "shop", "state": "active", "query": query}
    shown = doing_of(row).query
    assert shown is not None and "hunter2" not in shown and "***" in shown


def test_a_query_without_a_password_is_shown_as_it_is() -> None:
    query = "SELECT password_of('x'), 'password' FROM t WHERE password IS NULL OR name = 'it''s'"
    row = {"pid": 7, "backend_type": "client backend", "database": "shop", "state": "active", "query": query}
    assert doing_of(row).query == query


def test_a_long_query_without_a_password_takes_no_time() -> None:
    """track_activity_query_size may be 1 MB, and any user of the server writes the query."""
    began = time.process_time()
    query = "password/*" * 10_000
    row = {"pid": 7, "backend_type": "client backend", "database": "shop", "state": "active", "query": query}
    assert "***" not in str(doing_of(row).query)
    assert time.process_time() - began < 1.0


def test_what_kernel_workers_write_is_not_given_to_a_process() -> None:
    worker = ProcessInfo(None, None, 0, "kworker", "kernel worker", kernel=True)
    sums = {
        RowKey(worker, "vda", "write", ring=False): RequestSum(1, 4096),
        RowKey(worker, "vda", "read", ring=False): RequestSum(1, 512),
    }
    assert [row.role for row in rows_of(sums, {}, None, {})] == [WRITE_BACK, "kernel worker"]


def snapshot(*rows: RequestRow, source: str = "bpf", lost: int = 0) -> RequestSnapshot:
    totals = DiskTotals(5, 40960, 1, 8192)
    return RequestSnapshot(1.7e9, 5.0, source, rows, {"vda": totals}, {"queries": "no"}, lost, 0.01, 0.001)


def row(who: ProcessInfo, query: str | None = None, requests: int | None = 4) -> RequestRow:
    return RequestRow(who, "vda", "read", requests, 32768, "io_uring", "shop", query)


def text(shown: RequestSnapshot, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, markup=False).print(view(shown, width))
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 110, 200])
def test_it_fits_its_terminal(width: int) -> None:
    many = [row(ProcessInfo(pid, 10, 999, "postgres", "client backend"), "SELECT 1 " * 50) for pid in range(5)]
    shown = text(snapshot(*many, lost=7), width)
    assert all(len(line) <= width for line in shown.splitlines())
    words = " ".join(shown.split())
    assert "32768" in words and "not available: queries: no" in words and "7 events were lost" in words
    assert ("SELECT" in words) == (width >= 100)
    assert ("BYTES/REQ" in words and "8192" in words) == (width >= 50)


def test_for_whom_an_io_worker_read_stands_where_queries_do() -> None:
    worker = row(ProcessInfo(12, 10, 999, "postgres", "io worker"))
    one, other = IoWorkerClient(13, 0.75, "shop", "SELECT 1"), IoWorkerClient(14, 0.25, None, None)
    assert "for 13 shop: SELECT 1\n" in text(snapshot(replace(worker, readers=(one,))), 200)
    both = replace(worker, readers=(one, other))
    assert "for 13 (75%) shop: SELECT 1, 14 (25%)\n" in text(snapshot(both), 200)
    assert snapshot(both).as_dict()["rows"][0]["readers"] == [
        {"pid": 13, "share": 0.75, "database": "shop", "query": "SELECT 1"},
        {"pid": 14, "share": 0.25, "database": None, "query": None},
    ]


def test_what_a_process_asked_for_stands_beside_what_was_served() -> None:
    backend = ProcessInfo(13, 10, 999, "postgres", "client backend")
    asked = {13: AskedOf(SystemCalls(20_574, 168_542_208), SystemCalls(0, 0))}
    sums = {RowKey(backend, "dm-1", direction, ring=False): RequestSum(52, 168_542_208) for direction in DIRECTIONS}
    rows = {row.direction: row for row in rows_of(sums, {}, None, {}, asked)}
    shown = snapshot(rows["read"])
    line = text(shown, 200)
    assert "168542208" in line and "8192" in line and "3241196" in line  # requested in 8 kB, served in 3 MB
    assert shown.as_dict()["rows"][0]["asked"] == {"calls": 20_574, "bytes": 168_542_208}
    assert rows["write"].asked == SystemCalls(0, 0)
    assert "CALL BYTES" not in text(shown, 120)
    ended = replace(backend, ended=True)
    (gone,) = rows_of({RowKey(ended, "vda", "read", ring=False): RequestSum(1, 512)}, {}, None, {}, asked)
    assert gone.asked is None and "·" in text(snapshot(gone), 200)


def test_calls_are_counted_between_two_looks(tmp_path: Path) -> None:
    def plant(pid: int, numbers: tuple[int, int, int, int]) -> None:
        names = ("rchar", "wchar", "syscr", "syscw")
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        text = "".join(f"{name}: {number}\n" for name, number in zip(names, numbers, strict=True))
        (tmp_path / str(pid) / "io").write_text(text + "read_bytes: 0\n")

    plant(7, (100, 10, 5, 1))
    plant(8, (9000, 900, 90, 9))
    (tmp_path / "9").mkdir()  # those of others may not be readable
    asked = AskedBytes(tmp_path)
    plant(7, (8292, 10, 6, 1))
    plant(8, (50, 0, 1, 0))  # another process now has the pid
    plant(11, (1, 2, 3, 4))
    found = asked.take()
    assert found[7] == AskedOf(SystemCalls(1, 8192), SystemCalls(0, 0))
    assert found[8].read == SystemCalls(1, 50)
    assert found[11] == AskedOf(SystemCalls(3, 1), SystemCalls(4, 2))
    assert 9 not in found


def test_a_process_with_the_pid_of_a_busier_one_counts_from_its_beginning() -> None:
    ended = AskedOf(SystemCalls(5, 50), SystemCalls(900, 9000))
    began = AskedOf(SystemCalls(6, 60), SystemCalls(1, 10))
    assert began.since(ended) == began
    assert AskedOf(SystemCalls(6, 60), SystemCalls(901, 9000)).since(ended) == AskedOf(
        SystemCalls(1, 10), SystemCalls(1, 0)
    )


def test_nothing_in_a_query_is_taken_for_markup() -> None:
    shown = text(
        snapshot(row(ProcessInfo(1, 0, 0, "[red]x[/red]", "client backend"), "SELECT ':smile:', '[bold]'")), 200
    )
    assert "':smile:', '[bold]'" in shown
    assert "[red]x[/red]" in shown


def test_what_has_ended_is_added_up_by_name() -> None:
    ended = [row(ProcessInfo(pid, None, None, "cc1", "ended", ended=True)) for pid in (1, 2, 3)]
    shown = text(snapshot(*ended), 120)
    assert shown.count("cc1") == 1
    assert "98304" in shown and "3 that have ended" in shown
    assert len(snapshot(*ended).as_dict()["rows"]) == 3


def test_what_is_not_known_is_not_zero() -> None:
    unknown = snapshot(row(ProcessInfo(1, 0, 0, "dd"), requests=None), source="proc")
    assert "·" in text(unknown, 120)
    content = json.loads(json.dumps(unknown.as_dict(), allow_nan=False))
    assert content["schema_version"] == 1
    assert content["rows"][0]["requests"] is None and content["rows"][0]["bytes_per_request"] is None
    assert content["devices"] == [{
        "device": "vda", "reads": 5, "read_bytes": 40960, "writes": 1, "written_bytes": 8192, "discards": None,
        "discarded_bytes": None,
    }]  # fmt: skip


class Fake:
    """A source whose requests are set by the test."""

    name, lost = "bpf", 0

    def __init__(self, *found: RequestCount) -> None:
        self.found = list(found)
        self.closed = False

    def take(self) -> list[RequestCount]:
        found, self.found = self.found, []
        return found

    def command(self, pid: int) -> str | None:
        return "gone"

    def cpu_seconds(self) -> float:
        return 0.0

    def close(self) -> None:
        self.closed = True


def test_a_look_has_what_came_since_the_last_one() -> None:
    ours = os.getpid()
    disk = 9 << 20 | 9
    source = Fake(
        RequestCount(disk, ours, "read", 2, 8192),
        RequestCount(disk, 1, "read", 1, 512),
        RequestCount(disk, ours, "read", 1, 4096),
    )
    monitor = RequestMonitor(source, None, {"bpf": "why"}, root=ours)
    first, second = monitor.sample(), monitor.sample()
    monitor.close()
    (mine,) = first.rows  # process 1 is not our descendant
    assert (mine.who.pid, mine.requests, mine.bytes, mine.device) == (ours, 3, 12288, "9:9")
    assert (second.rows, dict(second.blind)) == ((), {"bpf": "why"})
    assert second.cost_seconds >= 0


class OneAtATime:
    """An activity that records whether two threads query it at once."""

    postmaster, off = 1, None

    def __init__(self) -> None:
        self._asked = threading.Lock()
        self.at_once = False
        self.in_flight = SimpleNamespace(sample=self._ask, take=dict, off=None)

    def _ask(self) -> None:
        self.at_once |= not self._asked.acquire(blocking=False)
        time.sleep(0.05)
        with suppress(RuntimeError):
            self._asked.release()

    def sample(self) -> dict[int, ProcessActivity]:
        self._ask()
        return {}

    def cpu_seconds(self) -> float:
        return 0.0


def test_the_server_is_asked_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a pooler each query has a transaction, and those of two threads on one connection would be nested."""

    def is_worker(_: RequestMonitor, who: ProcessInfo) -> bool:
        return True

    class Endless(Fake):
        def take(self) -> list[RequestCount]:
            return [RequestCount(9 << 20 | 9, os.getpid(), "read", 1, 8192)]

    monkeypatch.setattr(RequestMonitor, "_is_worker", is_worker)
    monkeypatch.setattr("octavo.iotop.monitor._READING_SECONDS", 0.001)
    activity = OneAtATime()
    monitor = RequestMonitor(Endless(), cast(Activity, activity), {})
    for _ in range(3):
        monitor.sample()
    monitor.close()
    assert not activity.at_once


# --- how it degrades


def refuse(error: OSError) -> object:
    def make(*_: object, **__: object) -> RequestSource:
        raise error

    return make


def no_journal() -> Journal:
    raise PermissionError(1, "Operation not permitted")


def test_the_next_best_source_is_taken_with_a_reason_for_each_better_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "FromBpf", refuse(PermissionError(1, "Operation not permitted")))
    monkeypatch.setattr(opening, "FromTracefs", refuse(OSError(19, "No such device")))
    source, blind = opening.open_source("auto", 1, lambda: None)  # type: ignore[arg-type,return-value]
    assert source.name == "proc"
    assert "needs root" in blind["bpf"]
    assert "no such device" in blind["tracefs"]
    assert "dirtied" in blind["proc"] and "--device is ignored" in blind["proc"]
    assert all("\n" not in reason for reason in blind.values())


def test_a_source_that_was_asked_for_is_that_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "FromBpf", refuse(PermissionError(1, "Operation not permitted")))
    with pytest.raises(HostError, match=r"needs root.*without --source bpf"):
        opening.open_source("bpf", None, no_journal)
    assert opening.open_source("proc", None, no_journal)[0].name == "proc"


@contextmanager
def planted_tracefs(root: Path) -> Generator[Path, None, None]:
    yield root


def test_the_tracing_instance_is_gone_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "instances").mkdir()
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("octavo.instruments.system_calls.tracefs", lambda: planted_tracefs(tmp_path))
    with Journal() as journal:
        with instance(journal) as path:
            assert path == tmp_path / "instances" / f"octavo-{journal.token[:8]}"
            assert '"tracing_instance"' in journal.path.read_text()
        assert not path.exists()


def test_undoing_removes_that_instance_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octavo.instruments.system_calls.tracefs", lambda: planted_tracefs(tmp_path))
    for name in ("octavo-abc", "theirs"):
        (tmp_path / "instances" / name).mkdir(parents=True)
    told = undo_instance({"name": "octavo-abc"})
    assert told is not None and told.what == "put back"
    assert undo_instance({"name": "octavo-abc"}) is None
    for name in ("theirs", "octavo-/../theirs", "../octavo-x"):
        with pytest.raises(ValueError, match="not a tracing instance"):
            undo_instance({"name": name})
    assert [path.name for path in (tmp_path / "instances").iterdir()] == ["theirs"]

"""Recording from probes, without a server."""

import os
import re
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg.errors import LockNotAvailable, QueryCanceled

from octavo import _core
from octavo.errors import HostError
from octavo.host.journal import Journal
from octavo.instruments.target import Rows, Target
from octavo.postgres.user_connection import SessionLimits
from octavo.trace import files
from octavo.trace.record import recorder
from octavo.trace.record.budget import Speed, busy_processors, cost_of
from octavo.trace.record.pauses import Pauses
from octavo.trace.record.probes import executable, program, refuse_other_servers
from octavo.trace.record.recorder import RecordingRequest, RecordingResult
from octavo.trace.record.server import AccessCounters, readahead_bytes, unhurried, write_facts, write_transactions
from octavo.trace.record.work import WorkCounters, active_sessions, describe, work_of
from octavo.trace.simulate import recorded_seconds


def test_lines_of_probes_become_a_trace(tmp_path: Path) -> None:
    writer = _core.TraceWriter(tmp_path / "t", 8192)
    printed = b"Attaching 2 probes...\n9000 7 0 5 1663 5 16384 -1 0\n8000 7 0 4 1663 5 16384 -1 0\nLost 3 events\n"
    assert writer.push_probes(printed[:40], 1000, 0) == (0, ["Attaching 2 probes..."])
    assert writer.push_probes(printed[40:], 1000, 500) == (3, [])
    assert writer.accesses == 1  # the later one waits for others that may be earlier
    assert writer.push_probes(b"error: no such probe\n", 1000, 0) == (0, ["error: no such probe"])
    writer.finish()
    found = files.summarize(tmp_path / "t")
    assert (found["reads"], found["times"]) == (2, (7, 8))


@pytest.mark.parametrize(("cut", "gap"), [(0, 4_500_000), (100, 4_500_000), (24, 4_600_000)])
def test_a_pause_lasts_until_the_probes_are_attached_again(tmp_path: Path, cut: int, gap: int) -> None:
    """Two slices of a second, 4.5 s apart, read in pieces that end anywhere, as within the first line."""
    began, second = 1_000_000_000, 1_000_000_000
    writer = _core.TraceWriter(tmp_path / "t", 8192)
    pauses = Pauses(writer, began)
    for start in (2 * second, 15 * second // 2):
        pauses.begin_slice()
        lines = [f"{start + step * second // 10} 7 0 {step} 1663 5 16384 -1 0" for step in range(11)]
        printed = "\n".join(["Attaching 2 probes...", *lines, ""]).encode()
        for piece in (printed[:cut], printed[cut:], b""):
            pauses.see(piece)
            assert writer.push_probes(piece, began, 0)[0] == 0
    writer.finish()
    found = files.summarize(tmp_path / "t")
    assert (found["reads"], found["times"]) == (22, (1_000_000, 7_500_000))
    assert found["events"]["pause_microseconds"] == (1, gap)
    assert recorded_seconds(found) == pytest.approx((6_500_000 - gap) / 1e6)


def test_a_program_has_the_probes_of_its_version() -> None:
    old, new = (program(version, Path("/p"), 7, 2.0) for version in (150018, 180006))
    assert "buffer__read__done" in old and "buffer__extend" not in old
    assert "buffer__read__start" in new and "buffer__extend__done" in new
    assert "interval:ms:2000 { exit(); }" in old


def _program(tmp_path: Path, name: str, content: bytes) -> Path:
    """A program, which the process 7 runs."""
    program = tmp_path / name
    program.write_bytes(content)
    (tmp_path / "7").mkdir(exist_ok=True)
    (tmp_path / "7" / "exe").symlink_to(program)
    return program


def test_a_program_without_probes_is_refused(tmp_path: Path) -> None:
    postgres = _program(tmp_path, "postgres", b"\x7fELF")
    with pytest.raises(HostError, match="no probes: it was built without --enable-dtrace"), executable(7, tmp_path):
        pass
    postgres.write_bytes(b"\x7fELF buffer__read__done")
    with executable(7, tmp_path) as path:
        assert path.samefile(postgres)
    postgres.unlink()
    with pytest.raises(HostError, match="cannot be read"), executable(7, tmp_path):
        pass


def test_without_the_kernels_types_two_servers_of_a_program_are_not_told_apart(tmp_path: Path) -> None:
    (tmp_path / "postgres").touch()
    (tmp_path / "other").touch()
    proc, types = tmp_path / "proc", tmp_path / "vmlinux"

    def started(pid: int, parent: int, program: str) -> None:
        (proc / str(pid)).mkdir(parents=True)
        (proc / str(pid) / "exe").symlink_to(tmp_path / program)
        (proc / str(pid) / "stat").write_text(f"{pid} (postgres) S {parent} {' '.join(60 * ['0'])}\n")

    for pid, parent, name in ((7, 1, "postgres"), (8, 7, "postgres"), (90, 1, "other"), (91, 90, "other")):
        started(pid, parent, name)
    refuse_other_servers(7, proc, types)
    started(95, 94, "postgres")
    with pytest.raises(HostError, match="process 95 is of another server"):
        refuse_other_servers(7, proc, types)
    types.touch()
    refuse_other_servers(7, proc, types)


def test_a_path_does_not_become_a_program(tmp_path: Path) -> None:
    planted = _program(tmp_path, "p:x { exit(); }", b"buffer__read__done")
    with executable(7, tmp_path) as path:
        assert re.fullmatch(r"[/a-z0-9]+", str(path)) and path.samefile(planted)


def test_a_trace_has_the_readahead_and_the_kernel_page_of_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "read_ahead_kb"
    file.write_text("8192\n")

    def here(_: Path) -> Path:
        return file

    monkeypatch.setattr("octavo.trace.record.server.readahead_file", here)
    page = str(os.sysconf("SC_PAGE_SIZE"))
    for directory, postmaster, told in ((tmp_path, 7, ("8388608", page)), (None, None, (None, None))):
        writer = _core.TraceWriter(tmp_path / f"{postmaster}.octrace", 8192)
        target = Target(lambda _: [], 180006, directory, postmaster, None)
        write_facts(writer, target, names=False, source="a test")
        writer.finish()
        found = files.summarize(tmp_path / f"{postmaster}.octrace")["properties"]
        assert (found.get("readahead_bytes"), found.get("kernel_page_bytes")) == told
        assert found["server_version_num"] == "180006"
    file.write_text("none")
    assert readahead_bytes(tmp_path) is None


def test_a_relation_that_is_dropped_meanwhile_is_left_out(tmp_path: Path) -> None:
    there = {
        "tablespace": 1663, "database": 5, "relation": 16384, "kind": "r", "blocks": 7, "tuples": 9, "tuple_bytes": 121,
        "fillfactor": 0, "name": "t",
    }  # fmt: skip
    # pg_relation_filenode and pg_relation_size of the relations in the catalog when the query began.
    rows = [{**there, "blocks": None}, {**there, "relation": None}, there]
    writer = _core.TraceWriter(tmp_path / "t.octrace", 8192)
    target = Target(lambda name: rows if name == "traced_relations" else [], 180006, None, None, None)
    write_facts(writer, target, names=True, source="a test")
    writer.finish()
    (found,) = files.summarize(tmp_path / "t.octrace")["relations"]
    assert (found["relation"], found["blocks"], found["name"]) == (16384, 7, "t")


def _connected(
    monkeypatch: pytest.MonkeyPatch, version: int, rows: dict[str, dict[str, Any]] | None = None, pid: int | None = None
) -> list[bool]:
    """Connections lead to a server of this version with these rows. Returns what is told when they are closed."""
    closed: list[bool] = []

    def query(name: str) -> Rows:
        return [rows[name]] if rows and name in rows else []

    def connect(_dsn: str | None, _name: str, oldest: int) -> SimpleNamespace:
        if version < oldest:
            raise HostError(f"the server is older than PostgreSQL {oldest // 10000}, the oldest supported version")
        return SimpleNamespace(close=lambda: closed.append(True))

    def target_of(_: object) -> tuple[Target, dict[str, str]]:
        return Target(query, version, None, pid, None), {"data_block": "8192"}

    def as_before(_: object, asked: Callable[[str], Rows]) -> Callable[[str], Rows]:
        return asked

    monkeypatch.setattr(recorder, "connect", connect)
    monkeypatch.setattr(recorder, "target_of", target_of)
    monkeypatch.setattr(recorder, "unhurried", as_before)
    return closed


@pytest.mark.parametrize(("version", "counters", "oldest"), [(130022, True, 14), (140018, False, 15)])
def test_a_server_that_is_too_old_is_refused(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch, version: int, counters: bool, oldest: int
) -> None:
    """Counters alone are those of 14 and later, which counts its WAL; probes those of 15 and later."""
    _connected(monkeypatch, version)
    request = RecordingRequest(None, 1.0, tmp_path / "t.octrace", counters=counters)
    with pytest.raises(HostError, match=f"older than PostgreSQL {oldest},"):
        recorder.record(request, journal, print)
    assert not request.out.exists()


def test_the_counters_of_version_14_are_recorded(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted(*_: object) -> RecordingResult:
        return RecordingResult()

    closed = _connected(monkeypatch, 140018)
    monkeypatch.setattr(recorder, "_record_counters", counted)
    request = RecordingRequest(None, 1.0, tmp_path / "t.octrace", counters=True)
    assert recorder.record(request, journal, print).accesses == 0
    assert closed


def test_a_full_disk_is_that_of_the_trace(tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not that of Octavo's home, or of the server."""
    closed = _connected(monkeypatch, 180006)

    def full(*_: object) -> _core.TraceWriter:
        return _core.TraceWriter(Path("/dev/full"), 8192)

    monkeypatch.setattr(recorder, "_new_trace", full)
    request = RecordingRequest(None, 1.0, tmp_path / "t.octrace", counters=True)
    with pytest.raises(HostError, match=r"t\.octrace cannot be written: No space left.*; name a file where there"):
        recorder.record(request, journal, print)
    assert closed


def test_a_disk_that_is_full_from_the_beginning_is_that_of_a_trace_of_probes(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    activity = {"lookups": 9, "hits": 9, "reads": 0, "transactions": 1}
    rows = {
        "traced_activity": activity, "recorded_work": {"transactions": 1.0}, "wal_counters": {"syncs": 1.0},
        "recorded_temporary": {"temporary_lookups": 0.0},
    }  # fmt: skip
    closed = _connected(monkeypatch, 180006, rows, os.getpid())

    def full(*_: object) -> _core.TraceWriter:
        return _core.TraceWriter(Path("/dev/full"), 8192)

    def untraced(_: object) -> bool:
        return False

    monkeypatch.setattr(recorder, "_new_trace", full)
    monkeypatch.setattr(recorder, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(recorder, "is_traced", untraced)
    monkeypatch.setattr(recorder, "require_bpftrace", lambda: None)
    monkeypatch.setattr(recorder, "refuse_other_servers", untraced)
    monkeypatch.setattr(recorder, "executable", nullcontext)
    with pytest.raises(HostError, match=r"t\.octrace cannot be written: No space left"):
        recorder.record(RecordingRequest(None, 1.0, tmp_path / "t.octrace"), journal, print)
    assert closed


@pytest.mark.parametrize(("late", "is_answered"), [(2, True), (3, False)])
def test_a_query_that_takes_too_long_is_sent_again(late: int, is_answered: bool) -> None:
    asked: list[str] = []

    def query(name: str) -> Rows:
        asked.append(name)
        if len(asked) <= late:
            raise QueryCanceled("canceling statement due to statement timeout")
        return [{"position": 1}]

    if is_answered:
        assert recorder.patient(query)("traced_wal") == [{"position": 1}]
    else:
        with pytest.raises(QueryCanceled):
            recorder.patient(query)("traced_wal")
    assert asked == 3 * ["traced_wal"]


def test_the_sizes_of_relations_have_time_and_a_lock_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second is too short for a hundred thousand relations, and ALTER TABLE may hold one of them."""
    given: list[SessionLimits] = []

    def limited(_: object, limits: SessionLimits) -> AbstractContextManager[None]:
        given.append(limits)
        return nullcontext()

    def execute(_: bytes) -> None:
        raise LockNotAvailable("canceling statement due to lock timeout")

    monkeypatch.setattr("octavo.trace.record.server.limited", limited)
    connection: Any = SimpleNamespace(info=SimpleNamespace(server_version=180006), execute=execute)
    ask = unhurried(connection, lambda name: [{"name": name}])
    assert ask("settings") == [{"name": "settings"}] and not given
    with pytest.raises(HostError, match="due to lock timeout; record again when no relation is locked"):
        ask("traced_relations")
    assert [(one.statement_timeout, one.lock_timeout) for one in given] == [("30s", "5s")]


def test_the_part_of_the_time_follows_the_limit() -> None:
    quiet, busy = (
        cost_of(AccessCounters(0, 0, 0, 0, 0), AccessCounters(1, count, 0, 0, 0), 2, 0.05) for count in (1000, 100_000)
    )
    assert quiet.duty == 1
    assert busy.duty == pytest.approx(0.05 / busy.share)
    assert cost_of(AccessCounters(0, 0, 0, 0, 0), AccessCounters(1, 10**6, 0, 0, 0), 2, None).duty == 1


def test_a_few_busy_sessions_are_slowed_down_on_a_large_host_too() -> None:
    before, after = (WorkCounters(at, {"session_seconds": seconds}, {}, 0.0, 0.0) for at, seconds in ((5, 10), (7, 14)))
    assert active_sessions(before, after) == 2.0 and active_sessions(after, before) == 0.0
    counted = AccessCounters(0, 0, 0, 0, 0), AccessCounters(1, 200_000, 0, 0, 0)
    alone, many = (cost_of(*counted, busy_processors(64, sessions), 0.05) for sessions in (2.0, 100.0))
    assert alone.duty < 0.05 and many.duty == 1


def test_overhead_is_known_of_slices_only() -> None:
    assert RecordingResult().overhead is None
    assert RecordingResult(transactions_with=96.0, transactions_without=100.0).overhead == pytest.approx(0.04)


def test_counters_that_are_reset_meanwhile_are_no_transactions(tmp_path: Path) -> None:
    """As by pg_stat_reset(), or DROP DATABASE, whose counters are gone from the sum of all databases."""
    before, after, reset = (AccessCounters(at, 0, 0, 0, count) for at, count in ((0.0, 500), (2.0, 700), (3.0, 20)))
    writer, speed = _core.TraceWriter(tmp_path / "t", 8192), Speed()
    for first, last in ((before, after), (after, reset)):
        write_transactions(writer, first, last, round(last.at * 1e6))
        speed.add(first, last)
    writer.finish()
    assert files.summarize(tmp_path / "t")["events"]["transactions"] == (1, 200)
    assert (speed.rate, speed.seconds) == (100.0, 3.0)


@pytest.mark.parametrize(("version", "expected"), [(180006, "30"), (160009, "30"), (150018, None)])
def test_lookups_in_temporary_tables_are_recorded_where_they_are_counted(
    tmp_path: Path, version: int, expected: str | None
) -> None:
    def at(count: float) -> WorkCounters:
        rows = {"recorded_work": {"lookups": 2 * count}, "recorded_temporary": {"temporary_lookups": count}}
        return work_of(lambda name: [rows.get(name, {})], version)

    writer = _core.TraceWriter(tmp_path / "t", 8192)
    describe(writer, at(10.0), at(40.0))
    writer.finish()
    found = files.summarize(tmp_path / "t")["properties"]
    assert (found["work_lookups"], found.get("work_temporary_lookups")) == ("60", expected)


def test_a_bpftrace_that_has_closed_its_output_and_does_not_end_is_left_to_be_killed(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"Attaching 2 probes...\n9000 7 0 5 1663 5 16384 -1 0\n")
    os.close(writing)

    def wait(seconds: float) -> None:
        raise subprocess.TimeoutExpired("bpftrace", seconds)

    writer = _core.TraceWriter(tmp_path / "t", 8192)
    with os.fdopen(reading) as output:
        child: Any = SimpleNamespace(stdout=output, wait=wait)
        read: Callable[..., list[str]] = recorder._read  # pyright: ignore[reportPrivateUsage]
        assert read(child, 1.0, writer, 1000, RecordingResult(), Pauses(writer, 1000)) == []
    assert writer.accesses == 1
    writer.finish()

"""`octavo trace record`: runs bpftrace for a while, in slices if continuous recording would cost too much."""

import os
import select
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from psycopg.errors import QueryCanceled

from octavo import _core
from octavo.errors import HostError, UsageError
from octavo.host import children
from octavo.host.journal import Journal
from octavo.instruments.target import Rows
from octavo.postgres.user_connection import OLDEST, UsersConnection
from octavo.report.text_file import refuse_planted
from octavo.trace.files import COUNTERS, NEW_FILE, opened_as, writing
from octavo.trace.record import counters, traced
from octavo.trace.record.budget import (
    FIRST_SLOWDOWN,
    SLICE_SECONDS,
    Cost,
    Speed,
    busy_processors,
    cost_of,
    idle_seconds,
    slice_seconds,
    slowdown,
)
from octavo.trace.record.pauses import Pauses
from octavo.trace.record.probes import (
    BUFFER_PAGES,
    executable,
    is_traced,
    program,
    refuse_other_servers,
    require_bpftrace,
)  # fmt: skip
from octavo.trace.record.server import counted, microseconds_since, unhurried, write_facts, write_transactions
from octavo.trace.record.wal import WalMeter
from octavo.trace.record.work import active_sessions, describe, describe_cpu, work_of
from octavo.units import parse_size
from octavo.watch.connect import connect, target_of

# The first version that counts its WAL (pg_stat_wal), for a recording of counters alone.
_COUNTERS_SINCE = 140000
# Seconds of observation before the recording, to determine the server's load.
_LOOK_SECONDS = 1.0
# Processors deliver their events in turns: an event this old can no longer be overtaken.
_KEEP_NANOSECONDS = 500_000_000
_ATTACH_SECONDS = 30.0
_FLUSH_SECONDS = 1.0
_READ = 1 << 20
# How often a query is sent that the server has not answered in time.
_TRIES = 3


@dataclass(frozen=True, slots=True)
class RecordingRequest:
    """The parameters of a recording. `most_overhead` is the fraction of the server's speed that may be lost, None for
    no limit. `counters`: record only the server's counters, without page accesses."""

    dsn: str | None
    seconds: float
    out: Path
    most_overhead: float | None = 0.05
    names: bool = False
    counters: bool = False


@dataclass
class RecordingResult:
    """The result of a recording."""

    accesses: int = 0
    lost: int = 0
    slices: int = 0
    recorded_seconds: float = 0.0
    notes: list[str] = field(default_factory=list[str])
    transactions_with: float | None = None
    transactions_without: float | None = None

    @property
    def overhead(self) -> float | None:
        """How much slower transactions were with the probes, averaged over the whole time; None without slices."""
        if not self.transactions_with or not self.transactions_without:
            return None
        return 1 - self.transactions_with / self.transactions_without


def record(request: RecordingRequest, journal: Journal, say: Callable[[str], object]) -> RecordingResult:
    """Makes the recording. However it ends, the file is complete up to its last second, and the probes end with
    bpftrace.

    Raises UsageError for an invalid DSN or an existing file, HostError when this host or server has no probes, or the
    file's disk is full.
    """
    connection = connect(request.dsn, "octavo trace", _COUNTERS_SINCE if request.counters else OLDEST)
    try:
        target, server = target_of(connection)
        target = replace(target, query=patient(unhurried(connection, target.query)))
        if request.counters:
            return _record_counters(request, connection, target, int(server["data_block"]), say)
        if target.postmaster is None:
            raise HostError(f"{target.no_processes}; record where the server runs, or its counters alone (--counters)")
        if is_traced(target.postmaster):
            return _record_traced(request, connection, target, int(server["data_block"]), say)
        require_bpftrace()
        refuse_other_servers(target.postmaster)
        with executable(target.postmaster) as path:
            return _record_probes(request, connection, target, path, int(server["data_block"]), journal, say)
    finally:
        connection.close()


def patient(query: Callable[[str], Rows]) -> Callable[[str], Rows]:
    """Sends a query again after a timeout: a server that is busy for a moment must not end a long recording."""

    def rows(name: str) -> Rows:
        for _ in range(_TRIES - 1):
            with suppress(QueryCanceled):
                return query(name)
        return query(name)

    return rows


def _record_probes(
    request: RecordingRequest,
    connection: UsersConnection,
    target: Any,
    path: Path,
    data_block: int,
    journal: Journal,
    say: Callable[[str], object],
) -> RecordingResult:
    """Records from the probes of the program at this path, for as large a part of the time as allowed."""
    before, work = counted(target.query), work_of(target.query, target.version)
    time.sleep(_LOOK_SECONDS)
    without_probes = work_of(target.query, target.version)
    busy = busy_processors(len(os.sched_getaffinity(0)), active_sessions(work, without_probes))
    cost = cost_of(before, counted(target.query), busy, request.most_overhead)
    say(_forecast(cost, request))
    writer = _new_trace(request.out, data_block)
    began = time.monotonic_ns()
    with writing(request.out):
        write_facts(writer, target, names=request.names, source="bpftrace, USDT probes")
        if cost.duty < 1:
            writer.describe("duty", f"{cost.duty:.4f}")
        describe_cpu(writer, work, without_probes, target.postmaster)  # later it would include the probes'
        writer.flush()
    found = RecordingResult()
    try:
        wal = WalMeter(target.query, writer, microseconds_since(began))
        _slices(request, cost, target, path, writer, began, journal, found, wal)
        describe(writer, without_probes, work_of(target.query, target.version))
        _note(wal.finish(connection, microseconds_since(began)), say)
    finally:
        found.accesses = writer.accesses
        with writing(request.out):
            writer.finish()
    return found


def _note(text: str | None, say: Callable[[str], object]) -> None:
    if text is not None:
        say(text)


def _record_traced(
    request: RecordingRequest, connection: UsersConnection, target: Any, data_block: int, say: Callable[[str], object]
) -> RecordingResult:
    """Records from a tracing build, all of the time, because that costs only 0.1 µs per access."""
    say("a tracing build: all of the time is recorded, by the server itself")
    found = RecordingResult(recorded_seconds=request.seconds, slices=1)
    # Within `recording`, to which a full disk would be that of the server's data directory.
    with traced.recording(target.postmaster) as recording, writing(request.out):
        writer = _new_trace(request.out, data_block)
        began = time.monotonic_ns()
        try:
            write_facts(writer, target, names=request.names, source="octavo build --traced")
            writer.guess_scans_up_to(_buffers(target) // 4)
            writer.flush()
            before, work = counted(target.query), work_of(target.query, target.version)
            wal = WalMeter(target.query, writer, microseconds_since(began))
            found.lost = traced.record(
                recording, writer, request.seconds, began, lambda: wal.take(microseconds_since(began))
            )
            after, work_after = counted(target.query), work_of(target.query, target.version)
            describe(writer, work, work_after)
            describe_cpu(writer, work, work_after, target.postmaster)
            write_transactions(writer, before, after, microseconds_since(began))
            _note(wal.finish(connection, microseconds_since(began)), say)
        finally:
            found.accesses = writer.accesses
            writer.finish()
    return found


def _record_counters(
    request: RecordingRequest, connection: UsersConnection, target: Any, data_block: int, say: Callable[[str], object]
) -> RecordingResult:
    """Records the server's counters, from any host that can connect."""
    say(counters.UNKNOWN)
    writer = _new_trace(request.out, data_block)
    with writing(request.out):
        try:
            write_facts(writer, target, names=request.names, source=COUNTERS)
            writer.flush()
            for note in counters.record(connection, target, writer, request.seconds, time.monotonic_ns()):
                say(note)
        finally:
            writer.finish()
    return RecordingResult(recorded_seconds=request.seconds, slices=1)


def _buffers(target: Any) -> int:
    """The server's number of buffers: a scan of more than a quarter of them uses a ring."""
    settings = {row["name"]: str(row["value"]) for row in target.query("settings")}
    return parse_size(settings["shared_buffers"]) // parse_size(f"{settings['block_size']}B")


def _new_trace(path: Path, page_size: int) -> _core.TraceWriter:
    """Creates the file and writes through its descriptor, so that renames in its directory cannot redirect the
    writes."""
    refuse_planted(path.absolute().parent)
    try:
        descriptor = os.open(path, NEW_FILE, 0o644)
    except FileExistsError:
        raise UsageError(f"{path} already exists; name a new file") from None
    except OSError as error:
        raise HostError(f"{path} cannot be written: {error.strerror}; name a file that you may write") from error
    try:
        return _core.TraceWriter(opened_as(descriptor), page_size)
    finally:
        os.close(descriptor)


def _forecast(cost: Cost, request: RecordingRequest) -> str:
    share = f"{100 * cost.share:.2g} % of the processors in use"
    text = f"{cost.lookups:,.0f} page accesses a second: probes take about {share}"
    if cost.duty >= 1:
        return f"{text}; all of the time is recorded"
    assert request.most_overhead is not None
    return (
        f"{text}; to stay below {100 * request.most_overhead:.3g} % only {100 * cost.duty:.2g} % of the time is "
        f"recorded, in slices of at most {SLICE_SECONDS:g} s"
    )


def _slices(
    request: RecordingRequest,
    cost: Cost,
    target: Any,
    path: Path,
    writer: _core.TraceWriter,
    began: int,
    journal: Journal,
    found: RecordingResult,
    wal: WalMeter,
) -> None:
    """Records alternately with and without probes until the time is over.

    The cost of previous slices determines when the next one starts, so the average over the whole time stays below the
    limit.
    """
    start, most = time.monotonic(), request.most_overhead
    end = start + request.seconds
    with_probes, without, pauses = Speed(), Speed(), Pauses(writer, began)
    slower = max(cost.slower, FIRST_SLOWDOWN)
    while (left := end - time.monotonic()) > 0:
        seconds = left
        if cost.duty < 1 and most is not None:
            seconds = min(left, slice_seconds(request.seconds, slower, most))
            if slower * (with_probes.seconds + seconds) > most * request.seconds and found.slices:
                seconds = 0  # lost events cannot be recovered
        before = counted(target.query)
        if seconds:
            _slice(seconds, target, path, writer, began, journal, found, pauses, request.out)
            after = counted(target.query)
            with_probes.add(before, after)
            found.slices += 1
            found.recorded_seconds += seconds
            write_transactions(writer, before, after, microseconds_since(began))
            wal.take(microseconds_since(began))
            before = after
        if cost.duty >= 1 or most is None or (left := end - time.monotonic()) <= 0:
            break
        idle = left
        if seconds:
            idle = min(left, max(_LOOK_SECONDS, idle_seconds(with_probes.seconds, end - left - start, slower, most)))
        time.sleep(idle)
        without.add(before, counted(target.query))
        slower = max(cost.slower, slowdown(with_probes.rate, without.rate))
    if without.seconds:
        slower = slowdown(with_probes.rate, without.rate)
        share = with_probes.seconds / (with_probes.seconds + without.seconds)
        found.transactions_without = without.rate
        found.transactions_with = without.rate * (1 - slower * share)


def _slice(
    seconds: float,
    target: Any,
    path: Path,
    writer: _core.TraceWriter,
    began: int,
    journal: Journal,
    found: RecordingResult,
    pauses: Pauses,
    out: Path,
) -> None:
    """Runs bpftrace once. Raises HostError when it cannot attach, or the disk is full."""
    text = program(target.version, path, target.postmaster, seconds)
    child, number = children.start(
        ["bpftrace", "-B", "full", "-e", text],
        journal,
        role="bpftrace",
        stderr=subprocess.STDOUT,
        environment={"BPFTRACE_PERF_RB_PAGES": str(BUFFER_PAGES)},
    )
    try:
        with writing(out):
            notes = _read(child, seconds, writer, began, found, pauses)
    finally:
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(_ATTACH_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        assert child.stdout is not None
        child.stdout.close()
        children.ended(journal, number)
    if child.returncode != 0:
        problem = [line for line in notes if "ERROR" in line and "RLIMIT" not in line] or notes
        raise HostError(
            f"bpftrace failed: {problem[-1] if problem else f'exit {child.returncode}'}; check that its probes work"
        )


def _read(
    child: "subprocess.Popen[str]",
    seconds: float,
    writer: _core.TraceWriter,
    began: int,
    found: RecordingResult,
    pauses: Pauses,
) -> list[str]:
    """Reads bpftrace's output until it ends. Returns the lines that are not accesses."""
    assert child.stdout is not None
    descriptor = child.stdout.fileno()
    deadline = time.monotonic() + seconds + _ATTACH_SECONDS
    notes, flushed = list[str](), time.monotonic()
    printed: list[bytes] = []
    pauses.begin_slice()
    while True:
        ready, _, _ = select.select([descriptor], [], [], _FLUSH_SECONDS)
        piece = os.read(descriptor, _READ) if ready else None
        if piece:
            printed.append(piece)
        is_over = piece == b"" or time.monotonic() > deadline
        if is_over or time.monotonic() - flushed >= _FLUSH_SECONDS:
            text = b"".join(printed)
            printed.clear()
            pauses.see(text)
            lost, more = writer.push_probes(text, began, 0 if is_over else _KEEP_NANOSECONDS)
            notes += more
            if lost:
                found.lost += lost
                writer.event(microseconds_since(began), "lost", lost)
            writer.flush()
            flushed = time.monotonic()
        if is_over:
            if piece == b"":
                with suppress(subprocess.TimeoutExpired):  # it is killed then
                    child.wait(_ATTACH_SECONDS)
            else:
                child.terminate()
            return [line for line in notes if not line.startswith("Attaching ")]

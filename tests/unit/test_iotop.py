"""`octavo iotop`: what traces say, who asked, what is shown of text that others chose, and how it degrades."""

import io
import json
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from octavo.errors import HostError, UsageError
from octavo.host.journal import Journal
from octavo.instruments.bpf import Jump, Label, assemble, instruction
from octavo.instruments.target import Target
from octavo.iotop import open as opening
from octavo.iotop.activity import Doing, doing_of
from octavo.iotop.clean import one_line
from octavo.iotop.counted import Counted, Direction, Source, direction_of, kernel_number
from octavo.iotop.devices import device_name, find_disk
from octavo.iotop.diskstats import DiskTotals, parse_diskstats
from octavo.iotop.from_proc import FromProc
from octavo.iotop.in_flight import InFlight
from octavo.iotop.instance import instance, undo_instance
from octavo.iotop.looking import Looking
from octavo.iotop.snapshot import Key, Reader, Row, Snapshot, Sum, rows_of, settled
from octavo.iotop.trace_lines import Attribution, Event, TraceLine, lost_events, parse_line
from octavo.iotop.view import view
from octavo.iotop.who import WRITE_BACK, Processes, Who

# --- traces

# What a process may call itself: 15 bytes, anything but a zero.
commands = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=15)
sizes = st.integers(1, 2**32 - 1)


def trace_line(event: str, thread: int, rest: str, command: str) -> str:
    return f"{command:>16}-{thread:<7} [003] d..1.  4711.000815: {event}: {rest} [{command}]"


@given(commands, st.integers(1, 2**22), sizes, st.integers(0, 2**48), st.sampled_from(["none,0,0 ", "rt,4,1 ", ""]))
def test_a_line_is_read_whatever_the_process_calls_itself(
    command: str, thread: int, size: int, sector: int, priority: str
) -> None:
    rest = f"254,3 WFS {size} () {sector} + {size // 512} {priority}".rstrip()
    found = parse_line(trace_line("block_rq_issue", thread, rest, command))
    if "\n" in command:  # no line any more, and never a wrong one
        assert found is None or (found.thread, found.size) == (thread, size)
    else:
        assert found == TraceLine("block_rq_issue", thread, 254 << 20 | 3, "WFS", size, sector, command)


@given(commands.filter(lambda command: "\n" not in command), st.integers(0, 2**48))
def test_a_requeued_request_has_no_size(command: str, sector: int) -> None:
    found = parse_line(trace_line("block_rq_requeue", 5, f"7,0 R () {sector} + 8 none,0,0", command))
    assert found is not None
    assert (found.event, found.kind, found.size, found.sector) == ("block_rq_requeue", "R", 0, sector)


@given(st.text())
def test_any_other_line_is_none(text: str) -> None:
    assert parse_line(text) is None
    assert lost_events(text) == 0


def test_a_column_of_processes_does_not_hinder() -> None:
    line = "           <...>-77      (     70) [001] d..1.    12.000345: block_io_start: 8,0 RA 4096 () 64 + 8 [dd]"
    found = parse_line(line)
    assert found is not None
    assert (found.event, found.thread, found.command) == ("block_io_start", 77, "dd")


def event(name: Event, thread: int, sector: int, size: int = 4096, command: str = "x", kind: str = "R") -> TraceLine:
    return TraceLine(name, thread, 8 << 20, kind, size, sector, command)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5), sizes, st.integers(0, 2)), max_size=50))
def test_every_request_counts_once_for_who_started_it(requests: list[tuple[int, int, int, int]]) -> None:
    """Each is started by one process, issued by a kernel's worker, and put back and issued again some times."""
    attribution = Attribution(lambda thread: thread)
    for sector, pid, size, requeues in requests:
        assert attribution.add(event("block_io_start", pid, sector, size)) is None
        assert attribution.add(event("block_rq_issue", 99, sector, size)) == Counted(8 << 20, pid, "read", 1, size)
        for _ in range(requeues):
            assert attribution.add(event("block_rq_requeue", 99, sector, 0)) is None
            assert attribution.add(event("block_rq_issue", 99, sector, size)) is None


def test_what_nobody_started_is_who_issues_it() -> None:
    attribution = Attribution({70: 7}.__getitem__)
    assert attribution.add(event("block_rq_issue", 70, 1, command="dd")) == Counted(8 << 20, 7, "read", 1, 4096)
    assert attribution.names == {7: "dd"}
    assert attribution.add(event("block_rq_issue", 70, 1, size=0, kind="FF")) is None


def test_a_worker_of_io_uring_asks_in_a_processes_name() -> None:
    attribution = Attribution({71: 7, 70: 7, 99: 99}.__getitem__)
    attribution.add(event("block_io_start", 71, 1, command="iou-wrk-70"))
    assert attribution.add(event("block_rq_issue", 99, 1)) == Counted(8 << 20, 7, "read", 1, 4096, ring=True)
    attribution = Attribution({71: 71, 70: 7}.__getitem__)  # the worker has ended, its process has not
    assert attribution.add(event("block_rq_issue", 71, 1, command="iou-wrk-70")) == Counted(
        8 << 20, 7, "read", 1, 4096, ring=True
    )


def test_what_was_never_issued_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octavo.iotop.trace_lines._MOST_UNDER_WAY", 3)
    attribution = Attribution(lambda thread: thread)
    for sector in range(4):
        attribution.add(event("block_io_start", 1, sector))
    assert attribution.add(event("block_rq_issue", 99, 0)) == Counted(8 << 20, 99, "read", 1, 4096)
    assert attribution.add(event("block_rq_issue", 99, 1)) == Counted(8 << 20, 1, "read", 1, 4096)


@given(st.text("RWDFNSAME", max_size=4))
def test_a_flush_in_front_does_not_hide_the_direction(kind: str) -> None:
    found = direction_of(kind)
    assert found == {"R": "read", "W": "write", "D": "discard"}.get(kind.lstrip("FNSAME")[:1])


def test_jumps_lead_to_their_labels() -> None:
    code = assemble([Label("top"), instruction(1), Jump(0x05, 0, 0, "end"), Jump(0x55, 3, 7, "top"), Label("end")])
    steps = [int.from_bytes(code[at + 2 : at + 4], "little", signed=True) for at in range(0, len(code), 8)]
    assert steps == [0, 1, -3]
    assert int.from_bytes(code[20:24], "little") == 7
    assert code[17] == 3


# --- the kernel's tables

counts = st.integers(0, 2**63)


@given(st.lists(counts, min_size=11, max_size=17))
def test_diskstats_of_every_age(numbers: list[int]) -> None:
    (name, found), *more = parse_diskstats("254 0 vda " + " ".join(map(str, numbers)) + "\n1 0 short 1\n").items()
    assert name == "vda" and not more
    assert (found.reads, found.read_bytes, found.writes) == (numbers[0], numbers[2] * 512, numbers[4])
    assert found.written_bytes == numbers[6] * 512
    assert found.discards == (numbers[11] if len(numbers) > 13 else None)
    assert found.since(found) == DiskTotals(0, 0, 0, 0, *([None] * 2 if found.discards is None else [0, 0]))


def test_a_disk_that_was_made_anew_counts_from_zero() -> None:
    assert DiskTotals(1, 512, 0, 0).since(DiskTotals(9, 9216, 0, 0)) == DiskTotals(1, 512, 0, 0)


def plant(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def plant_disks(sys: Path) -> None:
    """A disk with a partition, and a volume stacked on it."""
    plant(sys, {
        "devices/vda/dev": "254:0\n", "devices/vda/size": "2048\n", "devices/vda/vda1/partition": "1\n",
        "devices/vda/vda1/dev": "254:1\n", "devices/dm-0/dev": "253:0\n", "devices/dm-0/slaves/vda": "",
    })  # fmt: skip
    for link, place in {
        "class/block/vda": "vda", "class/block/vda1": "vda/vda1", "class/block/dm-0": "dm-0",
        "dev/block/254:0": "vda", "dev/block/254:1": "vda/vda1", "block/vda": "vda",
    }.items():  # fmt: skip
        (sys / link).parent.mkdir(parents=True, exist_ok=True)
        (sys / link).symlink_to(sys / "devices" / place)


def test_a_disk_is_found_by_its_name_its_partition_and_its_number(tmp_path: Path) -> None:
    plant_disks(tmp_path)
    assert find_disk("vda", tmp_path) == find_disk("vda1", tmp_path) == ("vda", kernel_number(254, 0))
    assert device_name(kernel_number(254, 1), tmp_path) == "vda1"
    assert device_name(kernel_number(9, 9), tmp_path) == "9:9"


@pytest.mark.parametrize(
    ("asked", "words"), [("sdz", "there is vda"), ("", "there is vda"), ("../etc", "there is vda"), ("dm-0", "on vda")]
)
def test_a_disk_that_is_not_there_or_passes_its_requests_on(tmp_path: Path, asked: str, words: str) -> None:
    plant_disks(tmp_path)
    with pytest.raises(UsageError, match=words) as caught:
        find_disk(asked, tmp_path)
    assert "\n" not in str(caught.value)


# --- who

KERNEL_THREAD = 0x00200000


def plant_process(proc: Path, pid: int, name: str, parent: int, title: str, flags: int = 0, start: int = 100) -> None:
    numbers = ["S", parent, 0, 0, 0, 0, flags, *[0] * 12, start, *[0] * 20]
    plant(proc, {
        f"{pid}/stat": f"{pid} ({name}) {' '.join(map(str, numbers))}\n", f"{pid}/cmdline": title.replace(" ", "\0"),
        f"{pid}/io": f"read_bytes: {pid * 10}\nwrite_bytes: 3\ncancelled_write_bytes: 1\n",
    })  # fmt: skip


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    root = tmp_path / "proc"
    plant_process(root, 10, "postgres", 1, "/usr/lib/postgresql/18/bin/postgres -D /data")
    plant_process(root, 11, "postgres", 10, "postgres: 18/main: checkpointer ")
    plant_process(root, 12, "postgres", 10, "postgres: 18/main: io worker 1")
    plant_process(root, 13, "postgres", 10, "postgres: 18/main: app shop\x1b[2J [local] idle")
    plant_process(root, 20, "kworker/u8:1", 2, "", KERNEL_THREAD)
    plant_process(root, 21, "jbd2/vda-8", 2, "", KERNEL_THREAD)
    plant_process(root, 30, "evil\x1b[2J\nname", 1, "evil")
    return root


def test_postgresqls_processes_by_role_the_kernels_by_what_they_do(proc: Path) -> None:
    known = Processes(lambda pid: None, proc)
    roles = {pid: known.meet(pid).role for pid in (10, 11, 12, 13, 20, 21, 30)}
    assert roles == {
        10: "postmaster", 11: "checkpointer", 12: "io worker", 13: "client backend", 20: "kernel worker",
        21: "filesystem's journal", 30: None,
    }  # fmt: skip
    assert known.meet(20) == Who(None, None, 0, "kworker", "kernel worker", kernel=True)
    assert known.meet(11).parent == 10
    assert known.meet(11).uid == os.geteuid()
    assert known.meet(30).command.isprintable()


def test_who_has_ended_is_known_if_it_was_met_and_else_by_the_name_that_the_kernel_kept(proc: Path) -> None:
    known = Processes({40: "cp\x1b"}.get, proc)
    checkpointer = known.meet(11)
    (proc / "11/stat").unlink()
    assert known.meet(11) == checkpointer
    assert known.meet(40) == Who(40, None, None, "cp", "ended", ended=True)
    assert known.meet(41).command == "?"
    known.forget([12])
    assert known.meet(11).ended


def test_a_pid_that_passed_to_another_process_is_asked_again(proc: Path) -> None:
    known = Processes(lambda pid: None, proc)
    assert known.meet(12).role == "io worker"
    plant_process(proc, 12, "dd", 1, "dd if=/x", start=200)
    assert known.meet(12) == Who(12, 1, os.geteuid(), "dd")


def test_bytes_by_process_are_what_was_added_since(proc: Path) -> None:
    source = FromProc(proc)
    assert source.take() == []
    plant(proc, {"30/io": "read_bytes: 1300\nwrite_bytes: 4099\ncancelled_write_bytes: 1\n"})
    assert source.take() == [Counted(None, 30, "read", None, 1000), Counted(None, 30, "write", None, 4096)]
    assert source.command(11) == "postgres"


# --- what is shown

DIRECTIONS: tuple[Direction, ...] = ("read", "write")


@given(st.text())
def test_text_of_others_is_one_line_that_a_terminal_does_not_obey(text: str) -> None:
    shown = one_line(text)
    assert shown.isprintable()
    assert "  " not in shown and shown == shown.strip()


def test_what_the_server_says_is_believed_of_its_own_processes_only() -> None:
    ours, stranger = Who(13, 10, 999, "postgres", "client backend"), Who(14, 99, 999, "postgres", "client backend")
    doing = {13: Doing("client backend", "shop", "SELECT 1"), 14: Doing("walsender", "shop", "SELECT 2")}
    sums = {Key(who, "vda", "read", ring=False): Sum(2, 8192) for who in (ours, stranger)}
    found = {row.who.pid: row for row in rows_of(sums, doing, 10, {})}
    assert (found[13].query, found[13].bytes_per_request) == ("SELECT 1", 4096)
    assert (found[14].query, found[14].role) == (None, "client backend")
    assert all(row.query is None for row in rows_of(sums, doing, None, {}))


def test_an_io_worker_reads_for_others_and_writes_for_itself() -> None:
    worker, stranger = Who(12, 10, 999, "postgres", "io worker"), Who(22, 99, 999, "postgres", "io worker")
    doing = {13: Doing("client backend", "shop", "SELECT 1")}
    sums = {
        Key(who, "vda", direction, ring=False): Sum(2, 8192) for who in (worker, stranger) for direction in DIRECTIONS
    }
    found = {(row.who.pid, row.direction): row.readers for row in rows_of(sums, doing, 10, {13: 0.75, 14: 0.25})}
    assert found[12, "read"] == (Reader(13, 0.75, "shop", "SELECT 1"), Reader(14, 0.25, None, None))
    assert [key for key, readers in found.items() if readers] == [(12, "read")]
    assert not any(row.readers for row in rows_of(sums, doing, None, {13: 1.0}))


def of_server(query: Callable[[str], list[dict[str, int]]]) -> Target:
    return Target(query, 180000, None, 10, None)


def test_for_whom_io_workers_read_is_what_was_in_flight_at_each_moment() -> None:
    moments: Iterator[list[dict[str, int]] | Exception] = iter(
        [
            [{"pid": 13, "bytes": 8192}, {"pid": 14, "bytes": 32768}],
            psycopg.errors.QueryCanceled("timeout"),
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
    for _ in range(4):
        in_flight.sample()
    assert list(in_flight.take().items()) == [(13, 0.8), (14, 0.2)]
    assert (in_flight.take(), in_flight.off) == ({}, None)


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (psycopg.errors.InsufficientPrivilege("permission denied"), "GRANT pg_monitor"),
        (psycopg.OperationalError("the connection\nis lost"), "the connection is lost"),
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
    new, known = Who(13, 10, 999, "postgres"), Who(13, 10, 999, "postgres", "client backend")
    gone, other = Who(13, None, None, "postgres", "ended", ended=True), Who(14, 10, 999, "postgres")
    sums = {Key(who, "vda", "read", ring=False): Sum(2, 512) for who in (new, known, gone, other)}
    assert settled(sums) == {
        Key(known, "vda", "read", ring=False): Sum(6, 1536), Key(other, "vda", "read", ring=False): Sum(2, 512),
    }  # fmt: skip
    uncounted = {Key(known, None, "read", ring=False): Sum(None, 512)}
    assert settled(uncounted) == uncounted


def test_a_query_that_is_over_is_told_from_one_that_runs() -> None:
    row = {"backend_type": "client backend", "database": "a\nb", "state": "idle", "query": "SELECT\n 1"}
    assert doing_of(row) == Doing("client backend", "a b", "(SELECT 1)")
    assert doing_of({**row, "state": "active"}).query == "SELECT 1"
    assert doing_of({**row, "state": None, "query": None, "database": None}) == Doing("client backend", None, None)


def test_what_kernel_workers_write_is_not_given_to_a_process() -> None:
    worker = Who(None, None, 0, "kworker", "kernel worker", kernel=True)
    sums = {Key(worker, "vda", "write", ring=False): Sum(1, 4096), Key(worker, "vda", "read", ring=False): Sum(1, 512)}
    assert [row.role for row in rows_of(sums, {}, None, {})] == [WRITE_BACK, "kernel worker"]


def snapshot(*rows: Row, source: str = "bpf", lost: int = 0) -> Snapshot:
    totals = DiskTotals(5, 40960, 1, 8192)
    return Snapshot(1.7e9, 5.0, source, rows, {"vda": totals}, {"queries": "no"}, lost, 0.01, 0.001)


def row(who: Who, query: str | None = None, requests: int | None = 4) -> Row:
    return Row(who, "vda", "read", requests, 32768, "io_uring", "shop", query)


def text(shown: Snapshot, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, markup=False).print(view(shown, width))
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 110, 200])
def test_it_fits_its_terminal(width: int) -> None:
    many = [row(Who(pid, 10, 999, "postgres", "client backend"), "SELECT 1 " * 50) for pid in range(5)]
    shown = text(snapshot(*many, lost=7), width)
    assert all(len(line) <= width for line in shown.splitlines())
    words = " ".join(shown.split())
    assert "32768" in words and "not seen: queries: no" in words and "7 events were lost" in words
    assert ("SELECT" in words) == (width >= 100)
    assert ("BYTES/REQ" in words and "8192" in words) == (width >= 50)


def test_for_whom_an_io_worker_read_stands_where_queries_do() -> None:
    worker = row(Who(12, 10, 999, "postgres", "io worker"))
    one, other = Reader(13, 0.75, "shop", "SELECT 1"), Reader(14, 0.25, None, None)
    assert "for 13 shop: SELECT 1\n" in text(snapshot(replace(worker, readers=(one,))), 200)
    both = replace(worker, readers=(one, other))
    assert "for 13 (75%) shop: SELECT 1, 14 (25%)\n" in text(snapshot(both), 200)
    assert snapshot(both).as_dict()["rows"][0]["readers"] == [
        {"pid": 13, "share": 0.75, "database": "shop", "query": "SELECT 1"},
        {"pid": 14, "share": 0.25, "database": None, "query": None},
    ]


def test_nothing_in_a_query_is_taken_for_markup() -> None:
    shown = text(snapshot(row(Who(1, 0, 0, "[red]x[/red]", "client backend"), "SELECT ':smile:', '[bold]'")), 200)
    assert "':smile:', '[bold]'" in shown
    assert "[red]x[/red]" in shown


def test_what_has_ended_is_added_up_by_name() -> None:
    ended = [row(Who(pid, None, None, "cc1", "ended", ended=True)) for pid in (1, 2, 3)]
    shown = text(snapshot(*ended), 120)
    assert shown.count("cc1") == 1
    assert "98304" in shown and "3 that have ended" in shown
    assert len(snapshot(*ended).as_dict()["rows"]) == 3


def test_what_is_not_known_is_not_zero() -> None:
    unknown = snapshot(row(Who(1, 0, 0, "dd"), requests=None), source="proc")
    assert "·" in text(unknown, 120)
    content = json.loads(json.dumps(unknown.as_dict(), allow_nan=False))
    assert content["schema_version"] == 1
    assert content["rows"][0]["requests"] is None and content["rows"][0]["bytes_per_request"] is None
    assert content["devices"] == [{
        "device": "vda", "reads": 5, "read_bytes": 40960, "writes": 1, "written_bytes": 8192, "discards": None,
        "discarded_bytes": None,
    }]  # fmt: skip


class Fake:
    """A source whose requests are told to it."""

    name, lost = "bpf", 0

    def __init__(self, *found: Counted) -> None:
        self.found = list(found)
        self.closed = False

    def take(self) -> list[Counted]:
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
        Counted(disk, ours, "read", 2, 8192), Counted(disk, 1, "read", 1, 512), Counted(disk, ours, "read", 1, 4096)
    )
    looking = Looking(source, None, {"bpf": "why"}, root=ours)
    first, second = looking.look(), looking.look()
    looking.close()
    (mine,) = first.rows  # process 1 does not descend from us
    assert (mine.who.pid, mine.requests, mine.bytes, mine.device) == (ours, 3, 12288, "9:9")
    assert (second.rows, dict(second.blind)) == ((), {"bpf": "why"})
    assert second.cost_seconds >= 0


# --- how it degrades


def refuse(error: OSError) -> object:
    def make(*_: object) -> Source:
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
    assert "made dirty" in blind["proc"] and "in spite of --device" in blind["proc"]
    assert all("\n" not in reason for reason in blind.values())


def test_a_source_that_was_asked_for_is_that_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "FromBpf", refuse(PermissionError(1, "Operation not permitted")))
    with pytest.raises(HostError, match=r"needs root.*leave out --source bpf"):
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
        with pytest.raises(ValueError, match="no tracing instance"):
            undo_instance({"name": name})
    assert [path.name for path in (tmp_path / "instances").iterdir()] == ["theirs"]

"""Requests in traces and BPF code: which process made them, whatever name a process chooses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.instruments.bpf import Jump, Label, assemble, instruction
from octavo.instruments.request_counter import direction_of
from octavo.iotop.request_source import RequestCount
from octavo.iotop.trace_lines import Attribution, Event, TraceLine, lost_events, parse_line

# Possible names of a process: 15 bytes, anything but a zero, also letters of several bytes.
commands = st.one_of(
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=15).map(lambda name: name.encode()[:15]),
    st.binary(max_size=15).map(lambda name: name.replace(b"\0", b"x")),
)
sizes = st.integers(1, 2**32 - 1)


def trace_line(event: str, thread: int, rest: str, command: bytes) -> bytes:
    return command.rjust(16) + f"-{thread:<7} [003] d..1.  4711.000815: {event}: {rest} [".encode() + command + b"]"


def as_text(command: bytes) -> str:
    return command.decode(errors="replace")


@given(commands, st.integers(1, 2**22), sizes, st.integers(0, 2**48), st.sampled_from(["none,0,0 ", "rt,4,1 ", ""]))
def test_a_line_is_read_whatever_the_process_calls_itself(
    command: bytes, thread: int, size: int, sector: int, priority: str
) -> None:
    rest = f"254,3 WFS {size} () {sector} + {size // 512} {priority}".rstrip()
    found = parse_line(trace_line("block_rq_issue", thread, rest, command))
    if b"\n" in command:  # then it is no line any more, but never a wrong one
        assert found is None or (found.thread, found.size) == (thread, size)
    else:
        assert found == TraceLine("block_rq_issue", thread, 254 << 20 | 3, "WFS", size, sector, as_text(command))


def test_a_name_with_letters_of_several_bytes_is_padded_by_bytes() -> None:
    rest = "254,3 R 8192 () 64 + 16 none,0,0"
    found = parse_line(trace_line("block_rq_issue", 7, rest, "données".encode()))
    assert found == TraceLine("block_rq_issue", 7, 254 << 20 | 3, "R", 8192, 64, "données")


@given(commands.filter(lambda command: b"\n" not in command), st.integers(0, 2**48))
def test_a_requeued_request_has_no_size(command: bytes, sector: int) -> None:
    found = parse_line(trace_line("block_rq_requeue", 5, f"7,0 R () {sector} + 8 none,0,0", command))
    assert found is not None
    assert (found.event, found.kind, found.size, found.sector) == ("block_rq_requeue", "R", 0, sector)


@given(commands.filter(lambda command: b"\n" not in command), st.integers(1, 2**22), st.integers(0, 2**48))
def test_what_is_submitted_to_a_volume_counts_for_who_submits_it(command: bytes, thread: int, sector: int) -> None:
    found = parse_line(trace_line("block_bio_queue", thread, f"253,1 RA {sector} + 256", command))
    assert found == TraceLine("block_bio_queue", thread, 253 << 20 | 1, "RA", 131072, sector, as_text(command))
    assert found is not None
    counted = Attribution(lambda thread: thread + 1).add(found)
    ring = command.startswith(b"iou-wrk-") and command[8:9].isdigit()
    assert counted is not None and (counted.bytes, counted.direction) == (131072, "read")
    assert ring or counted.pid == thread + 1


@given(st.binary())
def test_any_other_line_is_none(text: bytes) -> None:
    assert parse_line(text) is None
    assert lost_events(text) == 0


def test_a_column_of_processes_does_not_hinder() -> None:
    line = b"           <...>-77      (     70) [001] d..1.    12.000345: block_io_start: 8,0 RA 4096 () 64 + 8 [dd]"
    found = parse_line(line)
    assert found is not None
    assert (found.event, found.thread, found.command) == ("block_io_start", 77, "dd")


def event(name: Event, thread: int, sector: int, size: int = 4096, command: str = "x", kind: str = "R") -> TraceLine:
    return TraceLine(name, thread, 8 << 20, kind, size, sector, command)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5), sizes, st.integers(0, 2)), max_size=50))
def test_every_request_counts_once_for_who_started_it(requests: list[tuple[int, int, int, int]]) -> None:
    """Each is started by one process, issued by a kernel worker, and requeued and issued again several times."""
    attribution = Attribution(lambda thread: thread)
    for sector, pid, size, requeues in requests:
        assert attribution.add(event("block_io_start", pid, sector, size)) is None
        assert attribution.add(event("block_rq_issue", 99, sector, size)) == RequestCount(8 << 20, pid, "read", 1, size)
        for _ in range(requeues):
            assert attribution.add(event("block_rq_requeue", 99, sector, 0)) is None
            assert attribution.add(event("block_rq_issue", 99, sector, size)) is None


def test_what_nobody_started_is_who_issues_it() -> None:
    attribution = Attribution({70: 7}.__getitem__)
    assert attribution.add(event("block_rq_issue", 70, 1, command="dd")) == RequestCount(8 << 20, 7, "read", 1, 4096)
    assert attribution.names == {7: "dd"}
    assert attribution.add(event("block_rq_issue", 70, 1, size=0, kind="FF")) is None


def test_a_worker_of_io_uring_asks_in_a_processes_name() -> None:
    attribution = Attribution({71: 7, 70: 7, 99: 99}.__getitem__)
    attribution.add(event("block_io_start", 71, 1, command="iou-wrk-70"))
    assert attribution.add(event("block_rq_issue", 99, 1)) == RequestCount(8 << 20, 7, "read", 1, 4096, ring=True)
    attribution = Attribution({71: 71, 70: 7}.__getitem__)  # the worker has ended, its process has not
    assert attribution.add(event("block_rq_issue", 71, 1, command="iou-wrk-70")) == RequestCount(
        8 << 20, 7, "read", 1, 4096, ring=True
    )


def test_what_was_never_issued_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octavo.iotop.trace_lines._MOST_NOTED", 3)
    attribution = Attribution(lambda thread: thread)
    for sector in range(4):
        attribution.add(event("block_io_start", 1, sector))
    assert attribution.add(event("block_rq_issue", 99, 0)) == RequestCount(8 << 20, 99, "read", 1, 4096)
    assert attribution.add(event("block_rq_issue", 99, 1)) == RequestCount(8 << 20, 1, "read", 1, 4096)


def test_the_names_of_the_latest_processes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host has millions in time, and a view may stay open."""
    monkeypatch.setattr("octavo.iotop.trace_lines._MOST_NOTED", 3)
    attribution = Attribution(lambda thread: thread)
    for pid in (1, 2, 3, 1, 4):
        attribution.add(event("block_rq_issue", pid, pid, command=f"x{pid}"))
    assert attribution.names == {3: "x3", 1: "x1", 4: "x4"}


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

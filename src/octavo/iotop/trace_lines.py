"""Lines of a trace_pipe about block requests, and parsing these into requests.

Their form: kernel Documentation/trace/ftrace.rst ("Output format") and the TP_printk of include/trace/events/block.h. A
process can choose any name, even one with line ends, so fields are found by position: the name takes the first sixteen
bytes (printf pads by bytes, not by letters), and is repeated in brackets at the very end.
"""

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from octavo.instruments.request_counter import direction_of, kernel_number
from octavo.iotop.request_source import RequestCount

Event = Literal["block_io_start", "block_rq_issue", "block_rq_requeue", "block_bio_queue"]
EVENTS: tuple[Event, ...] = ("block_io_start", "block_rq_issue", "block_rq_requeue")
# What is submitted to a device that makes no requests of its own.
SUBMITTED: Event = "block_bio_queue"

_NAME_BYTES = 16
_HEAD = re.compile(rb"-(\d{1,9})\s+(?:\([\s\d-]*\)\s+)?\[\d+\]\s+\S+\s+\d+\.\d+: (\w+): ")
_PLACE = re.compile(rb"(\d{1,9}),(\d{1,9}) ([A-Z]*) (?:(\d{1,20}) )?\([^)]*\) (\d{1,20}) \+ \d+ (?:\S+ )?\[(.*)\]")
_SUBMITTED_PLACE = re.compile(rb"(\d{1,9}),(\d{1,9}) ([A-Z]*) (\d{1,20}) \+ (\d{1,9}) \[(.*)\]")
_SECTOR = 512
_LOST = re.compile(rb"CPU:\d+ \[LOST (?:(\d{1,20}) )?EVENTS\]")
_RING_WORKER = re.compile(r"iou-wrk-(\d{1,9})")
_MOST_NOTED = 65536
_Key = TypeVar("_Key")
_Noted = TypeVar("_Noted")


@dataclass(frozen=True, slots=True)
class TraceLine:
    """One event: the thread that ran, and the request; `size` in bytes, 0 for a requeued one, whose event lacks it."""

    event: Event
    thread: int
    device: int
    kind: str
    size: int
    sector: int
    command: str


def parse_line(line: bytes) -> TraceLine | None:
    """The event of a line, None where it is none of ours.

    >>> line = b"              dd-7     [002] d..1.   12.000345: block_rq_issue: 254,0 RS 8192 () 64 + 16 none,0,0 [dd]"
    >>> found = parse_line(line)
    >>> found.thread, found.kind, found.size, found.sector, found.command
    (7, 'RS', 8192, 64, 'dd')
    """
    head = _HEAD.match(line, _NAME_BYTES)
    if head is None:
        return None
    name = head[2].decode()
    if name == SUBMITTED:
        entered = _SUBMITTED_PLACE.fullmatch(line, head.end())
        if entered is None:
            return None
        device, size = kernel_number(int(entered[1]), int(entered[2])), int(entered[5]) * _SECTOR
        kind, command = entered[3].decode(), entered[6].decode(errors="replace")
        return TraceLine(SUBMITTED, int(head[1]), device, kind, size, int(entered[4]), command)
    event: Event | None = next((one for one in EVENTS if one == name), None)
    if event is None:
        return None
    place = _PLACE.fullmatch(line, head.end())
    if place is None:
        return None
    device = kernel_number(int(place[1]), int(place[2]))
    kind, command = place[3].decode(), place[6].decode(errors="replace")
    return TraceLine(event, int(head[1]), device, kind, int(place[4] or 0), int(place[5]), command)


def lost_events(line: bytes) -> int:
    """The number of lost events that a line reports, 0 for other lines.

    >>> lost_events(b"CPU:1 [LOST 12 EVENTS]"), lost_events(b"CPU:0 [LOST EVENTS]"), lost_events(b"")
    (12, 1, 0)
    """
    match = _LOST.fullmatch(line.strip())
    return int(match[1] or 1) if match else 0


@dataclass(frozen=True, slots=True)
class _Owner:
    pid: int
    ring: bool


class Attribution:
    """Counts requests as they are issued, for the process that started them (see
    `octavo.instruments.request_programs`, which does the same in the kernel).

    `process_of` gives the process of a thread.
    """

    def __init__(self, process_of: Callable[[int], int]) -> None:
        self._process_of = process_of
        self._owners: OrderedDict[tuple[int, int], _Owner | None] = OrderedDict()
        self.names: OrderedDict[int, str] = OrderedDict()

    def add(self, line: TraceLine) -> RequestCount | None:
        """The request that the line adds to the count, None if there is none."""
        place = (line.device, line.sector)
        if line.event == "block_rq_requeue":
            _note(self._owners, place, None)
            return None
        if line.event == "block_io_start":
            _note(self._owners, place, self._owner(line))
            return None
        known = place in self._owners
        owner = self._owners.pop(place, None)
        if known and owner is None:  # put back by the device and issued again: it is counted already
            return None
        direction = direction_of(line.kind)
        if not line.size or direction is None:
            return None
        owner = owner or self._owner(line)
        return RequestCount(line.device, owner.pid, direction, 1, line.size, owner.ring)

    def _owner(self, line: TraceLine) -> _Owner:
        worker = _RING_WORKER.match(line.command)
        pid = self._process_of(line.thread)
        if worker is None:
            _note(self.names, pid, line.command)
            return _Owner(pid, ring=False)
        # The worker may have ended; the thread that it works for is in its name, as far as that fits.
        return _Owner(self._process_of(int(worker[1])) if pid == line.thread else pid, ring=True)


def _note(table: OrderedDict[_Key, _Noted], key: _Key, noted: _Noted) -> None:
    """Keeps the latest entries: a host has millions of processes in time, and requests whose end is never seen."""
    table[key] = noted
    table.move_to_end(key)
    if len(table) > _MOST_NOTED:
        table.popitem(last=False)

"""Counts the requests of block devices in the kernel, by the process that started them."""

import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from octavo.instruments import bpf, perf_events, request_programs, system_calls
from octavo.instruments.perf_events import TRACEPOINT, Event

_KEY, _VALUE, _INDEX = struct.Struct("=IIII"), struct.Struct("=Q"), struct.Struct("=I")
_OWNER_KEY_BYTES, _OWNER_BYTES, _NAME_BYTES = 16, 8, 16
_MOST_ENTRIES = 16384

Direction = Literal["read", "write", "discard"]
_DIRECTIONS: dict[str, Direction] = {"R": "read", "W": "write", "D": "discard"}


@dataclass(frozen=True, slots=True)
class Requests:
    """The number of requests of this size and kind (the first letters of rwbs) that a process made to a device (dev_t).

    `ring`: an io_uring worker thread made them on the process's behalf.
    """

    device: int
    pid: int
    size: int
    kind: str
    count: int
    ring: bool = False


class RequestCounter:
    """Counts from its creation until it is closed, for one device (the kernel's dev_t) or for all.

    `submitted`: counts submissions to a device without a queue, such as one of device mapper or md, instead of
    requests. `measured`: the cost of counting is measured too, which makes every BPF program of the host slightly more
    expensive. `most`: the limit on different requests (by device, process, size and direction) between two calls of
    `take`. Raises OSError if the kernel does not have or allow this.
    """

    def __init__(
        self, device: int | None = None, *, submitted: bool = False, measured: bool = False, most: int = _MOST_ENTRIES
    ) -> None:
        self._descriptors: list[int] = []
        self._programs: list[int] = []
        try:
            with bpf.memory_unlimited(), system_calls.tracefs() as directory:
                if measured:
                    with suppress(OSError):  # not possible before 5.8
                        self._keep(bpf.enable_statistics())
                counts = self._keep(bpf.create_map(bpf.HASH, _KEY.size, _VALUE.size, most))
                self._lost = self._keep(bpf.create_map(bpf.ARRAY, _INDEX.size, _VALUE.size, 1))
                owners = self._keep(bpf.create_map(bpf.LRU_HASH, _OWNER_KEY_BYTES, _OWNER_BYTES, _MOST_ENTRIES))
                self._names = self._keep(bpf.create_map(bpf.LRU_HASH, 4, _NAME_BYTES, _MOST_ENTRIES))
                self._taker = bpf.Taker(counts, _KEY, _VALUE, most)
                self.take()  # refused before Linux 5.6: here, and not at the first reading
                block = directory / "events/block"
                if submitted:
                    event = block / "block_bio_queue"
                    fields = bpf.offsets(event / "format")
                    self._attach(event, request_programs.submitted(counts, self._lost, self._names, device, fields))
                    return
                for name in ("block_io_start", "block_rq_requeue"):
                    if not (block / name).is_dir():  # the first one is new in Linux 6.5
                        continue
                    fields = bpf.offsets(block / name / "format")
                    program = (
                        request_programs.started(owners, self._names, device, fields)
                        if name == "block_io_start"
                        else request_programs.requeued(owners, device, fields)
                    )
                    self._attach(block / name, program)
                # Attach this one last, so that no request is counted that started before its process could be recorded.
                event = block / "block_rq_issue"
                fields = bpf.offsets(event / "format")
                self._attach(event, request_programs.issued(owners, counts, self._lost, device, fields))
        except BaseException:
            self.close()
            raise

    def take(self) -> list[Requests]:
        """Returns everything counted since the last call."""
        return [
            Requests(device, pid, size, _kind(kind & 0xFFFF), count, kind >> 16 == request_programs.IO_URING)
            for (device, pid, size, kind), (count,) in self._taker.take()
        ]

    def lost(self) -> int:
        """The requests since the beginning that were not counted, because too many different ones came between
        two calls of `take`."""
        found = bpf.look_up(self._lost, _INDEX.pack(0), _VALUE.size)
        return int(_VALUE.unpack(found)[0]) if found else 0

    def name(self, pid: int) -> str | None:
        """The name of the process at its last request, even if it has ended since."""
        found = bpf.look_up(self._names, struct.pack("=I", pid), _NAME_BYTES)
        return found.partition(b"\0")[0].decode(errors="replace") if found else None

    def cpu_seconds(self) -> float:
        """CPU seconds that counting used in the kernel; 0 if not measured."""
        return sum(bpf.run_seconds(program) for program in self._programs)

    def close(self) -> None:
        """Stops counting."""
        for descriptor in reversed(self._descriptors):
            os.close(descriptor)
        self._descriptors.clear()

    def _attach(self, event: Path, program: bytes) -> None:
        loaded = self._keep(bpf.load(program))
        self._programs.append(loaded)
        # A program is attached to the tracepoint, not to the event's CPU, so one event covers all CPUs.
        cpu = min(os.sched_getaffinity(0))
        number = int((event / "id").read_text())
        perf_events.attach(self._keep(perf_events.open_event(Event(TRACEPOINT, number), cpu=cpu)), loaded)

    def _keep(self, descriptor: int) -> int:
        self._descriptors.append(descriptor)
        return descriptor


def direction_of(kind: str) -> Direction | None:
    """The direction in the letters of rwbs (kernel/trace/blktrace.c, blk_fill_rwbs), in which a flush before a write
    precedes it; None for a flush alone.

    >>> direction_of("WS"), direction_of("FWFS"), direction_of("RAM"), direction_of("FF"), direction_of("DS")
    ('write', 'write', 'read', None, 'discard')
    """
    return next((_DIRECTIONS[letter] for letter in kind if letter in _DIRECTIONS), None)


def kernel_number(major: int, minor: int) -> int:
    """A device's number inside the kernel (include/linux/kdev_t.h).

    >>> kernel_number(254, 1) == 254 << 20 | 1
    True
    """
    return major << 20 | minor


def _kind(letters: int) -> str:
    return "".join(chr(letter) for letter in (letters & 0xFF, letters >> 8) if letter)

"""A BPF program of our own, without a compiler: it counts the requests of one block device in the kernel.

For each request the kernel's tracepoint block:block_rq_issue runs it; it adds one to a map's entry for the process,
the size in bytes and the kind of request. Program, map and attachment are descriptors: they are gone when these are
closed, also by kill -9. Instructions and calls: kernel Documentation/bpf/standardization/instruction-set.rst and
include/uapi/linux/bpf.h.
"""

import ctypes
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from octavo.instruments import perf_events, system_calls
from octavo.instruments.perf_events import TRACEPOINT, Event

_MAP_CREATE, _PROGRAM_LOAD, _MAP_TAKE_BATCH = 0, 5, 25  # the last one since Linux 5.6
_HASH, _TRACEPOINT_PROGRAM = 1, 5
_LOOKUP_CALL, _UPDATE_CALL, _PID_CALL = 1, 2, 14
_KEY, _VALUE = struct.Struct("=III"), struct.Struct("=Q")
_MOST_ENTRIES = 16384
_ATTRIBUTE_BYTES = 128


@dataclass(frozen=True, slots=True)
class Requests:
    """How many requests of this size and kind (the first letters of rwbs) a process made."""

    pid: int
    size: int
    kind: str
    count: int


class RequestCounter:
    """Counts from its making until it is closed. Raises OSError where the kernel has or allows no such thing."""

    def __init__(self, device: int) -> None:
        self._descriptors: list[int] = []
        self._keys = ctypes.create_string_buffer(_MOST_ENTRIES * _KEY.size)
        self._values = ctypes.create_string_buffer(_MOST_ENTRIES * _VALUE.size)
        try:
            with system_calls.tracefs() as directory:
                event = directory / "events/block/block_rq_issue"
                number, offsets = int((event / "id").read_text()), _offsets(event / "format")
            self._map = self._keep(_create_map())
            program = self._keep(_load(_program(self._map, device, offsets)))
            # A program is attached to the tracepoint, not to the event's CPU: one event stands for all of them.
            cpu = min(os.sched_getaffinity(0))
            perf_events.attach(self._keep(perf_events.open_event(Event(TRACEPOINT, number), cpu=cpu)), program)
        except BaseException:
            self.close()
            raise

    def take(self) -> list[Requests]:
        """Takes everything counted since the last time, so that a reading costs what happened since."""
        cursor = ctypes.c_uint32()
        found: list[Requests] = []
        begun = 0
        while True:
            attribute = struct.pack(
                "=QQQQIIQQ", begun, ctypes.addressof(cursor), ctypes.addressof(self._keys),
                ctypes.addressof(self._values), _MOST_ENTRIES, self._map, 0, 0,
            )  # fmt: skip
            buffer = ctypes.create_string_buffer(attribute, _ATTRIBUTE_BYTES)
            try:
                _bpf(_MAP_TAKE_BATCH, buffer)
                last = False
            except FileNotFoundError:  # no more after these
                last = True
            (count,) = struct.unpack_from("=I", buffer, 32)
            keys = _KEY.iter_unpack(ctypes.string_at(self._keys, count * _KEY.size))
            values = _VALUE.iter_unpack(ctypes.string_at(self._values, count * _VALUE.size))
            for (pid, size, letters), (number,) in zip(keys, values, strict=True):
                found.append(Requests(pid, size, _kind(letters), number))
            if last:
                return found
            begun = ctypes.addressof(cursor)

    def close(self) -> None:
        """Ends the counting."""
        for descriptor in reversed(self._descriptors):
            os.close(descriptor)
        self._descriptors.clear()

    def _keep(self, descriptor: int) -> int:
        self._descriptors.append(descriptor)
        return descriptor


def _offsets(format_file: Path) -> dict[str, int]:
    """Where the tracepoint's fields lie in its record."""
    text = format_file.read_text()
    fields = re.findall(r"field:[^;]*?(\w+)(?:\[\d*\])?;\s*offset:(\d+);", text)
    return {name: int(offset) for name, offset in fields}


def _program(map_descriptor: int, device: int, offsets: dict[str, int]) -> bytes:
    """The program. r6 is the record, the key lies at r10-16, a first count at r10-24."""
    r0, r1, r2, r3, r4, r6, r10 = 0, 1, 2, 3, 4, 6, 10
    load_map = [
        _instruction(0x18, r1, 1, 0, map_descriptor),  # r1 = the map; BPF_PSEUDO_MAP_FD
        _instruction(0, 0, 0, 0, 0),
        _instruction(0xBF, r2, r10),
        _instruction(0x07, r2, 0, 0, -16),  # r2 = the key's address
    ]
    count_first = [
        *load_map,
        _instruction(0x7A, r10, 0, -24, 1),  # the count begins at one
        _instruction(0xBF, r3, r10),
        _instruction(0x07, r3, 0, 0, -24),
        _instruction(0xB7, r4, 0, 0, 0),  # BPF_ANY
        _instruction(0x85, 0, 0, 0, _UPDATE_CALL),
    ]
    count_more = [
        _instruction(0xB7, r1, 0, 0, 1),
        _instruction(0xDB, r0, r1, 0, 0),  # atomic: *(u64 *)r0 += r1
        _instruction(0x05, 0, 0, len(count_first)),
    ]
    fill_key_and_look = [
        _instruction(0x85, 0, 0, 0, _PID_CALL),
        _instruction(0x77, r0, 0, 0, 32),  # the upper half is the process, the lower the thread
        _instruction(0x63, r10, r0, -16),
        _instruction(0x61, r1, r6, offsets["bytes"]),
        _instruction(0x63, r10, r1, -12),
        _instruction(0x71, r1, r6, offsets["rwbs"]),
        _instruction(0x71, r2, r6, offsets["rwbs"] + 1),
        _instruction(0x67, r2, 0, 0, 8),
        _instruction(0x4F, r1, r2),
        _instruction(0x63, r10, r1, -8),
        *load_map,
        _instruction(0x85, 0, 0, 0, _LOOKUP_CALL),
        _instruction(0x15, r0, 0, len(count_more), 0),  # absent: count_first
    ]
    body = [*fill_key_and_look, *count_more, *count_first]
    return b"".join(
        [
            _instruction(0xBF, r6, r1),
            _instruction(0x61, r1, r6, offsets["dev"]),
            _instruction(0x56, r1, 0, len(body), device),  # another device: leave
            *body,
            _instruction(0xB7, r0, 0, 0, 0),
            _instruction(0x95),
        ]
    )


def _instruction(code: int, destination: int = 0, source: int = 0, offset: int = 0, immediate: int = 0) -> bytes:
    return struct.pack("=BBhi", code, destination | source << 4, offset, immediate)


def _kind(letters: int) -> str:
    return "".join(chr(letter) for letter in (letters & 0xFF, letters >> 8) if letter)


def _create_map() -> int:
    attribute = struct.pack("=IIIII", _HASH, _KEY.size, _VALUE.size, _MOST_ENTRIES, 0)
    return _bpf(_MAP_CREATE, ctypes.create_string_buffer(attribute, _ATTRIBUTE_BYTES))


def _load(program: bytes) -> int:
    instructions = ctypes.create_string_buffer(program, len(program))
    licence = ctypes.create_string_buffer(b"PostgreSQL")
    attribute = struct.pack(
        "=IIQQ", _TRACEPOINT_PROGRAM, len(program) // 8, ctypes.addressof(instructions), ctypes.addressof(licence)
    )
    return _bpf(_PROGRAM_LOAD, ctypes.create_string_buffer(attribute, _ATTRIBUTE_BYTES))


def _bpf(command: int, attribute: "ctypes.Array[ctypes.c_char]") -> int:
    return system_calls.call(
        system_calls.number_of("bpf"), ctypes.c_int(command), ctypes.byref(attribute), ctypes.c_uint(_ATTRIBUTE_BYTES)
    )

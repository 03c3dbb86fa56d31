"""bpf(2) without a compiler or a library: hand-written instructions, maps, programs at tracepoints, their cost.

Programs, maps and attachments are descriptors: they are removed when these are closed, also by kill -9. Instructions
and calls: kernel Documentation/bpf/standardization/instruction-set.rst and include/uapi/linux/bpf.h.
"""

import ctypes
import re
import resource
import struct
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from octavo.instruments import system_calls

_MAP_CREATE, _PROGRAM_LOAD, _MAP_LOOKUP, _MAP_TAKE_BATCH, _ENABLE_STATS = 0, 5, 1, 25, 32  # batches since Linux 5.6
HASH, ARRAY, LRU_HASH = 1, 2, 9
_TRACEPOINT_PROGRAM = 5
_ATTRIBUTE_BYTES = 128

# Helper functions that a program calls.
LOOKUP, UPDATE, DELETE, PID, NAME = 1, 2, 3, 14, 16


@dataclass(frozen=True, slots=True)
class Label:
    """A jump target in a program."""

    name: str


@dataclass(frozen=True, slots=True)
class Jump:
    """A jump to a label: an instruction whose offset is still unknown."""

    code: int
    register: int
    immediate: int
    label: str


def instruction(code: int, destination: int = 0, source: int = 0, offset: int = 0, immediate: int = 0) -> bytes:
    """One instruction of 8 bytes."""
    return struct.pack("=BBhi", code, destination | source << 4, offset, immediate)


def assemble(parts: Sequence[bytes | Label | Jump]) -> bytes:
    """The program with its jumps resolved.

    >>> assemble([Jump(0x05, 0, 0, "end"), instruction(0xB7), Label("end"), instruction(0x95)])[2]
    1
    """
    places: dict[str, int] = {}
    at = 0
    for part in parts:
        if isinstance(part, Label):
            places[part.name] = at
        else:
            at += 1 if isinstance(part, Jump) else len(part) // 8
    code: list[bytes] = []
    at = 0
    for part in parts:
        if isinstance(part, Label):
            continue
        if isinstance(part, Jump):
            part = instruction(part.code, part.register, 0, places[part.label] - at - 1, part.immediate)
        at += len(part) // 8
        code.append(part)
    return b"".join(code)


def offsets(format_file: Path) -> dict[str, int]:
    """The offsets of a tracepoint's fields in its record. Raises OSError if the tracepoint does not exist."""
    fields = re.findall(r"field:[^;]*?(\w+)(?:\[\d*\])?;\s*offset:(\d+);", format_file.read_text())
    return {name: int(offset) for name, offset in fields}


@contextmanager
def memory_unlimited() -> Generator[None]:
    """No limit on locked memory, as which maps and programs count before Linux 5.11, while they are created: root often
    has 64 kB (getrlimit(2), RLIMIT_MEMLOCK). Unchanged without CAP_SYS_RESOURCE."""
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, before)


def create_map(kind: int, key_bytes: int, value_bytes: int, entries: int) -> int:
    """Creates a map and returns its descriptor. Raises OSError."""
    return _bpf(_MAP_CREATE, _attribute(struct.pack("=IIIII", kind, key_bytes, value_bytes, entries, 0)))


def load(program: bytes) -> int:
    """Loads a tracepoint program and returns its descriptor. Raises OSError when the verifier or a missing permission
    refuses it."""
    instructions = ctypes.create_string_buffer(program, len(program))
    licence = ctypes.create_string_buffer(b"PostgreSQL")
    attribute = struct.pack(
        "=IIQQ", _TRACEPOINT_PROGRAM, len(program) // 8, ctypes.addressof(instructions), ctypes.addressof(licence)
    )
    return _bpf(_PROGRAM_LOAD, _attribute(attribute))


def look_up(descriptor: int, key: bytes, value_bytes: int) -> bytes | None:
    """The value of a key, or None if it is not in the map."""
    key_at = ctypes.create_string_buffer(key, len(key))
    value = ctypes.create_string_buffer(value_bytes)
    try:
        _bpf(
            _MAP_LOOKUP,
            _attribute(struct.pack("=IIQQQ", descriptor, 0, ctypes.addressof(key_at), ctypes.addressof(value), 0)),
        )
    except FileNotFoundError:
        return None
    return value.raw


class Taker:
    """Removes and returns all entries of a hash map, so that a reading costs only what happened since the last one."""

    def __init__(self, descriptor: int, key: struct.Struct, value: struct.Struct, entries: int) -> None:
        self._map, self._key, self._value, self._entries = descriptor, key, value, entries
        self._keys = ctypes.create_string_buffer(entries * key.size)
        self._values = ctypes.create_string_buffer(entries * value.size)

    def take(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Yields the keys and values."""
        cursor = ctypes.c_uint32()
        begun = 0
        last = False
        while not last:
            content = struct.pack(
                "=QQQQIIQQ", begun, ctypes.addressof(cursor), ctypes.addressof(self._keys),
                ctypes.addressof(self._values), self._entries, self._map, 0, 0,
            )  # fmt: skip
            attribute = _attribute(content)
            try:
                _bpf(_MAP_TAKE_BATCH, attribute)
            except FileNotFoundError:  # no more entries
                last = True
            (count,) = struct.unpack_from("=I", attribute, 32)
            keys = self._key.iter_unpack(ctypes.string_at(self._keys, count * self._key.size))
            values = self._value.iter_unpack(ctypes.string_at(self._values, count * self._value.size))
            yield from zip(keys, values, strict=True)
            begun = ctypes.addressof(cursor)


def enable_statistics() -> int:
    """Returns a descriptor; while it is open the kernel measures the cost of programs (since Linux 5.8). Raises
    OSError."""
    return _bpf(_ENABLE_STATS, _attribute(struct.pack("=I", 0)))


def run_seconds(program: int) -> float:
    """The CPU seconds that a program has used while statistics were enabled."""
    text = Path(f"/proc/self/fdinfo/{program}").read_text()
    match = re.search(r"^run_time_ns:\s*(\d+)$", text, re.MULTILINE)
    return int(match[1]) * 1e-9 if match else 0.0


def _attribute(content: bytes) -> "ctypes.Array[ctypes.c_char]":
    return ctypes.create_string_buffer(content, _ATTRIBUTE_BYTES)


def _bpf(command: int, attribute: "ctypes.Array[ctypes.c_char]") -> int:
    return system_calls.call(
        system_calls.number_of("bpf"), ctypes.c_int(command), ctypes.byref(attribute), ctypes.c_uint(_ATTRIBUTE_BYTES)
    )

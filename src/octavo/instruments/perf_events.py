"""perf_event_open(2): counters and tracepoints as descriptors. They are removed when the descriptors are closed."""

import ctypes
import fcntl
import os
import struct
from dataclasses import dataclass

from octavo.instruments import system_calls

HARDWARE, SOFTWARE, TRACEPOINT, CACHE = 0, 1, 2, 3
INHERIT = 1 << 1
_ATTRIBUTE_BYTES = 64  # PERF_ATTR_SIZE_VER0
_WITH_TIMES = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING
_FLAG_CLOEXEC = 8
_ENABLE, _SET_BPF = 0x2400, 0x40042408


@dataclass(frozen=True, slots=True)
class Event:
    """An event by its type and number (include/uapi/linux/perf_event.h)."""

    type: int
    config: int


def cache_event(cache: int, operation: int, result: int) -> Event:
    """The event of a hardware cache, from PERF_COUNT_HW_CACHE_* numbers."""
    return Event(CACHE, cache | operation << 8 | result << 16)


def open_event(event: Event, *, pid: int = -1, cpu: int = -1, inherit: bool = False) -> int:
    """Returns a descriptor that counts the event for a process or a CPU. Raises OSError when it is refused."""
    attribute = ctypes.create_string_buffer(
        struct.pack(
            "=IIQQQQQ", event.type, _ATTRIBUTE_BYTES, event.config, 0, 0, _WITH_TIMES, INHERIT if inherit else 0
        ),
        _ATTRIBUTE_BYTES,
    )
    return system_calls.call(
        system_calls.number_of("perf_event_open"),
        ctypes.byref(attribute), ctypes.c_int(pid), ctypes.c_int(cpu), ctypes.c_int(-1), ctypes.c_ulong(_FLAG_CLOEXEC),
    )  # fmt: skip


def read_event(descriptor: int) -> float:
    """The count of the event, children included, scaled up if the counter was shared with others."""
    count, enabled, running = struct.unpack("=QQQ", os.read(descriptor, 24))
    return float(count) if not 0 < running < enabled else count * enabled / running


def attach(descriptor: int, program: int) -> None:
    """Runs the BPF program at each hit of the tracepoint."""
    fcntl.ioctl(descriptor, _SET_BPF, program)
    fcntl.ioctl(descriptor, _ENABLE, 0)


def close(descriptor: int) -> None:
    """Stops counting."""
    os.close(descriptor)

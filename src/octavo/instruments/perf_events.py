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


@dataclass(frozen=True, slots=True)
class EventCount:
    """A reading of an event: its count, and the nanoseconds in which its process ran, with a counter or without one,
    and those with a counter."""

    count: int
    enabled: int
    running: int

    @property
    def scaled(self) -> float | None:
        """The count, scaled up if the counter was shared with others; None if the event never got a counter while its
        process ran. A process that did not run has had none of its events."""
        if self.running:
            return self.count * max(1.0, self.enabled / self.running)
        return None if self.enabled else 0.0


def read_event(descriptor: int) -> EventCount:
    """Reads the event, children included."""
    return EventCount(*struct.unpack("=QQQ", os.read(descriptor, 24)))


def attach(descriptor: int, program: int) -> None:
    """Runs the BPF program at each hit of the tracepoint."""
    fcntl.ioctl(descriptor, _SET_BPF, program)
    fcntl.ioctl(descriptor, _ENABLE, 0)


def close(descriptor: int) -> None:
    """Stops counting."""
    os.close(descriptor)

"""The interface of every source of requests: by process and device, the requests since the previous call."""

from dataclasses import dataclass
from typing import Literal, Protocol

Direction = Literal["read", "write", "discard"]
_DIRECTIONS: dict[str, Direction] = {"R": "read", "W": "write", "D": "discard"}


@dataclass(frozen=True, slots=True)
class RequestCount:
    """Requests of one process; `requests` and `device` (dev_t as the kernel has it) are None where a source cannot
    tell. `ring`: asked for by a worker thread of io_uring in the process's name.
    """

    device: int | None
    pid: int
    direction: Direction
    requests: int | None
    bytes: int
    ring: bool = False


class RequestSource(Protocol):
    """Where the counts come from. It is read every few hundred milliseconds."""

    @property
    def name(self) -> str:
        """`bpf`, `tracefs` or `proc`."""
        ...

    @property
    def lost(self) -> int:
        """Events that the kernel had no room for, since the beginning."""
        ...

    def take(self) -> list[RequestCount]:
        """The requests counted since the previous call."""
        ...

    def command(self, pid: int) -> str | None:
        """The name of a process that may have ended since, None if unknown."""
        ...

    def cpu_seconds(self) -> float:
        """CPU seconds of counting outside of this process, as far as the kernel measures them."""
        ...

    def close(self) -> None:
        """Stops counting and removes everything that was created for it."""
        ...


def direction_of(kind: str) -> Direction | None:
    """The direction in the letters of rwbs (kernel/trace/blktrace.c, blk_fill_rwbs); None for a flush alone.

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

"""The interface of every source of requests: by process and device, the requests since the previous call."""

from dataclasses import dataclass
from typing import Protocol

from octavo.instruments.request_counter import Direction


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

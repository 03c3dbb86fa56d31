"""Requests counted in the kernel by BPF programs of our own (`octavo.instruments.request_counter`)."""

from octavo.instruments.request_counter import RequestCounter, direction_of
from octavo.iotop.request_source import RequestCount


class FromBpf:
    """Counts until it is closed, also by kill -9: all of it are descriptors. Raises OSError where it is refused."""

    name = "bpf"

    def __init__(self, device: int | None, *, submitted: bool = False) -> None:
        self._counter = RequestCounter(device, submitted=submitted, measured=True)

    @property
    def lost(self) -> int:
        """Requests since the beginning for which the kernel's map had no room."""
        return self._counter.lost()

    def take(self) -> list[RequestCount]:
        """The requests counted since the previous call."""
        return [
            RequestCount(one.device, one.pid, direction, one.count, one.count * one.size, one.ring)
            for one in self._counter.take()
            if one.size and (direction := direction_of(one.kind)) is not None
        ]

    def command(self, pid: int) -> str | None:
        """The name under which a process last asked for something."""
        return self._counter.name(pid)

    def cpu_seconds(self) -> float:
        """CPU seconds of the BPF programs."""
        return self._counter.cpu_seconds()

    def close(self) -> None:
        """Ends the counting."""
        self._counter.close()

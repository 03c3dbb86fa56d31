"""Requests from a tracing instance's ring buffer, for kernels that allow tracing but not bpf(2)."""

import os
import re
from contextlib import ExitStack, suppress
from pathlib import Path

from octavo.host.journal import Journal
from octavo.instruments.request_counter import Direction
from octavo.iotop.instance import instance
from octavo.iotop.request_source import RequestCount
from octavo.iotop.trace_lines import EVENTS, SUBMITTED, Attribution, lost_events, parse_line

# All CPUs' buffers together, and the least that one gets. A thousand requests are about 250 kB.
_BUFFERS_KB = 32768
_LEAST_KB = 128
_READ_BYTES = 1 << 16
# Of one reading, so that it ends where requests come as fast as they are read.
_MOST_BYTES = 1 << 23


class FromTracefs:
    """Traces until it is closed. Raises OSError where it is refused."""

    name = "tracefs"

    def __init__(self, device: int | None, journal: Journal, *, submitted: bool = False) -> None:
        self.lost = 0
        self._rest = b""
        self._processes: dict[int, int] = {}
        self._attribution = Attribution(self._process_of)
        with ExitStack() as stack:
            path = stack.enter_context(instance(journal))
            (path / "buffer_size_kb").write_text(str(max(_LEAST_KB, _BUFFERS_KB // (os.cpu_count() or 1))))
            self._pipe = os.open(path / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            stack.callback(os.close, self._pipe)
            for name in (SUBMITTED,) if submitted else EVENTS:
                event = path / "events/block" / name
                if not event.is_dir() and name == "block_io_start":  # since Linux 6.5
                    continue
                if device is not None:
                    (event / "filter").write_text(f"dev == {device}")
                (event / "enable").write_text("1")
            self._stack = stack.pop_all()

    def take(self) -> list[RequestCount]:
        """The requests traced since the previous call."""
        found: dict[tuple[int | None, int, Direction, bool], list[int]] = {}
        self._processes.clear()  # a thread's number may pass to another one
        for line in self._lines():
            if event := parse_line(line):
                if counted := self._attribution.add(event):
                    total = found.setdefault((counted.device, counted.pid, counted.direction, counted.ring), [0, 0])
                    total[0] += 1
                    total[1] += counted.bytes
            else:
                self.lost += lost_events(line)
        return [
            RequestCount(device, pid, direction, requests, size, ring)
            for (device, pid, direction, ring), (requests, size) in found.items()
        ]

    def command(self, pid: int) -> str | None:
        """The name under which a process last asked for something."""
        return self._attribution.names.get(pid)

    def cpu_seconds(self) -> float:
        """Not known: the kernel writes the events in the time of whoever makes a request."""
        return 0.0

    def close(self) -> None:
        """Ends the tracing and removes the instance."""
        self._stack.close()

    def _lines(self) -> list[bytes]:
        parts = [self._rest]
        most = _MOST_BYTES
        with suppress(BlockingIOError):
            while most > 0 and (part := os.read(self._pipe, _READ_BYTES)):
                parts.append(part)
                most -= len(part)
        *lines, self._rest = b"".join(parts).split(b"\n")
        return lines

    def _process_of(self, thread: int) -> int:
        if (process := self._processes.get(thread)) is None:
            process = self._processes[thread] = process_of(thread)
        return process


def process_of(thread: int) -> int:
    """The process that a thread belongs to; the thread's own number when it has ended."""
    try:
        status = Path(f"/proc/{thread}/status").read_text(errors="replace")
    except OSError:
        return thread
    match = re.search(r"^Tgid:\s*(\d+)$", status, re.MULTILINE)
    return int(match[1]) if match else thread

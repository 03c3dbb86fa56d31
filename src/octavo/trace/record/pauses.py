"""The pauses of a recording in slices, from the times of the accesses that bpftrace prints.

A pause is longer than the recorder sleeps: attaching probes to a program and detaching them takes a second or more.
"""

import re
from collections.abc import Iterator

from octavo import _core

# The line of an access: its time in nanoseconds of the monotonic clock, and eight other numbers (`probes.program`).
_ACCESS = re.compile(rb"^(\d{1,19})(?: -?\d{1,19}){8}$", re.MULTILINE)
# The last lines of a piece of output are within so many bytes.
_TAIL = 4096


class Pauses:
    """Writes an event for each pause: from the last access of a slice to the first access of the next one."""

    def __init__(self, writer: _core.TraceWriter, began: int) -> None:
        self._writer, self._began = writer, began
        self._last = 0
        self._is_first = False

    def begin_slice(self) -> None:
        """A slice begins."""
        self._is_first = self._last > 0

    def see(self, printed: bytes) -> None:
        """Takes what was printed next, before the writer does. A line that begins in the piece before has the end of
        its time, which is a smaller number."""
        first = next((time for time in _times(printed) if time > self._last), None) if self._is_first else None
        if first is not None:
            self._is_first = False
            since = max(0, self._last - self._began)
            self._writer.event(since // 1000, "pause_microseconds", (first - self._last) // 1000)
        self._last = max(self._last, *_times(printed[-_TAIL:]), 0)


def _times(printed: bytes) -> Iterator[int]:
    return (int(found[1]) for found in _ACCESS.finditer(printed))

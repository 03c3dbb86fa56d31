"""Readahead of the data's device, or of a filesystem without one: read_ahead_kb.

Source: kernel Documentation/ABI/stable/sysfs-block and testing/sysfs-class-bdi. The kernel counts in memory pages, so
only multiples of these are possible. A file keeps the readahead that it was opened with, so set it before the server
starts. Direct I/O has no readahead.
"""

import os
from contextlib import AbstractContextManager

from octavo.factor import Factor, size
from octavo.host.block_devices import readahead_file
from octavo.host.journal import Journal
from octavo.host.kernel_value import KernelValue
from octavo.knobs.base import AS_FOUND, Achieved, KnobTarget, not_writable, set_values
from octavo.units import format_size, parse_size


class Readahead:
    """One number, in kB."""

    factor = Factor("readahead", "run", "readahead of the data's device", AS_FOUND, size("0B", "1GB", AS_FOUND))

    def cannot(self, level: str, place: KnobTarget) -> str | None:
        """It needs a device or BDI with a name, and a multiple of the memory page."""
        if reason := not_whole_pages(level):
            return reason
        file = readahead_file(place.directory, place.sys)
        return "the filesystem of the data has no readahead setting" if file is None else not_writable(file)

    def applied(self, level: str, journal: Journal, place: KnobTarget) -> AbstractContextManager[Achieved]:
        """Sets the readahead of everything on that device."""
        file = readahead_file(place.directory, place.sys)
        assert file is not None  # checked by `cannot`
        return set_values(level, [(KernelValue(file), str(parse_size(level) // 1024))], journal)


def not_whole_pages(level: str) -> str | None:
    """Why this kernel would round the level down, on any device; None if it does not."""
    page = os.sysconf("SC_PAGE_SIZE")
    if level == AS_FOUND or parse_size(level) % page == 0:
        return None
    return f"readahead is counted in memory pages of {format_size(page)} here; {level} is not a multiple"


KNOB = Readahead()

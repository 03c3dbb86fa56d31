"""khugepaged, which collapses small pages into huge ones: how many pages it scans, and how often.

Source: kernel Documentation/admin-guide/mm/transhuge.rst, khugepaged/pages_to_scan and scan_sleep_millisecs. Its file
`defrag` does not stop it (that is about compaction), and 0 pages are refused: `off` sets the longest sleep that the
kernel accepts.
"""

import re
from contextlib import AbstractContextManager

from octavo.errors import UsageError
from octavo.factor import Factor
from octavo.host.journal import Journal
from octavo.host.kernel_value import KernelValue
from octavo.knobs.base import AS_FOUND, Achieved, KnobTarget, not_writable, set_values
from octavo.units import parse_duration

_DIRECTORY = "kernel/mm/transparent_hugepage/khugepaged"
_LONGEST_MILLISECONDS = 2**32 - 1  # an unsigned int, nearly 50 days


def _check(text: str) -> str:
    if text in (AS_FOUND, "off"):
        return text
    match = re.fullmatch(r"([1-9]\d{0,8})/(\S+)", text)
    if match is not None:
        try:
            seconds = parse_duration(match[2])
        except UsageError:
            seconds = -1.0
        if 0 <= seconds * 1000 <= _LONGEST_MILLISECONDS:
            return text
    raise UsageError(f"allowed: {AS_FOUND}, off, or pages per scan and sleep between scans, such as 4096/10s")


class Khugepaged:
    """Both files together."""

    factor = Factor("khugepaged", "run", "scanning for transparent huge pages", AS_FOUND, _check)

    def cannot(self, level: str, place: KnobTarget) -> str | None:
        """It needs the files, and root."""
        del level
        return not_writable(place.sys / _DIRECTORY / "scan_sleep_millisecs")

    def applied(self, level: str, journal: Journal, place: KnobTarget) -> AbstractContextManager[Achieved]:
        """Sets the pages per scan and the interval."""
        pages, sleep = pages_of_a_scan(place), KernelValue(place.sys / _DIRECTORY / "scan_sleep_millisecs")
        if level == "off":
            return set_values(level, [(sleep, str(_LONGEST_MILLISECONDS))], journal)
        number, _, duration = level.partition("/")
        return set_values(level, [(pages, number), (sleep, str(round(parse_duration(duration) * 1000)))], journal)


def pages_of_a_scan(place: KnobTarget) -> KernelValue:
    """The kernel's file."""
    return KernelValue(place.sys / _DIRECTORY / "pages_to_scan")


KNOB = Khugepaged()

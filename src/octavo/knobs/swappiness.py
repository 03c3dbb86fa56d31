"""vm.swappiness: how readily the kernel swaps out anonymous memory instead of page cache.

Source: kernel Documentation/admin-guide/sysctl/vm.rst: 0 to 200 since Linux 5.8; 100 is equal cost. A memory-limited
server on cgroup version 1 follows its group's memory.swappiness, which Octavo sets to 0 unless a trial has swap.
"""

from contextlib import AbstractContextManager

from octavo.errors import UsageError
from octavo.factor import Factor, whole_number
from octavo.host.journal import Journal
from octavo.host.kernel_value import KernelValue
from octavo.knobs.base import AS_FOUND, Achieved, KnobTarget, not_writable, set_values


def _check(text: str) -> str:
    if text == AS_FOUND:
        return text
    try:
        return whole_number(0, 200)(text)
    except UsageError as error:
        raise UsageError(f"{error}, or {AS_FOUND}") from None


class Swappiness:
    """One number."""

    factor = Factor("swappiness", "run", "vm.swappiness", AS_FOUND, _check)

    def cannot(self, level: str, place: KnobTarget) -> str | None:
        """It needs root."""
        del level
        return not_writable(place.proc / "sys/vm/swappiness")

    def applied(self, level: str, journal: Journal, place: KnobTarget) -> AbstractContextManager[Achieved]:
        """Sets the value for the machine."""
        return set_values(level, [(KernelValue(place.proc / "sys/vm/swappiness"), level)], journal)


KNOB = Swappiness()

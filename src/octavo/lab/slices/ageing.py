"""The age at which the kernel writes back dirty memory, in a round whose cells are paused most of the time.

Dirty memory is written back when it is older than vm.dirty_expire_centisecs, usually 30 s (kernel Documentation/
admin-guide/sysctl/vm.rst). It also ages while its cell is paused: with seven cells, pages would be written back after
four seconds of their cell's own time, which does not happen in a sequential trial of a few seconds. So the limit is
multiplied by the number of cells.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from octavo.host.journal import Journal
from octavo.host.kernel_value import KernelValue, changed
from octavo.knobs.base import not_writable

_LIMIT = Path("/proc/sys/vm/dirty_expire_centisecs")


@contextmanager
def ages_slowly(cells: int, journal: Journal, limit: Path = _LIMIT) -> Generator[int | None, None, None]:
    """Sets the limit for so many cells that take turns, within the context. Yields it in hundredths of a second, None
    if it may not be changed."""
    if not_writable(limit) is not None:
        yield None
        return
    value = KernelValue(limit)
    with changed(value, str(int(value.read()) * cells), journal) as achieved:
        yield int(achieved)

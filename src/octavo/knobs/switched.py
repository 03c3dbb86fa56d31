"""Knobs that cells of a round in slices may have at different levels: they are switched before each cell's slice.

The modes of transparent huge pages decide about memory when it is touched (kernel Documentation/admin-guide/mm/
transhuge.rst), so a server that is started, warmed up and run in its own mode has the memory that it would have alone,
as long as it is paused in the mode of another. khugepaged would collapse memory of paused servers by the mode of
another, and scans whenever a mode starts it anew (mm/khugepaged.c, start_stop_khugepaged), whatever its sleep: it scans
as little as the kernel accepts.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from octavo.errors import OctavoError
from octavo.host.journal import Journal
from octavo.host.kernel_value import KernelValue
from octavo.knobs import khugepaged, shmem_thp, thp
from octavo.knobs.base import AS_FOUND, Achieved, ChoiceKnob, KnobTarget, set_values

Levels = Mapping[str, str]

KNOBS: Mapping[str, ChoiceKnob] = {"thp": thp.KNOB, "shmem_thp": shmem_thp.KNOB}
# The name of khugepaged's value in a trial's facts.
_SCANNED = "khugepaged_pages_to_scan"


@dataclass(slots=True)
class _Switch:
    """One value: as found, and the word that it should have now."""

    value: KernelValue
    found: str
    now: str
    drifted: set[str] = field(default_factory=set[str])

    def read(self) -> str:
        """The word in force. Another one than it should be is noted."""
        if (word := self.value.read()) != self.now:
            self.drifted.add(f"{self.value}: {self.now} became {word}")
        return word


@dataclass(frozen=True, slots=True)
class Switches:
    """The values that differ between cells, by knob; none if all cells have the same levels. `scanned`: the pages that
    khugepaged scans at once, if it scans as little as possible."""

    by_knob: Mapping[str, _Switch]
    scanned: Achieved | None = None

    def to(self, levels: Levels) -> None:
        """Sets the cell's levels. Raises OctavoError when the kernel refuses one."""
        for name, switch in self.by_knob.items():
            wanted = _word(name, levels, switch.found)
            if switch.read() != wanted:
                try:
                    switch.value.write(wanted)
                except OSError as error:
                    raise OctavoError(f"the kernel refuses {wanted!r} for {switch.value}: {error.strerror}") from error
            switch.now = wanted

    def facts(self, levels: Levels) -> dict[str, Any]:
        """The values during the cell's slices, as `knobs.State.as_dict` has those of the others."""
        achieved = {
            name: Achieved(levels.get(name, AS_FOUND), _word(name, levels, switch.found), switch.found)
            for name, switch in self.by_knob.items()
        }
        if self.scanned is not None:
            achieved[_SCANNED] = self.scanned
        return {name: one.as_dict() for name, one in achieved.items()}

    def drifted(self) -> list[str]:
        """Values that somebody else has changed meanwhile, or that the kernel has not taken."""
        for switch in self.by_knob.values():
            switch.read()
        lines = [f"{name}: {line}" for name, switch in self.by_knob.items() for line in switch.drifted]
        if self.scanned is not None:
            lines += [f"{_SCANNED}: {line}" for line in self.scanned.drifted()]
        return sorted(lines)


def differing(cells: Sequence[Levels]) -> tuple[str, ...]:
    """The knobs of the table whose levels differ between cells."""
    return tuple(name for name in KNOBS if len({levels.get(name, AS_FOUND) for levels in cells}) > 1)


@contextmanager
def switches(cells: Sequence[Levels], journal: Journal, place: KnobTarget) -> Generator[Switches, None, None]:
    """The switches of these cells within the context; they are at the first one's levels at first, and restored at the
    end. Raises OctavoError when the kernel refuses a level."""
    with ExitStack() as stack:
        by_knob: dict[str, _Switch] = {}
        scanned: Achieved | None = None
        if names := differing(cells):
            scanned = stack.enter_context(set_values("1", [(khugepaged.pages_of_a_scan(place), "1")], journal))
        for name in names:
            knob = KNOBS[name]
            value = knob.value(place)
            found = value.read()
            words = frozenset(_word(name, levels, found) for levels in cells)
            achieved = stack.enter_context(knob.switched(_word(name, cells[0], found), words, journal, place))
            by_knob[name] = _Switch(value, found, achieved)
        yield Switches(by_knob, scanned)


def _word(name: str, levels: Levels, found: str) -> str:
    level = levels.get(name, AS_FOUND)
    return found if level == AS_FOUND else level

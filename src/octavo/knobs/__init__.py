"""Knobs: host state that a level sets, that is verified by reading it back, and that is restored.

To add one, write a file here with a KNOB that follows `knobs.base.Knob`, and add a line to the table. Knobs that need
more than a level (a volume, the server's process) have their own functions: device, server_group, huge_pages,
cpu_pinning, drop_caches. The caller holds the host's lock (`host.lock`), because two processes that change one value
would restore each other's.
"""

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from octavo.factor import Factor
from octavo.host.journal import Journal
from octavo.knobs.base import AS_FOUND, Achieved, Knob, KnobTarget

# The order in which they are set.
KNOBS = {
    "thp": "octavo.knobs.thp",
    "shmem_thp": "octavo.knobs.shmem_thp",
    "thp_defrag": "octavo.knobs.thp_defrag",
    "khugepaged": "octavo.knobs.khugepaged",
    "page_cache": "octavo.knobs.page_cache",
    "readahead": "octavo.knobs.readahead",
    "io_scheduler": "octavo.knobs.io_scheduler",
    "zram_swap": "octavo.knobs.zram_swap",
    "swappiness": "octavo.knobs.swappiness",
    "dirty_limits": "octavo.knobs.dirty_limits",
    "overcommit": "octavo.knobs.overcommit",
    "cpu_governor": "octavo.knobs.cpu_governor",
    "fragmentation": "octavo.knobs.fragmentation",
}

# These are set on the device under the data: each private volume has its own.
OF_THE_DEVICE = frozenset({"readahead", "io_scheduler"})


@dataclass(frozen=True, slots=True)
class State:
    """The actual state of the knobs, by name."""

    achieved: Mapping[str, Achieved]

    def as_dict(self) -> dict[str, Any]:
        """The state for a trial's facts."""
        return {name: achieved.as_dict() for name, achieved in self.achieved.items()}

    def drifted(self) -> list[str]:
        """Values that somebody else has changed since then, as `knob: path: was became is`."""
        return [f"{name}: {line}" for name, achieved in self.achieved.items() for line in achieved.drifted()]


def all_knobs() -> dict[str, Knob]:
    """Every knob by its name: its module's KNOB."""
    return {name: import_module(module).KNOB for name, module in KNOBS.items()}


def factors() -> tuple[Factor, ...]:
    """The factors of all knobs, including those that need more than a level."""
    from octavo.knobs import cpu_pinning, device, filesystem, huge_pages

    return (
        huge_pages.FACTOR,
        *(knob.factor for knob in all_knobs().values()),
        filesystem.FACTOR,
        device.FACTOR,
        cpu_pinning.SERVER_CPUS,
        cpu_pinning.CLIENT_CPUS,
    )


def cannot(levels: Mapping[str, str], place: KnobTarget) -> str | None:
    """Why this host cannot set the knobs of a cell, with the factor's name; None if it can."""
    from octavo.knobs import cpu_pinning, device, huge_pages, readahead

    # A private volume's device does not exist yet; `device.cannot` checks whether it can be created.
    later = OF_THE_DEVICE if device.needs_volume(levels) else frozenset[str]()
    reasons = {name: knob.cannot(level, place) for name, knob, level in _turned(levels) if name not in later}
    reasons.setdefault("readahead", readahead.not_whole_pages(levels.get("readahead", AS_FOUND)))
    reasons["huge_pages"] = huge_pages.cannot(levels.get("huge_pages", "off"), place.sys)
    reasons["device"] = device.cannot(levels)
    for factor in (cpu_pinning.SERVER_CPUS, cpu_pinning.CLIENT_CPUS):
        reasons[factor.name] = cpu_pinning.cannot(levels.get(factor.name, factor.default))
    return next((f"{name}: {reason}" for name, reason in reasons.items() if reason), None)


@contextmanager
def applied(levels: Mapping[str, str], journal: Journal, place: KnobTarget) -> Generator[State, None, None]:
    """Sets the table's knobs to a cell's levels within the context, and restores them in reverse at its end.

    A factor that the levels do not contain is left alone. Raises OctavoError when the kernel refuses a value.
    """
    with ExitStack() as stack:
        yield State(
            {name: stack.enter_context(knob.applied(level, journal, place)) for name, knob, level in _turned(levels)}
        )


def _turned(levels: Mapping[str, str]) -> list[tuple[str, Knob, str]]:
    chosen = ((name, knob, levels.get(name, knob.factor.default)) for name, knob in all_knobs().items())
    return [(name, knob, level) for name, knob, level in chosen if level != knob.factor.default]

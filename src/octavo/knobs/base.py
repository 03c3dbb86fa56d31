"""The interface of a knob: host state that a level sets and that is restored."""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from octavo.factor import Factor, one_of
from octavo.host.free_memory import huge_page
from octavo.host.journal import Journal
from octavo.host.kernel_value import KernelValue, changed

# The level that changes nothing.
AS_FOUND = "as-found"
# Modes in which a program that does not request huge pages gets none.
_NONE_UNASKED = ("never", "madvise", "advise")


@dataclass(frozen=True, slots=True)
class KnobTarget:
    """Where knobs are set: the kernel's trees, and a directory on the filesystem and device in question, which is ours
    alone: root may write there by path."""

    directory: Path
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")


@dataclass(frozen=True, slots=True)
class Achieved:
    """The requested, achieved and original value, each as the kernel writes it."""

    asked: str
    achieved: str
    found: str
    values: tuple[tuple[KernelValue, str], ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """The values for a trial's facts."""
        return {"asked": self.asked, "achieved": self.achieved, "found": self.found}

    def drifted(self) -> list[str]:
        """The values that somebody else has changed since then, as `path: was, is`."""
        now = ((value, was, value.read()) for value, was in self.values if value.path.exists())
        return [f"{value}: {was} became {is_now}" for value, was, is_now in now if is_now != was]


class Knob(Protocol):
    """A knob by its factor; the factor's default changes nothing."""

    @property
    def factor(self) -> Factor:
        """The factor: name, levels and default."""
        ...

    def cannot(self, level: str, place: KnobTarget) -> str | None:
        """Why this host cannot set the level, or None if it can."""
        ...

    def applied(self, level: str, journal: Journal, place: KnobTarget) -> AbstractContextManager[Achieved]:
        """Sets the level within the context, and restores the value at its end. Raises OctavoError when the kernel
        refuses."""
        ...


@contextmanager
def set_values(
    level: str,
    pairs: Sequence[tuple[KernelValue, str]],
    journal: Journal,
    *,
    moves: Callable[[KernelValue], Sequence[KernelValue]] = lambda _: (),
) -> Generator[Achieved, None, None]:
    """Sets several values as the level requests; `achieved` is their content afterwards.

    `moves` returns the values that the kernel changes along with one of them.
    """
    with ExitStack() as stack:
        found = [value.read() for value, _ in pairs]
        achieved = [stack.enter_context(changed(value, text, journal, moves=moves(value))) for value, text in pairs]
        values = tuple((value, now) for (value, _), now in zip(pairs, achieved, strict=True))
        yield Achieved(level, _one(achieved), _one(found), values)


def _one(texts: Sequence[str]) -> str:
    """One text if all are the same, as for the CPUs of a machine."""
    return texts[0] if len(set(texts)) == 1 else " ".join(texts)


def not_writable(path: Path) -> str | None:
    """Why this kernel file is not writable for us, or None."""
    if not path.exists():
        return f"this kernel has no {path}"
    if not os.access(path, os.W_OK):
        return f"{path} cannot be written; run as root" if os.geteuid() else f"{path} cannot be written"
    return None


@dataclass(frozen=True, slots=True)
class ChoiceKnob:
    """A knob that is a single file below /sys with a fixed list of words."""

    name: str
    meaning: str
    path: str
    words: tuple[str, ...]
    moves: str | None = None  # a file below /proc that the kernel changes along with this one

    @property
    def factor(self) -> Factor:
        """The words, and the level that changes nothing."""
        return Factor(self.name, "run", self.meaning, AS_FOUND, one_of(AS_FOUND, *self.words))

    def cannot(self, level: str, place: KnobTarget) -> str | None:
        """The kernel may not offer every word, or not let us write it."""
        value = self.value(place)
        if reason := not_writable(value.path):
            return reason
        offered = value.choices()
        # A file that is planted, or does not mark its choice, has only one word.
        if len(offered) > 1 and level not in offered:
            return f"this kernel offers {', '.join(offered)} in {value.path}, not {level}"
        return _not_followed(value.path, level, huge_page(place.sys))

    @contextmanager
    def applied(self, level: str, journal: Journal, place: KnobTarget) -> Generator[Achieved, None, None]:
        """Writes the word."""
        moved = self._moved(place)
        with set_values(level, [(self.value(place), level)], journal, moves=lambda _: moved) as achieved:
            yield achieved

    def switched(
        self, level: str, words: frozenset[str], journal: Journal, place: KnobTarget
    ) -> AbstractContextManager[str]:
        """Writes the word; within the context the caller writes others of `words`. Yields what the kernel reports."""
        return changed(self.value(place), level, journal, ours=words, ours_later=True, moves=self._moved(place))

    def _moved(self, place: KnobTarget) -> list[KernelValue]:
        return [KernelValue(place.proc / self.moves)] if self.moves else []

    def value(self, place: KnobTarget) -> KernelValue:
        """The kernel's file."""
        return KernelValue(place.sys / self.path, "choice")


def _not_followed(file: Path, level: str, huge: int | None) -> str | None:
    """Why the level of this file is not that of all transparent huge pages, or None: since Linux 6.8 each size of page
    has a file of its own as well, which follows only if it is at `inherit` (kernel Documentation/admin-guide/mm/
    transhuge.rst). `huge`: the bytes of a whole huge page."""
    if level == "deny":  # of all sizes (mm/shmem.c)
        return None
    for own in sorted(file.parent.glob(f"hugepages-*kB/{file.name}")):
        word = KernelValue(own, "choice").read()
        whole = own.parent.name == f"hugepages-{(huge or 0) // 1024}kB"
        if word not in ("inherit", level) and (whole or word not in _NONE_UNASKED):
            return f"{own} is {word}, so pages of that size do not follow {file}; write inherit to it"
    return None

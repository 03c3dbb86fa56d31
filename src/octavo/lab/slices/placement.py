"""The CPU on which each thread of a cell starts a slice: redistributed at every slice.

On a machine with few CPUs the speed of a cell depends on which of its processes share one, and the scheduler keeps its
placement: successive slices within a second repeat one draw instead of making a new one (autocorrelation 0.4 to 0.7
between a cell's neighbouring slices, docs/method.md). Redistributing the threads makes the slices independent draws
from the same distribution, for every cell equally.
"""

import os
import random
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from octavo.host import child_group
from octavo.host.procfs import number_after
from octavo.lab.slices.freeze import GroupFreezer

_PROC = Path("/proc")


def deal(used: Mapping[int, float], allowed: Mapping[int, frozenset[int]], chance: random.Random) -> dict[int, int]:
    """A CPU for each thread, so that the busy threads are spread evenly over the CPUs.

    `used`: each thread's CPU seconds since its last placement. `allowed`: the CPUs on which it may run. Threads with
    only one CPU are left out.
    """
    dealt: dict[int, int] = {}
    by_mask: dict[frozenset[int], list[int]] = {}
    for thread, cpus in allowed.items():
        if len(cpus) > 1:
            by_mask.setdefault(cpus, []).append(thread)
    for cpus, threads in by_mask.items():
        busiest = sorted(threads, key=lambda one: (-used.get(one, 0.0), one))
        for first in range(0, len(busiest), len(cpus)):
            hand = chance.sample(sorted(cpus), len(cpus))
            dealt |= dict(zip(busiest[first : first + len(cpus)], hand, strict=False))
    return dealt


@dataclass(slots=True)
class ShuffledPlacement:
    """A freezer that redistributes the threads of its group over the CPUs while they are frozen.

    A thread is bound to its CPU until the group continues, and then unbound: the slice begins with this placement, and
    the scheduler may change it from there.
    """

    freezer: GroupFreezer
    chance: random.Random
    proc: Path = _PROC
    _before: dict[int, float] = field(default_factory=dict[int, float])
    _free: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])

    @property
    def how(self) -> str:
        """What is paused, and how it is continued."""
        return f"{self.freezer.how}; threads redistributed over the CPUs at each slice"

    def freeze(self) -> None:
        """Pauses the group and places its threads for the next slice. Raises the errors of the group's own freezer."""
        self.freezer.freeze()
        now = {thread: self._cpu_seconds(thread) for thread in child_group.threads(self.freezer.group)}
        used = {thread: seconds - self._before.get(thread, 0.0) for thread, seconds in now.items()}
        self._before = now
        self._free = _affinities(now)
        for thread, cpu in deal(used, self._free, self.chance).items():
            _bind(thread, (cpu,))

    def thaw(self) -> None:
        """Continues the group and leaves its threads to the scheduler, including those that start meanwhile: a thread
        that was still bound passed its CPU on to them (sched_setaffinity(2)), and they would keep it."""
        self.freezer.thaw()
        for thread, cpus in self._free.items():
            _bind(thread, cpus)
        free = dict(self._free)
        while new := sorted(set(child_group.threads(self.freezer.group)) - free.keys()):
            for thread in new:
                free[thread] = free.get(self._parent(thread), frozenset())
                if free[thread]:
                    _bind(thread, free[thread])

    def _parent(self, thread: int) -> int:
        """The thread's process, or for a process its parent (proc_pid_status(5)); 0 if it has ended."""
        try:
            status = (self.proc / str(thread) / "status").read_bytes()
        except OSError:
            return 0
        process = number_after(status, b"\nTgid:")
        return number_after(status, b"\nPPid:") if process == thread else process

    def _cpu_seconds(self, thread: int) -> float:
        """CPU seconds from schedstat, which counts nanoseconds (sched-stats.rst); 0 if the kernel does not report
        them."""
        try:
            return int((self.proc / str(thread) / "schedstat").read_bytes().split()[0]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0


def _affinities(threads: Iterable[int]) -> dict[int, frozenset[int]]:
    found: dict[int, frozenset[int]] = {}
    for thread in threads:
        with suppress(OSError):
            found[thread] = frozenset(os.sched_getaffinity(thread))
    return found


def _bind(thread: int, cpus: Iterable[int]) -> None:
    with suppress(OSError):  # it has ended
        os.sched_setaffinity(thread, cpus)

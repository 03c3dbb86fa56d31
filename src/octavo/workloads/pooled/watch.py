"""The server's processes while the clients run: when swapping begins, and which process would be killed first, over
time."""

import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from octavo.host import cgroup
from octavo.observation import Metric, Observation, observe
from octavo.workload_support.server_memory import ProcessMemory, first_victim, largest_by_role, look

# A reading of 80 processes costs 4 ms; one with Pss costs 7 ms per process and touched GB, and is rare.
_PERIOD_SECONDS = 0.5
PSS_MOMENTS = 4
# The kernel swaps out this much before it has to, so it is not the onset.
_SWAPPING = 4 * 1024**2

WEIGHT = Metric("oom_weight_over_time_bytes", "RSS, swap and page tables, largest process, at each quarter", "bytes")
PSS = Metric("pss_over_time_bytes", "proportional set size, largest process, at each quarter", "bytes")
SWAPPED = Metric(
    "swapped_bytes", "swap of the server's memory group, maximum; without a limit VmSwap, sum", "bytes", "lower"
)
ONSET = Metric("swap_onset_seconds", "time until 4 MB of the server were in swap", "seconds", "higher")
ONSET_TABLES = Metric("swap_onset_page_tables_bytes", "page tables of all processes when swapping began", "bytes")
ONSET_PREDICTED = Metric(
    "swap_onset_predicted_bytes",
    "page tables for which the limit left room when swapping began, beside all other memory and page cache",
    "bytes",
)
METRICS = (WEIGHT, PSS, SWAPPED, ONSET, ONSET_TABLES, ONSET_PREDICTED)


@dataclass(frozen=True, slots=True)
class Moment:
    """All processes at one moment, in seconds after the clients began; and of a memory group, in bytes, what is charged
    to it besides the kernel's memory, and its swap."""

    seconds: float
    processes: Sequence[ProcessMemory]
    besides_kernel: int | None = None
    group_swap: int | None = None

    @property
    def tables(self) -> int:
        """The page tables of all processes."""
        return sum(one.tables for one in self.processes)

    @property
    def swap(self) -> int:
        """That of the group. The sum of VmSwap counts a page that processes share since the fork in each of them, and
        has no shared memory."""
        return sum(one.swap for one in self.processes) if self.group_swap is None else self.group_swap


@dataclass(slots=True)
class WatchedMemory:
    """The observations: moments in order, and those with Pss, a quarter of the run apart."""

    moments: list[Moment] = field(default_factory=list[Moment])
    with_pss: list[Moment] = field(default_factory=list[Moment])

    def observations(self, limit: int | None) -> list[Observation]:
        """The observations. `limit`: that of the server's memory group, in bytes."""
        found = [observe(SWAPPED, max((one.swap for one in self.moments), default=0))]
        for number, moment in enumerate(self.with_pss, 1):
            for metric, what in ((WEIGHT, "weight"), (PSS, "pss")):
                by_role = largest_by_role(moment.processes, what)
                found += [observe(metric, size, item=role, repetition=number) for role, size in by_role.items()]
        onset = next((one for one in self.moments if one.swap >= _SWAPPING), None)
        if limit is not None and onset is not None and onset.besides_kernel is not None:
            found += [
                observe(ONSET, onset.seconds),
                observe(ONSET_TABLES, onset.tables),
                observe(ONSET_PREDICTED, max(0, limit - onset.besides_kernel)),
            ]
        return found

    def story(self) -> str:
        """The heaviest process at each quarter, as lines for the trial's log."""
        lines: list[str] = []
        for moment in self.with_pss:
            victim, by_pss = first_victim(moment.processes), largest_by_role(moment.processes, "pss")
            if victim is not None:
                most = next(iter(by_pss), None)
                largest = f"largest Pss a {most}" if most else "no Pss could be read"
                lines.append(f"after {moment.seconds:.0f} s: heaviest a {victim.role}, {largest}")
        return "".join(f"{line}\n" for line in lines)


def _moment(passed: float, postmaster: int, group: Path | None, *, pss: bool) -> Moment:
    processes = look(postmaster, pss=pss)
    if group is None:
        return Moment(passed, processes)
    return Moment(passed, processes, cgroup.bytes_besides_kernel(group), cgroup.swapped_bytes(group))


@contextmanager
def watched(postmaster: int, seconds: float, group: Path | None = None) -> Generator[WatchedMemory, None, None]:
    """Observes the postmaster's processes, and its memory group if it has a limit, until the context ends; Pss at each
    quarter of so many seconds."""
    seen, ended, began = WatchedMemory(), threading.Event(), time.monotonic()

    def watch() -> None:
        while not ended.wait(_PERIOD_SECONDS):
            passed = time.monotonic() - began
            # The last quarter ends a little early, while the clients are still running.
            due = len(seen.with_pss) < PSS_MOMENTS and passed >= 0.95 * seconds * (len(seen.with_pss) + 1) / PSS_MOMENTS
            moment = _moment(passed, postmaster, group, pss=due)
            seen.moments.append(moment)
            if due:
                seen.with_pss.append(moment)

    thread = threading.Thread(target=watch, name="octavo pooled watch")
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()

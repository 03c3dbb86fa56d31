"""The server's processes while the clients run: when swapping begins, and which process would be killed first, over
time."""

import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from octavo.observation import Metric, Observation, observe
from octavo.workload_support.server_memory import ProcessMemory, first_victim, largest_by_role, look

# A reading of 80 processes costs 4 ms; one with Pss costs 7 ms per process and touched GB, and is rare.
_PERIOD_SECONDS = 0.5
PSS_MOMENTS = 4
# The kernel swaps out this much before it has to, so it is not the onset.
_SWAPPING = 4 * 1024**2

WEIGHT = Metric("oom_weight_over_time_bytes", "RSS, swap and page tables, largest process, at each quarter", "bytes")
PSS = Metric("pss_over_time_bytes", "proportional set size, largest process, at each quarter", "bytes")
SWAPPED = Metric("swapped_bytes", "swap used by the server's processes, maximum", "bytes", "lower")
ONSET = Metric("swap_onset_seconds", "time until 4 MB of the server were in swap", "seconds", "higher")
ONSET_TABLES = Metric("swap_onset_page_tables_bytes", "page tables of all processes when swapping began", "bytes")
ONSET_PREDICTED = Metric(
    "swap_onset_predicted_bytes",
    "page tables that fit in the limit beside shared and private memory",
    "bytes",
)
METRICS = (WEIGHT, PSS, SWAPPED, ONSET, ONSET_TABLES, ONSET_PREDICTED)


@dataclass(frozen=True, slots=True)
class Moment:
    """All processes at one moment, in seconds after the clients began."""

    seconds: float
    processes: Sequence[ProcessMemory]

    def total(self, what: str) -> int:
        """The sum of `tables`, `swap` or `private`."""
        return sum(getattr(one, what) for one in self.processes)


@dataclass(slots=True)
class WatchedMemory:
    """The observations: moments in order, and those with Pss, a quarter of the run apart."""

    moments: list[Moment] = field(default_factory=list[Moment])
    with_pss: list[Moment] = field(default_factory=list[Moment])

    def observations(self, limit: int | None, shared: int) -> list[Observation]:
        """The observations. `limit`: the server's memory limit; `shared`: its shared memory, in bytes."""
        found = [observe(SWAPPED, max((one.total("swap") for one in self.moments), default=0))]
        for number, moment in enumerate(self.with_pss, 1):
            for metric, what in ((WEIGHT, "weight"), (PSS, "pss")):
                by_role = largest_by_role(moment.processes, what)
                found += [observe(metric, size, item=role, repetition=number) for role, size in by_role.items()]
        onset = next((one for one in self.moments if one.total("swap") >= _SWAPPING), None)
        if onset is not None and limit is not None:
            found += [
                observe(ONSET, onset.seconds),
                observe(ONSET_TABLES, onset.total("tables")),
                observe(ONSET_PREDICTED, max(0, limit - shared - onset.total("private"))),
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


@contextmanager
def watched(postmaster: int, seconds: float) -> Generator[WatchedMemory, None, None]:
    """Observes the postmaster's processes until the context ends, with Pss at each quarter of so many seconds."""
    seen, ended, began = WatchedMemory(), threading.Event(), time.monotonic()

    def watch() -> None:
        while not ended.wait(_PERIOD_SECONDS):
            passed = time.monotonic() - began
            # The last quarter ends a little early, while the clients are still running.
            due = len(seen.with_pss) < PSS_MOMENTS and passed >= 0.95 * seconds * (len(seen.with_pss) + 1) / PSS_MOMENTS
            moment = Moment(passed, look(postmaster, pss=due))
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

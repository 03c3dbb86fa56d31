"""TLB misses, cycles and instructions of the server's processes, from the CPU's own counters.

Source: perf_event_open(2), the events of `perf stat -e dTLB-loads,dTLB-load-misses,dTLB-store-misses,iTLB-load-misses,
cycles,instructions` (include/uapi/linux/perf_event.h). Each process that runs when the trial starts is counted with its
later children, so new backends count through the postmaster. A virtual machine often has no such counters.
"""

import math
import os
from collections.abc import Mapping, Sequence

from octavo.host.process_table import child_pids
from octavo.instruments import perf_events
from octavo.instruments.base import Reader, UnavailableError
from octavo.instruments.figures import Figure, PerTransaction, Ratio, Reading, Total
from octavo.instruments.perf_events import HARDWARE, Event, EventCount, cache_event
from octavo.instruments.target import Target
from octavo.observation import Metric

_DATA_TLB, _INSTRUCTION_TLB = 3, 4
_READ, _WRITE = 0, 1
_ACCESS, _MISS = 0, 1
_MOST_UNCOUNTED = 0.01

EVENTS: Mapping[str, Event] = {
    "cycles": Event(HARDWARE, 0),
    "instructions": Event(HARDWARE, 1),
    "loads": cache_event(_DATA_TLB, _READ, _ACCESS),
    "load_misses": cache_event(_DATA_TLB, _READ, _MISS),
    "store_misses": cache_event(_DATA_TLB, _WRITE, _MISS),
    "instruction_misses": cache_event(_INSTRUCTION_TLB, _READ, _MISS),
}


class Tlb:
    """Counters of the CPU. They are read before and after, because each reading adds up all backends."""

    period = math.inf
    asks_server = False
    figures: tuple[Figure, ...] = (
        Total(Metric("dtlb_load_misses", "loads that missed the TLB", "1"), "load_misses"),
        Total(Metric("dtlb_store_misses", "stores that missed the TLB", "1"), "store_misses"),
        Total(Metric("itlb_load_misses", "instruction fetches that missed the TLB", "1"), "instruction_misses"),
        PerTransaction(Metric("dtlb_load_misses_per_transaction", "loads that missed the TLB, per transaction", "1"),
             "load_misses"),
        Ratio(Metric("dtlb_load_miss_share", "share of loads that missed the TLB", "fraction"), "load_misses", "loads"),
        Ratio(Metric("instructions_per_cycle", "instructions per cycle", "1"), "instructions", "cycles"),
    )  # fmt: skip

    def __init__(self, events: Mapping[str, Event] = EVENTS) -> None:
        self._events = events

    def open(self, target: Target) -> Reader:
        """Raises UnavailableError if the machine has no such counters or does not permit their use."""
        if target.postmaster is None:
            raise UnavailableError(target.no_processes)
        opened: list[tuple[str, int]] = []
        refused: dict[str, OSError] = {}
        for pid in (target.postmaster, *child_pids(target.postmaster, target.proc)):
            if pid == target.backend:
                continue
            for name in [name for name in self._events if name not in refused]:
                try:
                    opened.append((name, perf_events.open_event(self._events[name], pid=pid, inherit=True)))
                except ProcessLookupError:
                    break
                except OSError as error:
                    refused[name] = error
        if not opened:
            raise UnavailableError(_reason(next(iter(refused.values()), None)))

        not_counted: list[str] = []

        def read() -> Reading:
            counts: dict[str, list[EventCount]] = {}
            for name, descriptor in opened:
                if name not in refused:
                    counts.setdefault(name, []).append(perf_events.read_event(descriptor))
            found = {name: value for name, its in counts.items() if (value := together(its)) is not None}
            not_counted[:] = [name for name in counts if name not in found]
            return {None: found}

        def lacking() -> str | None:
            return f"no counter of the CPU was free for {', '.join(not_counted)}" if not_counted else None

        def close() -> None:
            for _, descriptor in opened:
                os.close(descriptor)

        return Reader(read, close, lacking)


def together(counts: Sequence[EventCount]) -> float | None:
    """The sum over processes. None if those that never got a counter ran for more than a hundredth of the time of all:
    then it would be that of a part.

    >>> together([EventCount(100, 9000, 4500), EventCount(0, 10, 0), EventCount(0, 0, 0)])
    200.0
    >>> together([EventCount(100, 9000, 9000), EventCount(0, 1000, 0)]), together([EventCount(0, 5000, 0)])
    (None, None)
    """
    uncounted = sum(one.enabled for one in counts if one.scaled is None)
    if uncounted > _MOST_UNCOUNTED * sum(one.enabled for one in counts):
        return None
    return sum(one.scaled or 0.0 for one in counts)


def _reason(error: OSError | None) -> str:
    if isinstance(error, PermissionError):
        return "the CPU's counters need root, CAP_PERFMON or a lower kernel.perf_event_paranoid"
    return f"this machine has no counters of TLB misses ({error.strerror if error else 'no process to count'})"


INSTRUMENT = Tlb()

"""The server's own memory in transparent huge pages. It costs CPU time, so it is read only if a plan requests it.

Source: /proc/PID/smaps_rollup (proc_pid_smaps(5)): AnonHugePages and ShmemPmdMapped, in kB of 1024 bytes. It walks the
process's page tables, 7 ms for a touched GB, so it is no longer read once it has taken more than a hundredth of the
machine's CPU time between two readings of a running server. /proc/meminfo has the same for the whole machine, foreign
processes included. AnonHugePages counts a page that processes share copy-on-write since the fork in each of them.
"""

import math
import os

from octavo.host.procfs import number_after
from octavo.instruments.base import Reader
from octavo.instruments.figures import Figure, Gauge, Reading
from octavo.instruments.smaps_rollup import rollups
from octavo.instruments.target import Target
from octavo.observation import Metric

_KB = 1024.0
_BUDGET_SHARE = 0.01


class ThpMapped:
    """Gauges over the server's processes."""

    period = 5.0
    asks_server = False
    figures: tuple[Figure, ...] = (
        Gauge(Metric("process_anon_huge_bytes", "private memory in transparent huge pages, upper bound (sum)",
                     "bytes"),
              "anon", _KB),
        Gauge(Metric("process_shmem_huge_bytes", "shared memory mapped as huge pages, largest process", "bytes"),
              "shmem", _KB),
    )  # fmt: skip

    def open(self, target: Target) -> Reader:
        """Raises UnavailableError if the processes, or their memory maps, are not accessible."""
        budget = math.inf if target.paused else _BUDGET_SHARE * self.period * (os.cpu_count() or 1)
        read = rollups(target, budget)

        def gauges() -> Reading:
            texts = read()
            return {
                None: {
                    "anon": float(sum(number_after(text, b"\nAnonHugePages:") for text in texts)),
                    "shmem": float(max((number_after(text, b"\nShmemPmdMapped:") for text in texts), default=0)),
                }
            }

        return Reader(gauges)


INSTRUMENT = ThpMapped()

"""The proportional set size: the memory of each process, with shared pages divided among their users.

Source: /proc/PID/smaps_rollup (proc_pid_smaps(5), Linux 4.14), in kB of 1024 bytes. It walks the process's page tables
with its memory map locked, 7 ms for a touched GB; so it is read every 30 seconds at most, and no longer at all once a
reading has exceeded its budget, a thousandth of the machine's CPU time.
"""

import os

from octavo.host.procfs import number_after
from octavo.instruments.base import Reader
from octavo.instruments.figures import Figure, Gauge, Reading
from octavo.instruments.smaps_rollup import rollups
from octavo.instruments.target import Target
from octavo.observation import Metric

_KB = 1024.0
_BUDGET_SHARE = 0.001
_SHMEM = b"\nPss_Shmem:"  # not in every kernel that has the file: it came later than Pss


class Pss:
    """Sums over the server's processes."""

    period = 30.0
    asks_server = False
    figures: tuple[Figure, ...] = (
        Gauge(Metric("process_pss_bytes", "memory of PostgreSQL's processes, shared pages counted once (Pss)", "bytes"),
              "pss", _KB),
        Gauge(Metric("process_pss_shmem_bytes", "shared memory of PostgreSQL's processes (Pss_Shmem)", "bytes"),
              "shmem", _KB),
    )  # fmt: skip

    def __init__(self, budget_share: float = _BUDGET_SHARE) -> None:
        self._budget = budget_share * self.period * (os.cpu_count() or 1)

    def open(self, target: Target) -> Reader:
        """Raises UnavailableError if the processes, or their memory maps, are not accessible."""
        read = rollups(target, self._budget)

        def sums() -> Reading:
            texts = read()
            found = {"pss": float(sum(number_after(text, b"\nPss:") for text in texts))}
            if any(_SHMEM in text for text in texts):
                found["shmem"] = float(sum(number_after(text, _SHMEM) for text in texts))
            return {None: found}

        return Reader(sums)


INSTRUMENT = Pss()

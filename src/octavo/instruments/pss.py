"""The proportional set size: what each process really costs, a shared page counting in parts.

Source: /proc/PID/smaps_rollup (proc_pid_smaps(5), Linux 4.14), in kB of 1024 bytes. It walks the process's page
tables with its memory map locked, 7 ms for a touched GB; so it is read every 30 seconds at most, and no more at all
once it has taken more than its budget, a thousandth of the machine's CPU time.
"""

import os
import time

from octavo.instruments.base import Reader, UnavailableError
from octavo.instruments.figures import Figure, Gauge, Reading
from octavo.instruments.processes import child_pids
from octavo.instruments.procfs import number_after
from octavo.instruments.target import Target
from octavo.observation import Metric

_KB = 1024.0
_BUDGET_SHARE = 0.001


class Pss:
    """Sums over the server's processes."""

    period = 30.0
    asks_server = False
    figures: tuple[Figure, ...] = (
        Gauge(Metric("process_pss_bytes", "memory of PostgreSQL's processes, shared pages counted once (Pss)", "bytes"),
              "pss", _KB),
        Gauge(Metric("process_pss_shmem_bytes", "of it, shared memory (Pss_Shmem)", "bytes"), "shmem", _KB),
    )  # fmt: skip

    def __init__(self, budget_share: float = _BUDGET_SHARE) -> None:
        self._budget = budget_share * self.period * (os.cpu_count() or 1)

    def open(self, target: Target) -> Reader:
        """Raises UnavailableError where the processes, or their memory maps, cannot be looked at."""
        root = target.postmaster
        if root is None:
            raise UnavailableError(target.no_processes)
        self._rollup(target, root)

        def read() -> Reading:
            began = time.thread_time()
            pss = shmem = 0
            for pid in (root, *child_pids(root, target.proc)):
                try:
                    text = self._rollup(target, pid)
                except (FileNotFoundError, ProcessLookupError):
                    continue
                pss += number_after(text, b"\nPss:")
                shmem += number_after(text, b"\nPss_Shmem:")
                if (spent := time.thread_time() - began) > self._budget:
                    raise UnavailableError(
                        f"reading smaps_rollup took {spent:.2f} s of CPU, more than its budget of {self._budget:.2f} s"
                    )
            return {None: {"pss": float(pss), "shmem": float(shmem)}}

        return Reader(read)

    def _rollup(self, target: Target, pid: int) -> bytes:
        try:
            return (target.proc / str(pid) / "smaps_rollup").read_bytes()
        except PermissionError as error:
            raise UnavailableError(
                "this user may not read the server's smaps_rollup; its owner and root may"
            ) from error


INSTRUMENT = Pss()

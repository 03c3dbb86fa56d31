"""What of the server's own memory is in transparent huge pages. It costs, so it is read where a plan asks for it.

Source: /proc/PID/smaps_rollup (proc_pid_smaps(5)): AnonHugePages and ShmemPmdMapped, in kB of 1024 bytes. It walks the
process's page tables, 7 ms for a touched GB, so it is read no more once it has taken more than a hundredth of the
machine's CPU time between two readings. /proc/meminfo has the same for the whole machine, foreign processes included.
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
_BUDGET_SHARE = 0.01


class ThpMapped:
    """Gauges over the server's processes."""

    period = 5.0
    asks_server = False
    figures: tuple[Figure, ...] = (
        Gauge(Metric("process_anon_huge_bytes", "private memory in transparent huge pages, all together", "bytes"),
              "anon", _KB),
        Gauge(Metric("process_shmem_huge_bytes", "shared memory mapped as huge pages, largest process", "bytes"),
              "shmem", _KB),
    )  # fmt: skip

    def open(self, target: Target) -> Reader:
        """Raises UnavailableError where the processes, or their memory maps, cannot be looked at."""
        root = target.postmaster
        if root is None:
            raise UnavailableError(target.no_processes)
        budget = _BUDGET_SHARE * self.period * (os.cpu_count() or 1)
        _rollup(target, root)

        def read() -> Reading:
            began = time.thread_time()
            anon = shmem = 0
            for pid in (root, *child_pids(root, target.proc)):
                try:
                    text = _rollup(target, pid)
                except (FileNotFoundError, ProcessLookupError):  # it has ended
                    continue
                anon += number_after(text, b"\nAnonHugePages:")
                shmem = max(shmem, number_after(text, b"\nShmemPmdMapped:"))
                if (spent := time.thread_time() - began) > budget:
                    raise UnavailableError(f"reading smaps_rollup took {spent:.2f} s of CPU, more than {budget:.2f} s")
            return {None: {"anon": float(anon), "shmem": float(shmem)}}

        return Reader(read)


def _rollup(target: Target, pid: int) -> bytes:
    try:
        return (target.proc / str(pid) / "smaps_rollup").read_bytes()
    except PermissionError as error:
        raise UnavailableError("this user may not read the server's smaps_rollup; its owner and root may") from error


INSTRUMENT = ThpMapped()

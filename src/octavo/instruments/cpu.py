"""The machine's CPU while the trial ran, and the client's share of what was used.

Source: the first line of /proc/stat, in ticks (proc_stat(5)); the client's seconds are its rusage.
"""

import os
from pathlib import Path

from octavo.instruments.base import Stop
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import Server
from octavo.workloads.base import WorkloadResult

_BUSY = Metric("cpu_busy_share", "CPU in use, share of the machine", "fraction")
_IOWAIT = Metric("cpu_iowait_share", "CPU waiting for I/O, share of the machine", "fraction")
_STEAL = Metric("cpu_steal_share", "CPU stolen by the hypervisor, share of the machine", "fraction")
_CLIENT = Metric("client_cpu_share", "the client's share of the CPU in use", "fraction")
# The order of /proc/stat's fields.
_USER, _NICE, _SYSTEM, _IDLE, _IOWAIT_FIELD, _IRQ, _SOFTIRQ, _STEAL_FIELD = range(8)


class Cpu:
    """Deltas of the machine's CPU times."""

    metrics = (_BUSY, _IOWAIT, _STEAL, _CLIENT)

    def start(self, server: Server) -> Stop:
        """Reads the CPU times now and at the stop."""
        before = _ticks()

        def stop(result: WorkloadResult) -> list[Observation]:
            delta = [after - earlier for earlier, after in zip(before, _ticks(), strict=True)]
            total = sum(delta) or 1
            busy = sum(delta[field] for field in (_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ))
            busy_seconds = busy / os.sysconf("SC_CLK_TCK")
            return [
                observe(_BUSY, busy / total),
                observe(_IOWAIT, delta[_IOWAIT_FIELD] / total),
                observe(_STEAL, delta[_STEAL_FIELD] / total),
                observe(_CLIENT, result.client_cpu_seconds / busy_seconds if busy_seconds else 0.0),
            ]

        return stop


def _ticks() -> list[int]:
    return [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]


INSTRUMENT = Cpu()

"""The machine's CPU.

Source: the first line of /proc/stat, in ticks (proc_stat(5)). The client's seconds are its rusage; the server's are in
`processes`, by role.
"""

from octavo.host.cpu_times import cpu_times
from octavo.instruments.base import Reader
from octavo.instruments.figures import ClientShare, Figure, Ratio, Reading, Total
from octavo.instruments.target import Target
from octavo.observation import Metric


class Cpu:
    """The machine's CPU times."""

    period = 1.0
    asks_server = False
    figures: tuple[Figure, ...] = (
        Ratio(Metric("cpu_busy_share", "CPU in use, share of the machine", "fraction"), "busy", "total"),
        Ratio(Metric("cpu_user_share", "CPU in programs, share of the machine", "fraction"), "user", "total"),
        Ratio(Metric("cpu_system_share", "CPU in the kernel, share of the machine", "fraction"), "system", "total"),
        Ratio(Metric("cpu_iowait_share", "CPU waiting for I/O, share of the machine", "fraction"), "iowait", "total"),
        Ratio(Metric("cpu_steal_share", "CPU stolen by the hypervisor, share of the machine", "fraction"),
              "steal", "total"),
        ClientShare(Metric("client_cpu_share", "the client's share of the CPU in use", "fraction"), "busy"),
        Total(Metric("cpu_busy_seconds", "CPU in use", "seconds"), "busy"),
    )  # fmt: skip

    def open(self, target: Target) -> Reader:
        """Always available."""

        def read() -> Reading:
            now = cpu_times(target.proc)
            return {
                None: {
                    "busy": now.busy,
                    "user": now.user + now.nice,
                    "system": now.system + now.irq + now.softirq,
                    "iowait": now.iowait,
                    "steal": now.steal,
                    "total": now.total,
                }
            }

        return Reader(read)


INSTRUMENT = Cpu()

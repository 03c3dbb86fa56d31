"""Usage of each CPU, as in mpstat -P ALL.

Source: the lines `cpuN` of /proc/stat, in ticks (proc_stat(5)). Optional: a large machine has hundreds of them.
"""

import os
import re

from octavo.host.procfs import ProcFile
from octavo.instruments.base import Reader, UnavailableError
from octavo.instruments.figures import Figure, Ratio, Reading
from octavo.instruments.target import Target
from octavo.observation import Metric

_CPU = re.compile(rb"^(cpu\d{1,6})((?: \d{1,20}){8})", re.MULTILINE)


class Cpus:
    """The times of each CPU; an item is one CPU."""

    period = 1.0
    asks_server = False
    figures: tuple[Figure, ...] = (
        Ratio(Metric("each_cpu_busy_share", "CPU in use", "fraction"), "busy", "total"),
        Ratio(Metric("each_cpu_user_share", "CPU in programs", "fraction"), "user", "total"),
        Ratio(Metric("each_cpu_system_share", "CPU in the kernel, interrupts left out", "fraction"), "system", "total"),
        Ratio(Metric("each_cpu_interrupt_share", "CPU in interrupts", "fraction"), "interrupts", "total"),
        Ratio(Metric("each_cpu_iowait_share", "CPU waiting for I/O", "fraction"), "iowait", "total"),
        Ratio(Metric("each_cpu_steal_share", "CPU stolen by the hypervisor", "fraction"), "steal", "total"),
    )

    def open(self, target: Target) -> Reader:
        """Raises UnavailableError if /proc/stat lists no CPU."""
        try:
            file = ProcFile(target.proc / "stat")
        except OSError as error:
            raise UnavailableError(f"/proc/stat cannot be read: {error.strerror}") from error

        latest = dict(parse(file.read()))
        if not latest:
            file.close()
            raise UnavailableError("/proc/stat has no line of a single CPU")

        def read() -> Reading:
            # One that is offline has no line: it keeps its counters, so that it does not begin at zero when it is back.
            latest.update({name: times for name, times in parse(file.read()).items() if name in latest})
            return dict(latest)

        return Reader(read, file.close)


def parse(text: bytes) -> Reading:
    """Seconds since boot by CPU.

    >>> parse(b"cpu  3 0 1 6 0 0 0 0 0 0\\ncpu0 100 0 0 300 0 0 0 0 0 0\\nintr 5\\n")["cpu0"]["busy"] > 0
    True
    """
    ticks_per_second = os.sysconf("SC_CLK_TCK")
    found: dict[str | None, dict[str, float]] = {}
    for name, numbers in _CPU.findall(text):
        times = [int(number) / ticks_per_second for number in numbers.split()]
        user, nice, system, _, iowait, irq, softirq, steal = times
        found[name.decode()] = {
            "busy": user + nice + system + irq + softirq,
            "user": user + nice,
            "system": system,
            "interrupts": irq + softirq,
            "iowait": iowait,
            "steal": steal,
            "total": sum(times),
        }
    return found


INSTRUMENT = Cpus()

"""The kernel threads for huge pages: khugepaged collapses small pages, kcompactd compacts memory.

Source: /proc/PID/schedstat of both (kernel Documentation/scheduler/sched-stats.rst: nanoseconds on a CPU). khugepaged
exists only while a mode of transparent huge pages needs it; otherwise its use is zero.
"""

from collections.abc import Iterator
from pathlib import Path

from octavo.host.process_table import read_process
from octavo.host.procfs import ProcFile
from octavo.instruments.base import Reader, UnavailableError
from octavo.instruments.figures import Figure, Rate, Reading, Total
from octavo.instruments.target import Target
from octavo.observation import Metric

_NANOSECOND = 1e-9
# The parent of the kernel's threads is pid 2 wherever they are visible (kernel/kthread.c).
_KTHREADD = "kthreadd"
_THREADS = ("khugepaged", "kcompactd")


class ThpThreads:
    """CPU time of khugepaged, and of kcompactd on all memory nodes."""

    period = 5.0
    asks_server = False
    figures: tuple[Figure, ...] = (
        Rate(Metric("khugepaged_cpus", "CPUs in use by khugepaged", "1"), "khugepaged", _NANOSECOND),
        Rate(Metric("kcompactd_cpus", "CPUs in use by kcompactd", "1"), "kcompactd", _NANOSECOND),
        Total(Metric("khugepaged_cpu_seconds", "CPU time of khugepaged", "s"), "khugepaged", _NANOSECOND),
        Total(Metric("kcompactd_cpu_seconds", "CPU time of kcompactd", "s"), "kcompactd", _NANOSECOND),
    )

    def open(self, target: Target) -> Reader:
        """Raises UnavailableError if the kernel's threads are not visible, as in a container."""
        if _kernel_thread("2", target.proc) != _KTHREADD:
            raise UnavailableError("kernel threads are not visible, as in a container")
        files = [
            (thread, ProcFile(path / "schedstat"))
            for path in target.proc.iterdir()
            for thread in _thread_of(path.name, target.proc)
            if (path / "schedstat").exists()
        ]

        def read() -> Reading:
            used: dict[str, float] = dict.fromkeys(_THREADS, 0.0)
            for thread, file in files:
                try:
                    used[thread] += float(file.read().split()[0])
                except ProcessLookupError:
                    raise UnavailableError(f"{thread} ended because the mode was changed") from None
            return {None: used}

        def close() -> None:
            for _, file in files:
                file.close()

        return Reader(read, close)


def _thread_of(pid: str, proc: Path) -> Iterator[str]:
    """The name of the thread if the process is one of these: kcompactd has one per memory node, with its number."""
    if pid.isdecimal() and (name := _kernel_thread(pid, proc).rstrip("0123456789")) in _THREADS:
        yield name


def _kernel_thread(pid: str, proc: Path) -> str:
    """The name of a kernel thread; empty for any other process, which can choose any name (prctl(2), PR_SET_NAME)."""
    process = read_process(int(pid), proc)
    return process.name if process is not None and process.kernel else ""


INSTRUMENT = ThpThreads()

"""Paging, swapping, faults and switches, as vmstat(8) shows them.

Source: /proc/vmstat (kernel Documentation/admin-guide/mm, include/linux/vm_event_item.h: pgpgin and pgpgout are in kB,
the rest in pages or events) and /proc/stat (proc_stat(5)).
"""

import os

from octavo.host.procfs import ProcFile, named_numbers, number_after
from octavo.instruments.base import Reader, UnavailableError
from octavo.instruments.figures import Figure, Gauge, Rate, Reading
from octavo.instruments.target import Target
from octavo.observation import Metric

_PAGE = float(os.sysconf("SC_PAGE_SIZE"))
_KEYS = tuple(
    key.encode() for key in ("pgpgin", "pgpgout", "pswpin", "pswpout", "pgfault", "pgmajfault", "pgsteal", "pgscan")
)


class Vmstat:
    """Counters of /proc/vmstat and gauges of /proc/stat."""

    period = 1.0
    asks_server = False
    figures: tuple[Figure, ...] = (
        Gauge(Metric("tasks_running", "tasks running or waiting for a CPU (r)", "1"), "procs_running", whole="mean"),
        Gauge(Metric("tasks_blocked", "tasks waiting for I/O (b)", "1"), "procs_blocked", whole="mean"),
        Rate(Metric("context_switches_per_second", "context switches a second (cs)", "1/s"), "ctxt"),
        Rate(Metric("interrupts_per_second", "interrupts a second (in)", "1/s"), "intr"),
        Rate(Metric("swapped_in_bytes_per_second", "swapped in (si)", "bytes/s"), "pswpin", _PAGE),
        Rate(Metric("swapped_out_bytes_per_second", "swapped out (so)", "bytes/s"), "pswpout", _PAGE),
        Rate(Metric("paged_in_kb_per_second", "read from all devices (bi)", "kB/s"), "pgpgin"),
        Rate(Metric("paged_out_kb_per_second", "written to all devices (bo)", "kB/s"), "pgpgout"),
        Rate(Metric("page_faults_per_second", "page faults a second", "1/s"), "pgfault"),
        Rate(Metric("major_faults_per_second", "major page faults (with I/O) a second", "1/s"), "pgmajfault"),
        Rate(Metric("pages_scanned_per_second", "pages scanned for reclaim a second", "1/s"), "pgscan"),
        Rate(Metric("pages_reclaimed_per_second", "pages reclaimed a second", "1/s"), "pgsteal"),
    )  # fmt: skip

    def open(self, target: Target) -> Reader:
        """Raises UnavailableError if the files cannot be read."""
        try:
            vmstat, stat = ProcFile(target.proc / "vmstat"), ProcFile(target.proc / "stat")
        except OSError as error:
            raise UnavailableError(f"{error.filename}: {error.strerror}") from error

        def read() -> Reading:
            events = named_numbers(vmstat.read())
            events[b"pgscan"] = events.get(b"pgscan_kswapd", 0) + events.get(b"pgscan_direct", 0)
            events[b"pgsteal"] = events.get(b"pgsteal_kswapd", 0) + events.get(b"pgsteal_direct", 0)
            found = {key.decode(): float(events[key]) for key in _KEYS if key in events}
            text = stat.read()
            for name in ("ctxt", "intr", "procs_running", "procs_blocked"):
                found[name] = float(number_after(text, f"\n{name} ".encode()))
            return {None: found}

        def close() -> None:
            vmstat.close()
            stat.close()

        return Reader(read, close)


INSTRUMENT = Vmstat()

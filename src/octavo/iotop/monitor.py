"""Reads the source of requests periodically, on a thread of its own, and sums up each interval."""

import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from octavo.host.diskstats import read_diskstats
from octavo.host.process_table import read_table, tree
from octavo.iotop.activity import Activity, ProcessActivity
from octavo.iotop.devices import device_name, whole_disks
from octavo.iotop.process_info import IO_WORKER, ProcessInfo, ProcessLookup
from octavo.iotop.process_io import AskedBytes
from octavo.iotop.request_source import RequestSource
from octavo.iotop.snapshot import RequestSnapshot, RequestSum, RowKey, busy_devices, rows_of, settled

# A process that asked and ended between two readings has no more than its name left.
_READING_SECONDS = 0.2
# /proc of every process costs more than a reading of counters.
_PROC_READING_SECONDS = 1.0


class RequestMonitor:
    """Requests from its making on; `root` narrows it down to a process and its descendants; `disks` are those whose own
    counters are shown, all when none is named."""

    def __init__(
        self, source: RequestSource, activity: Activity | None, blind: Mapping[str, str],
        *, disks: Sequence[str] = (), root: int | None = None,
    ) -> None:  # fmt: skip
        self._source, self._activity, self._blind = source, activity, dict(blind)
        self._disks, self._root = tuple(disks), root
        self._asked = AskedBytes()
        self._processes = ProcessLookup(source.command)
        self._devices: dict[int, str] = {}
        self._sums: dict[RowKey, RequestSum] = {}
        self._lock = threading.Lock()
        self._before = read_diskstats()
        self._looked, self._lost = time.monotonic(), source.lost
        self._spent = self._cpu_seconds()
        self._ending = threading.Event()
        self._reader = threading.Thread(target=self._read_on, name="octavo iotop", daemon=True)
        self._reader.start()

    def sample(self) -> RequestSnapshot:
        """The requests since the previous sample."""
        self._read()
        with self._lock:
            sums, self._sums = self._sums, {}
            readers = self._activity.in_flight.take() if self._activity else {}
        now, totals, lost = time.monotonic(), read_diskstats(), self._source.lost
        elapsed, self._looked = now - self._looked, now
        before, self._before = self._before, totals
        doing: Mapping[int, ProcessActivity] = {}
        blind = dict(self._blind)
        if self._activity:
            with self._lock:  # the reader asks over the same connection, whose transactions are one thread's
                doing = self._activity.sample()
            blind |= {"queries": self._activity.off} if self._activity.off else {}
            blind |= {"readers": self._activity.in_flight.off} if self._activity.in_flight.off else {}
        if self._root is not None:
            family = tree(self._root, read_table())
            sums = {key: total for key, total in sums.items() if key.who.pid in family or key.who.parent in family}
        postmaster = self._activity.postmaster if self._activity else None
        with self._lock:
            rows = rows_of(settled(sums, self._processes.meet), doing, postmaster, readers, self._asked.take())
            self._processes.forget(row.who.pid for row in rows if row.who.pid is not None)
        lost_now, self._lost = lost - self._lost, lost
        spent = self._cpu_seconds()
        cost, self._spent = spent - self._spent, spent
        return RequestSnapshot(
            time.time(), elapsed, self._source.name, rows,
            busy_devices(totals, before, self._disks or whole_disks()),
            blind, lost_now, cost, cost / (elapsed * (os.cpu_count() or 1)) if elapsed else 0.0,
        )  # fmt: skip

    def close(self) -> None:
        """Stops reading; the caller closes source and connection."""
        self._ending.set()
        self._reader.join()

    def _read_on(self) -> None:
        while not self._ending.wait(_PROC_READING_SECONDS if self._source.name == "proc" else _READING_SECONDS):
            with suppress(OSError):  # the next look meets it too, and tells it
                self._read()

    def _read(self) -> None:
        with self._lock:
            workers_read = False
            for one in self._source.take():
                who = self._processes.meet(one.pid)
                workers_read |= one.direction == "read" and self._is_worker(who)
                key = RowKey(who, self._name(one.device), one.direction, one.ring)
                total = self._sums.setdefault(key, RequestSum(None, 0))
                total.bytes += one.bytes
                if one.requests is not None:
                    total.requests = (total.requests or 0) + one.requests
            if workers_read and self._activity:
                self._activity.in_flight.sample()

    def _is_worker(self, who: ProcessInfo) -> bool:
        return who.role == IO_WORKER and self._activity is not None and who.parent == self._activity.postmaster

    def _name(self, device: int | None) -> str | None:
        if device is not None and device not in self._devices:
            self._devices[device] = device_name(device)
        return None if device is None else self._devices[device]

    def _cpu_seconds(self) -> float:
        ours = time.process_time() + self._source.cpu_seconds()
        return ours + (self._activity.cpu_seconds() if self._activity else 0.0)


def exists(pid: int, proc: Path = Path("/proc")) -> bool:
    """Whether there is such a process now."""
    return (proc / str(pid)).is_dir()

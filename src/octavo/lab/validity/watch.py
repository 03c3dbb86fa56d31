"""Observes the host during a trial. Counters are read once before and once after, so this costs the trial nothing."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from octavo.host.cpu_times import CpuTimes, cpu_times
from octavo.host.loop_volume import image_below
from octavo.host.page_cache import cached_bytes
from octavo.host.process_table import Table, growth, settled_table, tree
from octavo.lab.validity.surroundings import Surroundings

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class _Moment:
    realtime: float
    raw: float
    table: Table
    cpu: CpuTimes
    device_read: int | None


class Watcher:
    """Observes the host during the trials of a run. Limitations here are reported once, by `notice`.

    All children of the process `root` are ours: the server, its backends and the client are.
    """

    def __init__(self, notice: Callable[[str], None], root: int | None = None, proc: Path = _PROC) -> None:
        self._notice = notice
        self._root = os.getpid() if root is None else root
        self._proc = proc
        self._reported: set[str] = set()

    def start(self, directory: Path, *, limited: bool = False) -> Callable[[], Surroundings]:
        """Takes a reading now, and another when the returned function is called.

        `directory` has the data. `limited`: the server has a memory limit, with which its files' part of the page cache
        is then compared.
        """
        before = self._look(directory)

        def stop() -> Surroundings:
            seen, blind = _difference(before, self._look(directory), self._root)
            if limited:
                try:
                    seen["cached_bytes"] = cached_bytes(directory)
                except OSError as error:
                    blind["memory_limit"] = f"the kernel does not report what is cached ({error.strerror})"
            self._say(blind)
            return Surroundings(**seen, blind=blind)  # type: ignore[arg-type]

        return stop

    def _look(self, directory: Path) -> _Moment:
        # In the same order both times, so that the windows have the same length.
        realtime, raw = time.clock_gettime(time.CLOCK_REALTIME), time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
        table = settled_table(self._root, self._proc, storage=True)
        return _Moment(realtime, raw, table, cpu_times(self._proc), _device_read(directory))

    def _say(self, blind: dict[str, str]) -> None:
        for rule, reason in blind.items():
            if rule not in self._reported:
                self._reported.add(rule)
                self._notice(f"the validity rule {rule} is limited here: {reason}")


def _difference(before: _Moment, after: _Moment, root: int) -> tuple[dict[str, object], dict[str, str]]:
    seconds = after.raw - before.raw
    seen: dict[str, object] = {
        "seconds": seconds,
        "clock_step_seconds": after.realtime - before.realtime - seconds,
    }
    blind: dict[str, str] = {}
    ours = tree(root, after.table)
    kernel = {process.pid for process in after.table.values() if process.kernel}
    foreign = set(after.table) - ours - kernel
    used = growth(before.table, after.table, lambda process: process.all_cpu)
    machine = after.cpu.since(before.cpu)
    if kernel:
        # The work of kernel threads, such as writeback, is often caused by the trial itself.
        taken = machine.in_tasks - sum(used[pid] for pid in ours | kernel)
    else:
        taken = sum(used[pid] for pid in foreign)
        blind["foreign_cpu"] = "kernel threads are not visible (a container?), so only visible processes count"
    seen["foreign_cpu_share"] = machine.share(taken)
    seen["busiest"] = _top(foreign, used, after.table)
    seen |= _storage(before, after, ours, foreign, blind)
    return seen, blind


def _storage(
    before: _Moment, after: _Moment, ours: set[int], foreign: set[int], blind: dict[str, str]
) -> dict[str, object]:
    if any(after.table[pid].read_bytes is None for pid in ours):
        blind["foreign_io"] = "/proc/PID/io of our own processes cannot be read"
        return {}
    read = growth(before.table, after.table, lambda process: process.read_bytes or 0)
    written = growth(before.table, after.table, lambda process: process.written_bytes or 0)
    own = round(sum(read[pid] for pid in ours))
    seen: dict[str, object] = {"own_read_bytes": own}
    if before.device_read is not None and after.device_read is not None:
        # Never negative: we may also have read from another device.
        seen["foreign_read_bytes"] = max(0, after.device_read - before.device_read - own)
    else:
        blind["foreign_io"] = "the data's filesystem has no block device of its own"
    visible = {pid for pid in foreign if after.table[pid].written_bytes is not None}
    seen["foreign_written_bytes"] = round(sum(max(0.0, written[pid]) for pid in visible))
    if 2 * len(visible) < len(foreign):
        blind.setdefault("foreign_io", "other users' writes are not visible (only root may read /proc/PID/io)")
    moved = {pid: read[pid] + written[pid] for pid in visible}
    seen["busiest_with_storage"] = _top(visible, moved, after.table)
    return seen


def _top(pids: set[int], amounts: Mapping[int, float], table: Table) -> str | None:
    """The process with the largest amount; a parent includes its reaped children."""
    best = max(pids, key=lambda pid: amounts[pid], default=None)
    return str(table[best]) if best is not None and amounts[best] > 0 else None


def _device_read(directory: Path) -> int | None:
    """The bytes read so far at the device of the directory's data, by all processes.

    Below a loop device this is the device with its image, which others read, too. A volume of ours reads its image with
    direct I/O, so our reads are also counted there (loop(4); Documentation/ABI/testing/sysfs-block-loop).
    """
    from octavo._core import device_statistics

    try:
        while image := image_below(directory):
            directory = image.parent
        return device_statistics(str(directory)).read_bytes
    except (LookupError, OSError, ValueError):
        return None

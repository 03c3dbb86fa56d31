"""Reads /proc/PID/smaps_rollup of all of a server's processes, as long as it is cheap enough.

Source: proc_pid_smaps(5), Linux 4.14. It walks a process's page tables with its memory map
locked, 7 ms for a GB touched.
"""

import time
from collections.abc import Callable

from octavo.errors import OctavoError
from octavo.host.process_table import child_pids
from octavo.instruments.base import UnavailableError
from octavo.instruments.target import Target


def rollups(target: Target, budget_seconds: float) -> Callable[[], list[bytes]]:
    """Returns a function that reads the files of the current processes; one reading may use so many CPU seconds.

    Raises UnavailableError if the kernel has no such file, or the processes or their memory maps are not accessible;
    OctavoError if the server has ended. The function raises UnavailableError once a reading has exceeded the budget.
    """
    root = target.postmaster
    if root is None:
        raise UnavailableError(target.no_processes)
    try:
        _read(target, root)
    except FileNotFoundError as error:
        if not (target.proc / str(root)).is_dir():
            raise OctavoError(f"the postmaster (pid {root}) is gone") from error
        raise UnavailableError("this kernel has no smaps_rollup (Linux 4.14, CONFIG_PROC_PAGE_MONITOR)") from error

    def read() -> list[bytes]:
        began = time.thread_time()
        texts: list[bytes] = []
        for pid in (root, *child_pids(root, target.proc)):
            try:
                texts.append(_read(target, pid))
            except (FileNotFoundError, ProcessLookupError):  # it has ended
                continue
            if (spent := time.thread_time() - began) > budget_seconds:
                raise UnavailableError(
                    f"reading smaps_rollup took {spent:.2f} s of CPU, more than its budget of {budget_seconds:.2f} s"
                )
        return texts

    return read


def _read(target: Target, pid: int) -> bytes:
    try:
        return (target.proc / str(pid) / "smaps_rollup").read_bytes()
    except PermissionError as error:
        raise UnavailableError("this user may not read the server's smaps_rollup; its owner and root may") from error

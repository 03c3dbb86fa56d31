"""System calls that Python has no name for: perf_event_open(2), bpf(2), and a tracefs of one's own.

Numbers: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h of the kernel.
"""

import ctypes
import os
import platform
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

_NUMBERS = {
    "x86_64": {"perf_event_open": 298, "bpf": 321},
    "aarch64": {"perf_event_open": 241, "bpf": 280},
}
# Calls since Linux 5.1 have the same number on every architecture.
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_FSCONFIG_CMD_CREATE = 6
_CLOEXEC = 1

_libc = ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: object) -> int:
    """Makes the system call and returns its result. Raises OSError when it fails."""
    result: int = _libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def number_of(name: str) -> int:
    """The number of a call on this machine. Raises OSError for an unknown architecture."""
    numbers = _NUMBERS.get(platform.machine())
    if numbers is None:
        raise OSError(f"the system call number of {name} on {platform.machine()} is unknown")
    return numbers[name]


@contextmanager
def tracefs() -> Generator[Path, None, None]:
    """Yields a directory with the kernel's tracefs: where it is mounted, else a private mount that is removed in any
    case (fsmount(2)). Raises OSError when it is refused.
    """
    mounted = Path("/sys/kernel/tracing")
    if (mounted / "events").is_dir():
        yield mounted
        return
    with _closing(call(_FSOPEN, b"tracefs", _CLOEXEC)) as filesystem:
        call(_FSCONFIG, filesystem, _FSCONFIG_CMD_CREATE, None, None, 0)
        mount = call(_FSMOUNT, filesystem, _CLOEXEC, 0)
    with _closing(mount):
        yield Path(f"/proc/self/fd/{mount}")


@contextmanager
def _closing(descriptor: int) -> Generator[int, None, None]:
    try:
        yield descriptor
    finally:
        with suppress(OSError):
            os.close(descriptor)

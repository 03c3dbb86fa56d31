"""The part of a directory's files that is in the page cache: counts it (cachestat(2), Linux 6.5 and later) and drops
it."""

import ctypes
import os
from pathlib import Path

from octavo.host.trees import open_files

# The number is the same on all architectures but Alpha (the kernel's scripts/syscall.tbl and syscall_64.tbl).
_CACHESTAT = 451


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Counts(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted"))


def cached_bytes(directory: Path) -> int:
    """Bytes of the files below the directory that are in the page cache, whoever read them.

    Raises OSError where the kernel cannot tell: it is older, or the files are not ours.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    return sum(cached_pages(descriptor) * page for descriptor in open_files(directory))


def forget(directory: Path) -> None:
    """Gives up the clean pages of the files below the directory (posix_fadvise(2), POSIX_FADV_DONTNEED).

    It needs no root, unlike drop_caches.
    """
    for descriptor in open_files(directory):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def cached_pages(descriptor: int, offset: int = 0, length: int = 0) -> int:
    """Pages of a range of the file that are in the page cache; a length of 0 is all that follows.

    Raises OSError where the kernel cannot tell: it is older, or the file is not ours.
    """
    asked, counts = _Range(offset, length), _Counts()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_CACHESTAT, descriptor, ctypes.byref(asked), ctypes.byref(counts), 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cachestat: {os.strerror(number)}")
    return int(counts.cache)

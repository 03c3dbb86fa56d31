"""Breaks free memory into pieces smaller than a huge page: `python fragment_holder.py BYTES HUGE_PAGE RESERVE KIND`.

It is a separate program, because its memory is freed as soon as it ends, for whatever reason; it ends with its input.
It fills BYTES of memory with small pages, reads their physical addresses in /proc/self/pagemap (proc_pid_pagemap(5);
only CAP_SYS_ADMIN sees frame numbers), keeps some pages in each huge page's range, and frees all others.

`pinned` keeps one page in each huge page's range and puts it into a pipe as well (vmsplice(2)): because of that
reference, which is not a mapping's, the kernel cannot move it (mm/compaction.c, isolate_migratepages_block). `movable`
keeps every eighth page: compaction can move them. All are locked (mlock2(2)), so that none is swapped out.
"""

import array
import ctypes
import fcntl
import json
import os
import resource
import select
import sys
from pathlib import Path
from typing import Any

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PIECE = 32 * 1024**2
_KEPT_OF = 8  # movable: one page out of so many
_FRAME = (1 << 55) - 1  # pagemap: bits 0 to 54 are the frame number
# include/uapi/asm-generic/mman-common.h, mman.h
_READ_WRITE, _PRIVATE_ANONYMOUS_NORESERVE, _ON_FAULT = 3, 0x4022, 1
_NOT_HUGE, _POPULATE, _FREE_LOCKED = 15, 23, 24
_SEGMENTS = 1024  # IOV_MAX

_libc: Any = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.mlock2.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint]


class _Segment(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def chosen(frames: "array.array[int]", pages: int, kind: str) -> list[int]:
    """The pages to keep, as indexes into `frames`, in order. A huge page has so many `pages`.

    >>> chosen(array.array("Q", [8, 9, 515, 10, 11, 12, 13, 14, 15, 16]), 8, "pinned")
    [0, 2, 9]
    >>> chosen(array.array("Q", [8, 9, 515, 10, 11, 12, 13, 14, 15, 16]), 8, "movable")
    [0, 9]
    """
    if kind == "movable":
        return [place for place, frame in enumerate(frames) if frame % _KEPT_OF == 0]
    # Keep the first of each: the last assignment stays in a dictionary, so iterate backwards.
    backwards = range(len(frames) - 1, -1, -1)
    return sorted({frames[place] // pages: place for place in backwards}.values())


def _checked(result: int | None, doing: str) -> int:
    if result is None or result < 0 or result == ctypes.c_size_t(-1).value:
        raise OSError(ctypes.get_errno(), f"{doing}: {os.strerror(ctypes.get_errno())}")
    return result


def _filled(address: int, most: int, reserve: int) -> int:
    """Fills memory and returns the bytes, at most `most`; stops when less than the reserve would be left."""
    done = 0
    while done < most and _free() > reserve:
        if select.select([sys.stdin], [], [], 0)[0]:  # nothing is ever written to it
            sys.exit("its input ended while it filled memory")
        piece = min(_PIECE, most - done)
        _checked(_libc.madvise(address + done, piece, _POPULATE), "MADV_POPULATE_WRITE (Linux 5.14)")
        done += piece
    return done


def _free() -> int:
    """MemFree in bytes (proc_meminfo(5))."""
    with Path("/proc/meminfo").open("rb") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(b"MemFree:"))


def _frames(address: int, size: int) -> "array.array[int]":
    found = array.array("Q")
    with Path("/proc/self/pagemap").open("rb", buffering=0) as file:
        file.seek(address // _PAGE * 8)
        while missing := size // _PAGE - len(found):
            entries = array.array("Q", file.read(min(missing * 8, 1 << 20)))
            found.extend(entry & _FRAME for entry in entries)
    if not all(found):
        raise OSError(1, "/proc/self/pagemap does not show where pages are: it takes CAP_SYS_ADMIN")
    return found


def _pin(addresses: list[int]) -> list[int]:
    """Puts these pages into pipes and returns their write ends."""
    most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    largest = int(Path("/proc/sys/fs/pipe-max-size").read_text())
    pipes: list[int] = []
    waiting = addresses
    while waiting:
        reading, writing = os.pipe()
        pipes += [reading, writing]
        slots = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, largest) // _PAGE
        mine, waiting = waiting[:slots], waiting[slots:]
        for first in range(0, len(mine), _SEGMENTS):
            part = mine[first : first + _SEGMENTS]
            segments = (_Segment * len(part))(*(_Segment(address, _PAGE) for address in part))
            if _checked(_libc.vmsplice(writing, segments, len(part), 0), "vmsplice") != len(part) * _PAGE:
                raise OSError(5, "vmsplice: the pipe took fewer pages than it has room for")
    return pipes


def main() -> None:
    """Fills memory, frees a part, prints what is held, and waits until its input ends."""
    most, huge, reserve, kind = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    Path("/proc/self/oom_score_adj").write_text("1000")  # if memory runs out nevertheless, this process is killed first
    address = _checked(_libc.mmap(None, most, _READ_WRITE, _PRIVATE_ANONYMOUS_NORESERVE, -1, 0), "mmap")
    _libc.madvise(address, most, _NOT_HUGE)  # fails on a kernel without huge pages, where it is not needed
    _checked(_libc.mlock2(address, most, _ON_FAULT), "mlock2")
    filled = _filled(address, most, reserve)
    frames = _frames(address, filled)
    kept = chosen(frames, huge // _PAGE, kind)
    del frames
    pipes = _pin([address + place * _PAGE for place in kept]) if kind == "pinned" else []
    begin = 0
    for place in [*kept, filled // _PAGE]:
        if place > begin:
            _checked(
                _libc.madvise(address + begin * _PAGE, (place - begin) * _PAGE, _FREE_LOCKED),
                "MADV_DONTNEED_LOCKED (Linux 5.18)",
            )
        begin = place + 1
    print(json.dumps({"filled": filled, "held": len(kept) * _PAGE}), flush=True)
    sys.stdin.buffer.read()
    del pipes


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(error.strerror)

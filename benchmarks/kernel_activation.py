"""Whether this kernel counts a write as an access of the page cache: how many pages of a file are active afterwards.

    .venv/bin/python -m benchmarks.kernel_activation [--directory .]

Pages are written or read, and /proc/kpageflags shows which of them are active. Then, in a memory group of 48 MB, pages
that had been evicted are read or written again. In the simulated page cache two reads make a page active, and so does
one read of a page that was evicted shortly before; writes never do (docs/trace.md, "Writes"). Needs root, and a disk.
"""

import argparse
import ctypes
import mmap
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from octavo.host import cgroup
from octavo.host.journal import Journal

PAGE = mmap.PAGESIZE
MANY = 256
_PRESENT = 1 << 63
_NUMBER = (1 << 55) - 1
_ACTIVE = 1 << 6
_MEMORY = 48 << 20


def main() -> None:
    """Prints a row for each way to use the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, default=Path())
    asked = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # accesses are batched in a list per CPU
    with tempfile.TemporaryDirectory(dir=asked.directory) as directory:
        for times in (1, 2, 8):
            show(f"written {times} times", Path(directory, f"written-{times}"), written, times)
        for times in (1, 2):
            show(f"read {times} times", Path(directory, f"read-{times}"), read, times)
        sys.stdout.flush()
        with Journal() as journal, cgroup.group("kernel-activation", journal, memory=_MEMORY) as group:
            child = os.fork()
            if child == 0:
                try:  # an error must not reach the parent's context managers, which would remove what it still uses
                    (group / "cgroup.procs").write_text(str(os.getpid()))
                    for name, use in (("read", read), ("written", written)):
                        come_back(Path(directory, f"back-{name}"), name, use)
                    sys.stdout.flush()
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
                os._exit(0)
            failed = os.waitpid(child, 0)[1] != 0
        if failed:
            sys.exit(1)


def show(name: str, path: Path, use: Callable[[int, int], None], times: int) -> None:
    """Uses the pages of a new, cold file that many times."""
    descriptor = cold(path, MANY)
    for _ in range(times):
        use(descriptor, MANY)
    others = cold(path.with_suffix(".others"), 64)  # these accesses flush the CPU's list of batched ones
    for _ in range(2):
        read(others, 64)
    print(f"{name:44} {active(descriptor, MANY):5} of {MANY} pages active")


def come_back(path: Path, name: str, use: Callable[[int, int], None]) -> None:
    """Uses pages again that others have evicted, in a group with too little memory."""
    sizes = [megabytes * 1024**2 // PAGE for megabytes in (16, 4, 24)]
    often, once, many = (cold(path.with_suffix(f".{number}"), pages) for number, pages in enumerate(sizes))
    for _ in range(3):
        read(often, sizes[0])
    read(once, sizes[1])
    read(many, sizes[2])
    use(once, sizes[1])
    os.fsync(once)
    read(many, 64)
    print(f"{f'had left, is {name}':44} {active(once, sizes[1]):5} of {sizes[1]} pages active")


def cold(path: Path, pages: int) -> int:
    """A file that is on the disk only, to be read without readahead."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    for place in range(pages):
        os.pwrite(descriptor, os.urandom(PAGE), place * PAGE)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    return descriptor


def written(descriptor: int, pages: int) -> None:
    """Writes each page once."""
    for place in range(pages):
        os.pwrite(descriptor, b"x" * PAGE, place * PAGE)


def read(descriptor: int, pages: int) -> None:
    """Reads each page once."""
    for place in range(pages):
        os.pread(descriptor, PAGE, place * PAGE)


def active(descriptor: int, pages: int) -> int:
    """How many of a file's first pages are active. Mapping them is no access until they are unmapped."""
    with (
        mmap.mmap(descriptor, pages * PAGE) as mapped,
        Path("/proc/self/pagemap").open("rb", buffering=0) as numbers,
        Path("/proc/kpageflags").open("rb", buffering=0) as flags,
    ):

        def entry(file: FileIO, place: int) -> int:
            return int.from_bytes(os.pread(file.fileno(), 8, 8 * place), sys.byteorder)

        first = ctypes.addressof(ctypes.c_char.from_buffer(mapped)) // PAGE
        found = 0
        for place in range(pages):
            _ = mapped[place * PAGE]
            number = entry(numbers, first + place)
            found += bool(number & _PRESENT and entry(flags, number & _NUMBER) & _ACTIVE)
        return found


if __name__ == "__main__":
    main()

"""The granularity of the page cache under a trial's data: the kernel's own memory page, or XFS blocks as a stand-in.

The page cache reads a file in units of at least the kernel's memory page and at least the filesystem's block: XFS
mounts blocks larger than the memory page since Linux 6.12 (mkfs.xfs(8)). So a machine with 4 kB pages can read like one
with 64 kB pages. Both are XFS here, so that nothing else differs. Every trial records what the stand-in does not
reproduce; the achieved unit is measured by one small read of a cold file.
"""

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from octavo.errors import OctavoError
from octavo.factor import Factor, one_of
from octavo.host.journal import Journal
from octavo.host.page_cache import cached_bytes, forget
from octavo.knobs import filesystem
from octavo.knobs.base import AS_FOUND, Achieved, KnobTarget
from octavo.units import format_size, parse_size

LEVELS = ("4kB", "8kB", "16kB", "32kB", "64kB")
# XFS's default block, which every machine can mount whatever its memory page.
_SMALLEST_BLOCK = 4096
_NOT_COPIED = "a stand-in for reads: TLB, page tables, anonymous memory and writes are not those of such a kernel"
_FILE_BYTES = 1024**2


def filesystem_of(level: str) -> str | None:
    """The filesystem with this granularity on this host, or None for `as-found`.

    If the memory page is that large, XFS with its smallest block suffices.
    """
    if level == AS_FOUND:
        return None
    size = parse_size(level)
    return f"xfs/{format_size(size if size > memory_page() else _SMALLEST_BLOCK)}"


def memory_page() -> int:
    """The kernel's memory page in bytes."""
    return os.sysconf("SC_PAGE_SIZE")


def granularity(directory: Path) -> int:
    """The unit in which the page cache reads files of this directory: memory page or filesystem block, in bytes."""
    return max(memory_page(), os.statvfs(directory).f_bsize)


def measured(directory: Path) -> int:
    """The bytes that one cold read of a few bytes adds to the page cache, without readahead.

    Writes a file of 1 MB into the directory and removes it. Raises OSError if the kernel cannot report it (before 6.5).
    """
    place = directory / f"page-cache-{secrets.token_hex(4)}"
    place.mkdir(mode=0o700)
    file = place / "file"
    try:
        with file.open("wb") as out:
            out.write(os.urandom(_FILE_BYTES))
            out.flush()
            os.fsync(out.fileno())
        forget(place)
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
            before = cached_bytes(place)
            os.pread(descriptor, 512, _FILE_BYTES // 2)
            return cached_bytes(place) - before
        finally:
            os.close(descriptor)
    finally:
        file.unlink(missing_ok=True)
        place.rmdir()


class PageCache:
    """Checks the unit that the volume has achieved; `device` creates the volume, with `filesystem_of`."""

    factor = Factor("page_cache", "run", "unit in which the page cache reads", AS_FOUND, one_of(AS_FOUND, *LEVELS))

    def cannot(self, level: str, place: KnobTarget) -> str | None:
        """The granularity is never finer than the memory page; a coarser one needs a kernel and tools for such XFS."""
        size, page = parse_size(level), memory_page()
        if size < page:
            return f"the page cache cannot have smaller units than the memory page, which is {format_size(page)} here"
        return filesystem.cannot(filesystem_of(level) or "native")

    @contextmanager
    def applied(self, level: str, journal: Journal, place: KnobTarget) -> Generator[Achieved, None, None]:
        """Changes nothing. Raises OctavoError when the page cache reads in another unit than requested."""
        page = memory_page()
        try:
            seen = measured(place.directory)
        except OSError:
            seen = granularity(place.directory)
        if seen != parse_size(level):
            raise OctavoError(f"page_cache: {level} requested, but the page cache reads in {format_size(seen)} here")
        by = f"XFS blocks, {_NOT_COPIED}" if seen > page else "the kernel's memory page"
        yield Achieved(level, f"{format_size(seen)} by {by}", f"{format_size(page)} by the kernel's memory page")


KNOB = PageCache()

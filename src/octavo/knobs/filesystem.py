"""The filesystem under a trial's data directory, on a private volume: ext4 or XFS with any block.

Sources: mkfs.ext4(8), mkfs.xfs(8). XFS mounts blocks larger than the memory page since Linux 6.12, and the page cache
then works in folios of at least that size: a stand-in for a machine with larger memory pages, for reads. It overstates
writes, because a filesystem block is dirty as a whole. ext4 does so since Linux 6.19.
"""

import os
import re

from octavo.errors import UsageError
from octavo.factor import Factor
from octavo.host.loop_volume import cannot_make
from octavo.units import format_size, parse_size

_BLOCKS = {"ext4": (1024, 65536), "xfs": (1024, 65536)}
_DEFAULT_BLOCK = 4096
# The first kernel that mounts blocks above its memory page.
_LARGE_BLOCKS_SINCE = {"ext4": (6, 19), "xfs": (6, 12)}


def parse_filesystem(level: str) -> tuple[str, int] | None:
    """The type and the block in bytes, or None for `native`. Raises UsageError.

    >>> parse_filesystem("xfs/64kB"), parse_filesystem("ext4")
    (('xfs', 65536), ('ext4', 4096))
    """
    if level == "native":
        return None
    kind, slash, block = level.partition("/")
    try:
        size = parse_size(block) if slash else _DEFAULT_BLOCK
    except UsageError:
        size = 0
    low, high = _BLOCKS.get(kind, (1, 0))
    if not low <= size <= high or size & (size - 1):
        raise UsageError("allowed: native, ext4 or xfs, each with its block, such as ext4/1kB or xfs/64kB")
    return kind, size


def _check(text: str) -> str:
    parsed = parse_filesystem(text)
    if parsed is None or "/" not in text:
        return text
    return f"{parsed[0]}/{format_size(parsed[1])}"


FACTOR = Factor("filesystem", "run", "filesystem of the data", "native", _check)


def cannot(level: str) -> str | None:
    """Why this host cannot mount the filesystem, or None."""
    parsed = parse_filesystem(level)
    if parsed is None:
        return None
    kind, block = parsed
    if reason := cannot_make(kind):
        return reason
    page, since = os.sysconf("SC_PAGE_SIZE"), _LARGE_BLOCKS_SINCE[kind]
    if block > page and _kernel() < since:
        return f"{kind} with blocks above the memory page of {format_size(page)} needs Linux {since[0]}.{since[1]}"
    return None


def _kernel() -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return (int(match[1]), int(match[2])) if match else (0, 0)

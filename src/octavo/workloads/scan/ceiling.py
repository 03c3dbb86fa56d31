"""The storage's best rate for the blocks of a scan, measured by `octavo io`, which only reads them, with the server's
limits on its device and memory.

Each policy is the fastest on some device; the fastest of them on this device is the limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import OctavoError
from octavo.io.target import own_segments
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import Server
from octavo.units import parse_size
from octavo.workload_support.storage_reader import block_list, read_alike
from octavo.workloads.base import Levels
from octavo.workloads.scan.table import keys_of

_MB = 1024**2
# O_DIRECT requires offsets that are multiples of the device's logical sector; no disk has larger ones than this.
_DIRECT_ALIGNMENT = 4096
# After a cold start this share of the file may still be cached; above it the rate is not a limit of the storage.
_STILL_COLD = 0.01


@dataclass(frozen=True, slots=True)
class _Way:
    """One way of reading: the largest request in bytes, and the requests in flight (0: one pread after the other)."""

    metric: Metric
    most: int
    depth: int = 0
    direct: bool = False
    cold: bool = True


def _metric(name: str, how: str) -> Metric:
    return Metric(f"limit_{name}_mb_per_second", f"octavo io on the same blocks, {how}", "MB/s", "higher")


_COLD = (
    _Way(_metric("plain", "one request of up to 1 MB after the other"), _MB),
    _Way(_metric("queued", "32 requests of up to 1 MB in flight"), _MB, depth=32),
    _Way(_metric("direct", "32 requests of up to 1 MB in flight, O_DIRECT"), _MB, depth=32, direct=True),
)
_WARM = (_Way(_metric("cached", "requests of up to 128 kB from the page cache"), 128 * 1024, cold=False),)

LIMIT = Metric("limit_mb_per_second", "octavo io's best rate on the same blocks", "MB/s", "higher")
SHARE = Metric("limit_share", "share of octavo io's best rate on the same blocks", "fraction", "higher")
METRICS = (SHARE, LIMIT, *(way.metric for way in (*_COLD, *_WARM)))


def ceiling(server: Server, levels: Levels, mb_per_second: float | None) -> tuple[Observation, ...]:
    """The limit on this server's own files, each way cold or warm like the cell; and the scan's share of it.

    Ways that this kernel or filesystem does not support are skipped. Raises OctavoError when none works.
    """
    files, lines = _files_and_blocks(server, levels)
    block = parse_size(levels["data_block"])
    found: list[Observation] = []
    problem: OctavoError | None = None
    with block_list(server.journal, lines) as blocks:
        for way in _COLD if levels["cache"] == "cold" else _WARM:
            if way.direct and block % _DIRECT_ALIGNMENT:
                continue
            try:
                result, _ = read_alike(server, files, _options(way, block, blocks))
            except OctavoError as error:
                problem = error
                continue
            # Of a file that is not as cold as required, the rate is not the storage's.
            if way.cold and (result["cached_share"] or 0.0) > _STILL_COLD:
                continue
            found.append(observe(way.metric, result["bytes_per_second"] / _MB))
    if not found:
        if problem is not None:
            raise problem
        return ()
    limit = max(each.value for each in found)
    share = [] if mb_per_second is None else [observe(SHARE, mb_per_second / limit)]
    return (*share, observe(LIMIT, limit), *found)


def ranges(blocks: Sequence[int]) -> list[str]:
    """Ascending block numbers as the lines of a block list, one range of neighbours per line.

    >>> ranges([1, 2, 3, 7])
    ['1-3', '7-7']
    """
    lines: list[str] = []
    first = last = -1
    for block in (*blocks, -1):
        if block != last + 1 or first < 0:
            if first >= 0:
                lines.append(f"{first}-{last}")
            first = block
        last = block
    return lines


def _files_and_blocks(server: Server, levels: Levels) -> tuple[list[Path], list[str]]:
    """The table's files, and as lines of a block list all blocks in order, or those that a bitmap heap scan visits:
    those with a matching row, in order."""
    connection = server.connection
    row = connection.execute("SELECT pg_relation_filepath('scanned') AS path").fetchone()
    assert row is not None
    files = own_segments(server.directory, str(row["path"]), server.account)
    if levels["query"] == "seq-scan":
        block = parse_size(levels["data_block"])
        return files, [f"0-{sum(file.stat().st_size // block for file in files) - 1}"]
    visited = connection.execute(
        "SELECT DISTINCT (ctid::text::point)[0]::bigint AS block FROM scanned WHERE key < %s ORDER BY 1",
        (keys_of(levels["share"]),),
    ).fetchall()
    return files, ranges([row["block"] for row in visited])


def _options(way: _Way, block: int, blocks: Path) -> list[str]:
    """The command line of `octavo io`, which visits the blocks of a list once."""
    policy = ["io_uring-coalesced", "--depth", str(way.depth)] if way.depth else ["coalesced"]
    return [
        "--pattern", "list", "--block-list", str(blocks), "--block", f"{block}B",
        "--policy", *policy, "--max-request", f"{max(block, way.most)}B",
        *(["--direct"] if way.direct else ["--cache", "cold" if way.cold else "warm"]),
    ]  # fmt: skip

"""The storage's best rate for the blocks of a scan, measured by `octavo io`'s engine, which only reads them.

Each policy is the fastest on some device; the fastest of them on this device is the limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from octavo.errors import OctavoError
from octavo.io.engine import measure
from octavo.io.job import Job
from octavo.io.target import own_segments
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import Server
from octavo.units import parse_size
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


def _metric(name: str, how: str) -> Metric:
    return Metric(f"limit_{name}_mb_per_second", f"octavo io on the same blocks, {how}", "MB/s", "higher")


_COLD = (
    _Way(_metric("plain", "one request of up to 1 MB after the other"), _MB),
    _Way(_metric("queued", "32 requests of up to 1 MB in flight"), _MB, depth=32),
    _Way(_metric("direct", "32 requests of up to 1 MB in flight, O_DIRECT"), _MB, depth=32, direct=True),
)
_WARM = (_Way(_metric("cached", "requests of up to 128 kB from the page cache"), 128 * 1024),)

LIMIT = Metric("limit_mb_per_second", "octavo io's best rate on the same blocks", "MB/s", "higher")
SHARE = Metric("limit_share", "share of octavo io's best rate on the same blocks", "fraction", "higher")
METRICS = (SHARE, LIMIT, *(way.metric for way in (*_COLD, *_WARM)))


def ceiling(server: Server, levels: Levels, mb_per_second: float | None) -> tuple[Observation, ...]:
    """The limit on this server's own files, each way cold or warm like the cell; and the scan's share of it.

    Ways that this kernel or filesystem does not support are skipped. Raises OctavoError when none works.
    """
    job = _job(server, levels)
    found: list[Observation] = []
    problem: OctavoError | None = None
    for way in _COLD if levels["cache"] == "cold" else _WARM:
        if way.direct and job.block % _DIRECT_ALIGNMENT:
            continue
        try:
            rate = _rate(way, job)
        except OctavoError as error:
            problem = error
            continue
        if rate is not None:
            found.append(observe(way.metric, rate))
    if not found:
        if problem is not None:
            raise problem
        return ()
    limit = max(each.value for each in found)
    share = [] if mb_per_second is None else [observe(SHARE, mb_per_second / limit)]
    return (*share, observe(LIMIT, limit), *found)


def ranges(blocks: Sequence[int]) -> str:
    """Ascending block numbers in the engine's list format, one range of neighbours per line.

    >>> ranges([1, 2, 3, 7])
    '1-3\\n7-7'
    """
    lines: list[str] = []
    first = last = -1
    for block in (*blocks, -1):
        if block != last + 1 or first < 0:
            if first >= 0:
                lines.append(f"{first}-{last}")
            first = block
        last = block
    return "\n".join(lines)


def _job(server: Server, levels: Levels) -> Job:
    """All blocks in order, or the blocks that a bitmap heap scan visits, those with a matching row, in order."""
    connection = server.connection
    row = connection.execute("SELECT pg_relation_filepath('scanned') AS path").fetchone()
    assert row is not None
    paths = tuple(str(path) for path in own_segments(server.directory, str(row["path"]), server.account))
    cache = "cold" if levels["cache"] == "cold" else "warm"
    job = Job(paths, parse_size(levels["data_block"]), "sequential", joining="coalesced", cache=cache, once=True)
    if levels["query"] == "seq-scan":
        return job
    visited = connection.execute(
        "SELECT DISTINCT (ctid::text::point)[0]::bigint AS block FROM scanned WHERE key < %s ORDER BY 1",
        (keys_of(levels["share"]),),
    ).fetchall()
    return replace(job, pattern="list", block_list=ranges([row["block"] for row in visited]))


def _rate(way: _Way, job: Job) -> float | None:
    """The rate in MB per second; None when the file was not as cold as required."""
    asking = {"method": "ring", "depth": way.depth} if way.depth else {}
    most = max(1, way.most // job.block)
    outcome = measure(replace(job, most=most, direct=way.direct, **asking), _unwatched)
    cached = 0 if outcome.cached_bytes is None else outcome.cached_bytes
    if job.cache == "cold" and cached > _STILL_COLD * outcome.file_bytes:
        return None
    return outcome.blocks * job.block / outcome.seconds / _MB


def _unwatched(doing: str, share: float, done: int) -> None:
    """Ignores progress."""

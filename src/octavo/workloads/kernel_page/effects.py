"""The two costs of a larger unit of the page cache, separately: more reads than needed, and larger reads.

A volume that limits requests and bytes separately serves n reads of b bytes in total in max(n / requests, b / bytes)
seconds. The reads that a run needs, the reads that it makes at one block each, and the reads at their real size give
three times, whose differences are the two effects (docs/experiments/kernel-page.md).
"""

from dataclasses import dataclass

from octavo.host.block_limit import DeviceLimits
from octavo.knobs.volume_types import VolumeType


@dataclass(frozen=True, slots=True)
class TwoEffects:
    """Milliseconds of a run: the time of its reads at the volume's limits on requests and on bytes, and the two
    effects. None without such a limit."""

    requests_ms: float | None
    bytes_ms: float | None
    more_reads_ms: float
    larger_reads_ms: float


def limits_of(volume: VolumeType | None, seconds: float) -> DeviceLimits | None:
    """The limits of a volume that apply for all of so many seconds; None if they change meanwhile, or there are none.

    Burst limits count if the credits would last even at the highest rate.
    """
    if volume is None or volume.highest == DeviceLimits():
        return None
    burst = volume.burst
    if burst is None or volume.baseline.requests is None:
        return volume.baseline
    if burst.credits == 0:
        return volume.baseline
    return volume.highest if burst.credits > (burst.requests - volume.baseline.requests) * seconds else None


def two_effects(limits: DeviceLimits, *, needed: float, done: float, done_bytes: float, block: int) -> TwoEffects:
    """The effects for a run that needs so many reads of a block, and makes a different number; the first one is
    negative if it makes fewer, because neighbours are read together. Sizes in bytes.

    >>> two_effects(DeviceLimits(1000, 8_192_000), needed=0, done=1000, done_bytes=16_384_000, block=8192)
    TwoEffects(requests_ms=1000.0, bytes_ms=2000.0, more_reads_ms=1000.0, larger_reads_ms=1000.0)
    """
    as_needed = _milliseconds(limits, needed, needed * block)
    as_many = _milliseconds(limits, done, done * block)
    as_large = _milliseconds(limits, done, done_bytes)
    return TwoEffects(
        None if limits.requests is None else done / limits.requests * 1e3,
        None if limits.bytes is None else done_bytes / limits.bytes * 1e3,
        as_many - as_needed,
        as_large - as_many,
    )


def _milliseconds(limits: DeviceLimits, requests: float, amount: float) -> float:
    by_requests = 0.0 if limits.requests is None else requests / limits.requests
    by_bytes = 0.0 if limits.bytes is None else amount / limits.bytes
    return max(by_requests, by_bytes) * 1e3

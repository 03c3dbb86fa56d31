"""A volume's current limits: its I/O credits, and the share that reads leave to writes.

Pure functions of the elapsed time and the requests served since then; they return the limits for the next interval.
"""

from dataclasses import dataclass

from octavo.host.block_limit import DeviceLimits
from octavo.knobs.volume_types import VolumeType


@dataclass(frozen=True, slots=True)
class DeviceTotals:
    """A device's counters since some moment: requests and bytes, read and written."""

    reads: float = 0.0
    writes: float = 0.0
    read_bytes: float = 0.0
    written_bytes: float = 0.0

    def since(self, before: "DeviceTotals") -> "DeviceTotals":
        """The difference."""
        return DeviceTotals(
            self.reads - before.reads,
            self.writes - before.writes,
            self.read_bytes - before.read_bytes,
            self.written_bytes - before.written_bytes,
        )


class CreditMeter:
    """The credits of one volume, and its limits."""

    def __init__(self, volume: VolumeType) -> None:
        self._volume = volume
        self.credits = volume.burst.credits if volume.burst else 0.0

    def account(self, seconds: float, served: DeviceTotals) -> None:
        """Subtracts the served requests from the bucket, and adds the credits earned meanwhile.

        The kernel sometimes lets slightly more through than its limit: negative credits are a debt, repaid later.
        """
        burst, baseline = self._volume.burst, self._volume.baseline.requests
        if burst is not None and baseline is not None:
            earned = baseline * seconds - (served.reads + served.writes)
            self.credits = min(burst.bucket, self.credits + earned)

    def allowed(self, seconds: float) -> DeviceLimits:
        """The limits for reads and writes together in the next period of this length."""
        baseline, burst = self._volume.baseline, self._volume.burst
        if burst is None or baseline.requests is None:
            return baseline
        # The remaining credits are spread over the period, so that no more than these can be spent.
        requests = min(burst.requests, max(baseline.requests / 2, baseline.requests + self.credits / seconds))
        bytes_a_second = burst.bytes if burst.bytes is not None and self.credits > 0 else baseline.bytes
        return DeviceLimits(requests, bytes_a_second)


def shared(total: DeviceLimits, served: DeviceTotals, seconds: float) -> tuple[DeviceLimits, DeviceLimits]:
    """Splits the total into a limit for reads and one for writes: each gets what the other leaves, but always at least
    half.

    The kernel limits reads and writes separately; a volume does not.
    """
    reads = DeviceLimits(
        _left(total.requests, served.writes / seconds), _left(total.bytes, served.written_bytes / seconds)
    )
    writes = DeviceLimits(
        _left(total.requests, served.reads / seconds), _left(total.bytes, served.read_bytes / seconds)
    )
    return reads, writes


def _left(total: float | None, others: float) -> float | None:
    return None if total is None else max(total / 2, total - others)

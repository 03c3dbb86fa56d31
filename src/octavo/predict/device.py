"""The performance of a device: a named volume, or the document of `octavo io probe --format json`."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.errors import UsageError, cannot_read
from octavo.host.safe_read import read_text
from octavo.knobs.volume_types import parse_device

_MOST = 4 * 1024**2


@dataclass(frozen=True, slots=True)
class Device:
    """The limits of a device: requests and bytes per second, and seconds per request without queueing. None means no
    limit or unknown. A request is at most `largest_request` bytes; larger ones count as several."""

    name: str
    requests: float | None = None
    bytes: float | None = None
    latency: float | None = None
    latency_bytes: float | None = None
    largest_request: int | None = None
    cpu: float | None = None
    """CPU seconds of a read of a few kB that bypasses the page cache."""
    is_throttled: bool = False
    """Its limits are set by Linux (block/blk-throttle.c), as for a run's devices: reads and writes wait in separate
    queues (throtl_service_queue). The flush of a volatile write cache, which fdatasync sends after the write
    (blkdev_issue_flush), is a request without data among the writes, also where the limit is divided between reads and
    writes (knobs/enforcer.py). A device without such a cache has no flush requests; loop devices have one."""

    @property
    def requests_a_sync(self) -> float:
        """Requests per commit of WAL: the write, and the flush where it counts as one."""
        return 2.0 if self.is_throttled else 1.0

    @property
    def is_known(self) -> bool:
        """Whether any of its limits is known."""
        return self.requests is not None or self.bytes is not None or self.latency is not None

    @property
    def is_limited(self) -> bool:
        """Whether a request rate or a byte rate is known."""
        return self.requests is not None or self.bytes is not None

    def seconds(self, requests: float, amount: float) -> float:
        """How long the device is busy with so many requests and bytes, in seconds.

        >>> Device("x", requests=1000.0, bytes=10e6).seconds(2, 8192), Device("x").seconds(5, 1)
        (0.002, 0.0)
        """
        if self.largest_request and requests:
            requests = max(requests, amount / self.largest_request)
        by_requests = requests / self.requests if self.requests else 0.0
        by_bytes = amount / self.bytes if self.bytes else 0.0
        return max(by_requests, by_bytes)

    def waited(self, requests: float, amount: float) -> float:
        """Seconds of latency of so many requests, one after the other."""
        if self.latency is None:
            return 0.0
        return requests * self.latency + (amount / self.latency_bytes if self.latency_bytes else 0.0)


def device_of(text: str | None, option: str = "--device") -> Device:
    """The device that an option names: a level of the factor `device`, a file of `octavo io probe`, or an unknown
    device for None. Raises UsageError, which names the option."""
    if text is None or text == "native":
        return Device("native")
    if Path(text).suffix == ".json":
        return _probed(Path(text))
    try:
        volume = parse_device("".join(text.split()))
    except UsageError as error:
        raise UsageError(f"{option} {text}: {error}; or a file of octavo io probe --format json") from None
    if volume is None:
        return Device("native")
    return Device(volume.level, volume.baseline.requests, volume.baseline.bytes, None, None, volume.largest_request)


def _probed(path: Path) -> Device:
    try:
        found: Any = json.loads(read_text(path, _MOST))
        line: dict[str, Any] = found["latency_line"] or {}
        return Device(
            f"probed {path.name}",
            _number(found["requests_per_second_ceiling"]),
            _number(found["bytes_per_second_ceiling"]),
            _number(line["latency_us"]) / 1e6 if line else None,
            _number(line["bytes_per_second"]) if line else None,
            cpu=None if (cpu := found.get("cpu_us_per_read")) is None else _number(cpu) / 1e6,
        )
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}; octavo io probe --format json makes it"
        raise cannot_read(error, message) from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise UsageError(f"{path} is not an output of octavo io probe --format json; make a new one") from None


def _number(value: Any) -> float:
    """A finite number that is not negative. Raises ValueError for anything else."""
    number = float(value)
    if not 0 <= number < math.inf:
        raise ValueError(f"{value!r} is not such a number")
    return number

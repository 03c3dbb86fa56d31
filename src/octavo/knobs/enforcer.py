"""Keeps a device at a volume's limits while a trial runs: a thread that adjusts them five times a second."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from octavo.errors import OctavoError
from octavo.host.block_limit import DeviceLimits, Throttle
from octavo.knobs.credits import CreditMeter, DeviceTotals, shared
from octavo.knobs.volume_types import VolumeType

PERIOD_SECONDS = 0.2
# A smaller change of a limit is not written, because every write makes the kernel begin a new slice.
_LEAST_CHANGE = 0.03
_SECTOR = 512


def served_by(device: str, sys: Path = Path("/sys")) -> DeviceTotals:
    """The device's counters (kernel Documentation/block/stat.rst: reads, merges, sectors, ms, then the same for
    writes).

    Raises ValueError when there are fewer.
    """
    fields = [int(field) for field in (sys / "block" / device / "stat").read_bytes().split()]
    if len(fields) < 7:
        raise ValueError(f"{device} has {len(fields)} counters")
    return DeviceTotals(fields[0], fields[4], fields[2] * _SECTOR, fields[6] * _SECTOR)


class Enforcer:
    """A context manager. Its credits are counted from its entry."""

    def __init__(
        self,
        volume: VolumeType,
        throttle: Throttle,
        counters: Callable[[], DeviceTotals],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._volume, self._throttle, self._counters, self._clock = volume, throttle, counters, clock
        self._meter = CreditMeter(volume)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="device limits", daemon=True)
        self._problem: Exception | None = None
        self._now: tuple[DeviceLimits, DeviceLimits] | None = None
        self._setting = threading.Lock()
        self._paused = False
        self._spent_after: float | None = None
        self._began = self._at = 0.0
        self._before = DeviceTotals()

    def __enter__(self) -> Self:
        self.begin()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        if kind is None and self._problem is not None:
            raise OctavoError(f"device limits: {self._problem}") from self._problem

    def begin(self) -> None:
        """Starts counting now, with the limits of the volume's initial credits. It may be called again."""
        with self._setting:
            self._meter = CreditMeter(self._volume)
            self._spent_after = None
            self._began = self._at = self._clock()
            self._before = self._counters()
            total = self._meter.allowed(PERIOD_SECONDS)
            self._set(total, total)

    def step(self) -> None:
        """Accounts for the requests served since the last step, and adjusts the limits. Does nothing while paused."""
        with self._setting:
            if not self._paused:
                self._step()

    def pause(self) -> None:
        """Holds back requests to the device until `resume`, except for the smallest limit that the kernel accepts: a
        request or a byte a second."""
        most = self._volume.highest
        least = DeviceLimits(None if most.requests is None else 1, None if most.bytes is None else 1)
        with self._setting:
            if not self._paused:
                self._step()
                self._paused = True
                self._throttle.limit(least, least)

    def resume(self) -> None:
        """Restores the previous limits. The pause counts neither for nor against the volume's credits."""
        with self._setting:
            if self._paused:
                self._paused = False
                self._at, self._before = self._clock(), self._counters()
                assert self._now is not None
                self._throttle.limit(*self._now)

    def _step(self) -> None:
        now, served = self._clock(), self._counters()
        seconds = now - self._at
        if seconds <= 0:
            return
        done = served.since(self._before)
        self._at, self._before = now, served
        self._meter.account(seconds, done)
        if self._volume.burst and self._meter.credits <= 0 and self._spent_after is None:
            self._spent_after = now - self._began
        self._set(*shared(self._meter.allowed(PERIOD_SECONDS), done, seconds))

    def credits(self) -> float:
        """The remaining credits, 0 for a debt."""
        return max(0.0, self._meter.credits)

    def facts(self) -> dict[str, Any]:
        """The remaining credits, and the seconds until they were first used up, if they were."""
        if self._volume.burst is None:
            return {}
        return {"credits_left": round(max(0.0, self._meter.credits)), "credits_spent_after_seconds": self._spent_after}

    def _set(self, reads: DeviceLimits, writes: DeviceLimits) -> None:
        if self._now is None or _moved(self._now[0], reads) or _moved(self._now[1], writes):
            self._throttle.limit(reads, writes)
            self._now = reads, writes

    def _run(self) -> None:
        try:
            while not self._stop.wait(PERIOD_SECONDS):
                self.step()
        except (OSError, OctavoError, ValueError) as error:
            self._problem = error


def _moved(before: DeviceLimits, now: DeviceLimits) -> bool:
    pairs = ((before.requests, now.requests), (before.bytes, now.bytes))
    return any(old is not None and new is not None and abs(new - old) > _LEAST_CHANGE * old for old, new in pairs)

"""Limits on a block device: requests and bytes a second, for reads and for writes each.

cgroup version 1: `blkio.throttle.*` at the root of the hierarchy (Documentation/admin-guide/cgroup-v1/
blkio-controller.rst), because a limit on a child group does not hold for writeback; the device has to be a private one.
The limit outlives the loop device's image and would affect the next user of the device. It is therefore journaled, and
any limit left on a device is removed when the device is attached (`lift`). cgroup version 2: `io.max` of the server's
group (Documentation/admin-guide/cgroup-v2.rst), which after a kill goes with the group.
"""

import os
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from octavo.errors import HostError, OctavoError
from octavo.host import cgroup
from octavo.host.journal import Journal
from octavo.host.kernel_value import KernelValue, changed


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """Requests and bytes a second; None where there is no limit."""

    requests: float | None = None
    bytes: float | None = None

    def whole(self) -> tuple[int | None, int | None]:
        """As the kernel takes them: whole, and at least 1 (0 would mean none)."""
        requests = None if self.requests is None else max(1, round(self.requests))
        return requests, None if self.bytes is None else max(1, round(self.bytes))


class Throttle(Protocol):
    """A device whose limits can be changed while it is in use."""

    def limit(self, reads: DeviceLimits, writes: DeviceLimits) -> None:
        """Sets the limits. Raises OctavoError when the kernel refuses them."""
        ...


def cannot_limit(root: Path = cgroup.ROOT) -> str | None:
    """Why this host cannot limit a device, or None."""
    if os.geteuid() != 0:
        return "a device limit needs root"
    if _version_1(root):
        return None
    if cgroup.version_2("io", root) is None:
        return "this host has no cgroup controller for devices (blkio or io)"
    if cgroup.version_2("memory", root) is None:  # by which writeback is charged to a group
        return "a device limit holds for writes only with the cgroup controller memory, which this host has turned off"
    return None


def needs_group(root: Path = cgroup.ROOT) -> bool:
    """Whether the server has to be started in a group for a device limit to hold for it (version 2)."""
    return not _version_1(root)


@contextmanager
def throttled(
    number: str, most: DeviceLimits, journal: Journal, group: Path | None = None, root: Path = cgroup.ROOT
) -> Generator[Throttle, None, None]:
    """The device (`major:minor`) with these limits, which may be lowered and raised again up to `most` meanwhile."""
    if not _version_1(root):
        if group is None:
            raise HostError("a device limit on cgroup version 2 needs the group in which the server was started")
        unified = Unified(group / "io.max", number)
        try:
            yield unified
        finally:  # the group goes on: its server has none before the trial, and ends without one
            unified.limit(DeviceLimits(), DeviceLimits())
        return
    requests, bytes_a_second = most.whole()
    with ExitStack() as stack:
        values: dict[str, KernelValue] = {}
        throttle = _PerFile(values)
        for name, limit in (("iops", requests), ("bps", bytes_a_second)):
            for direction in ("read", "write") if limit is not None else ():
                path = _version_1_file(root, direction, name)
                value = KernelValue(path, "device", number)
                stack.enter_context(changed(value, str(limit), journal, ours=(1, limit or 0), ours_later=True))
                values[f"{direction} {name}"] = value
        stack.callback(throttle.end)
        yield throttle


def lift(number: str, root: Path = cgroup.ROOT) -> None:
    """Takes every limit off a device (`major:minor`) that was just attached, before anything uses it.

    The kernel keeps a limit by the device's number, also while nothing is attached: one that is found on a new device
    was meant for the one before, whose journal is lost. On version 2 limits are a group's, and go with it.
    """
    if not _version_1(root):
        return
    for name in ("iops", "bps"):
        for direction in ("read", "write"):
            value = KernelValue(_version_1_file(root, direction, name), "device", number)
            if value.read():
                _write(value, "")


class _PerFile:
    """The files of version 1. After `end` nothing is written: a thread that an interrupt has left running still asks.

    What it wrote after the values were put back would stay on the device's number.
    """

    def __init__(self, values: Mapping[str, KernelValue]) -> None:
        self._values = values
        self._writing = threading.Lock()
        self._ended = False

    def limit(self, reads: DeviceLimits, writes: DeviceLimits) -> None:
        with self._writing:
            if self._ended:
                return
            for direction, limits in (("read", reads), ("write", writes)):
                for name, wanted in zip(("iops", "bps"), limits.whole(), strict=True):
                    value = self._values.get(f"{direction} {name}")
                    if value is not None and wanted is not None:
                        _write(value, str(wanted))

    def end(self) -> None:
        with self._writing:
            self._ended = True


@dataclass(frozen=True, slots=True)
class Unified:
    """A line of an io.max file."""

    file: Path
    number: str

    def limit(self, reads: DeviceLimits, writes: DeviceLimits) -> None:
        """Sets the four limits in one line."""
        (riops, rbps), (wiops, wbps) = reads.whole(), writes.whole()
        wanted = {"rbps": rbps, "wbps": wbps, "riops": riops, "wiops": wiops}
        words = (f"{name}={'max' if limit is None else limit}" for name, limit in wanted.items())
        _write(KernelValue(self.file, "device", self.number), " ".join(words))


def _write(value: KernelValue, text: str) -> None:
    try:
        value.write(text)
    except OSError as error:
        raise OctavoError(f"the kernel refuses {text!r} for {value}: {error.strerror}") from error


def _version_1(root: Path) -> bool:
    return _version_1_file(root, "read", "bps").exists()


def _version_1_file(root: Path, direction: str, name: str) -> Path:
    return root / "blkio" / f"blkio.throttle.{direction}_{name}_device"

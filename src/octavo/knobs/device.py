"""The device under a trial's data: native, or a named volume that is enforced on a private loop device.

Order: `volume` before the data are copied, `limited` when the server is warm. Before that a short probe (`measured`)
checks the limits while nothing else uses the device, and the enforcer maintains them until the trial's end.
"""

import json
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.factor import Factor
from octavo.host import block_limit, cgroup, children
from octavo.host.block_limit import DeviceLimits
from octavo.host.journal import Journal
from octavo.host.kernel_value import KernelValue, changed
from octavo.host.loop_volume import SMALLEST_BYTES, Volume, cannot_make, loop_volume
from octavo.knobs import burst_balance, filesystem, page_cache, probe
from octavo.knobs.base import AS_FOUND
from octavo.knobs.enforcer import Enforcer, served_by
from octavo.knobs.volume_types import EBS_REQUEST, VolumeType, check_device, parse_device

FACTOR = Factor("device", "run", "device under the data", "native", check_device)

_PROBE_BYTES = 32 * 1024**2
# What a filesystem of ext4 or XFS takes for itself, at every block: at most 120 MB of 1 GB, 2.9 % of 26 GB and 2.7 % of
# 200 GB (mkfs.ext4 1.47 with -m 0, mkfs.xfs 6.1).
_FILESYSTEM_BYTES, _FILESYSTEM_SHARE = 192 * 1024**2, 0.03
# The sizes of a probe's requests: the smallest that no device reads around, and the largest that counts as one request.
_SMALL, _LARGE = 4096, EBS_REQUEST
_TOLERANCE = 0.05
_DEFAULT_FILESYSTEM = "ext4/4kB"
# A rate above any device's, for a volume without limits that is sometimes paused.
_NO_LIMIT = DeviceLimits(requests=2.0**31)
Levels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LimitedDevice:
    """A device with its limits in force. `facts` are for the trial and complete when the limits end. `enforcer` is None
    if there are no limits and the device is never paused."""

    facts: dict[str, Any]
    enforcer: Enforcer | None = None

    def refill(self) -> None:
        """Restores the volume's initial credits when the trial starts: those used before it do not count."""
        if self.enforcer is not None:
            self.enforcer.begin()


_Probes = dict[str, dict[str, Any]]


def needs_volume(levels: Levels) -> bool:
    """Whether the data of a cell are on a private volume."""
    return levels.get("device", "native") != "native" or _chosen_filesystem(levels) != "native"


def is_limited(levels: Levels) -> bool:
    """Whether the cell's device has limits."""
    device = parse_device(levels.get("device", "native"))
    return device is not None and device.highest != DeviceLimits()


def pauses_with_cell(levels: Levels) -> bool:
    """Whether a cell that is measured in slices is paused together with its device: a device of its own on which it
    waits, because of its limits or because its memory is too small for its data."""
    return needs_volume(levels) and (is_limited(levels) or levels.get("memory", "none") != "none")


def volume_bytes(content: int) -> int:
    """The size of a volume for so many bytes of data: a tenth more, the probe's file, and the filesystem's overhead."""
    free = content + content // 10 + _PROBE_BYTES
    return max(SMALLEST_BYTES, int((free + _FILESYSTEM_BYTES) / (1 - _FILESYSTEM_SHARE)))


def cannot(levels: Levels) -> str | None:
    """Why this host cannot provide a cell's filesystem and device, or None."""
    if not needs_volume(levels):
        return None
    kind = _filesystem(levels)
    if levels.get("page_cache", AS_FOUND) != AS_FOUND and levels.get("filesystem", "native") != "native":
        return "page_cache chooses the filesystem; leave the factor filesystem out"
    return (
        filesystem.cannot(kind)
        or (block_limit.cannot_limit() if is_limited(levels) else None)
        or cannot_make(kind.partition("/")[0])
    )


@contextmanager
def volume(levels: Levels, content: int, journal: Journal) -> Generator[Volume | None, None, None]:
    """A private volume with room for so many bytes of data, mounted and empty; None if the cell needs none. A limited
    device on the native filesystem is ext4 with 4 kB blocks. Raises HostError when there is no room.
    """
    if not needs_volume(levels):
        yield None
        return
    parsed = filesystem.parse_filesystem(_filesystem(levels))
    assert parsed is not None  # native needs no volume
    kind, block = parsed
    device = parse_device(levels.get("device", "native"))
    with loop_volume(volume_bytes(content), kind, block, journal) as made, ExitStack() as stack:
        if device is not None and device.largest_request is not None:
            # Any new queue limit makes the kernel set its readahead again, so this comes before all knobs.
            readahead = KernelValue(made.queue / "read_ahead_kb")
            most = KernelValue(made.queue / "max_sectors_kb")
            stack.enter_context(changed(most, str(device.largest_request // 1024), journal, moves=[readahead]))
        yield made


def needs_group(levels: Levels, root: Path = cgroup.ROOT) -> bool:
    """Whether the server has to start in a group for its device limit to apply: on cgroup version 2."""
    return is_limited(levels) and block_limit.needs_group(root)


def measured(level: str, place: Volume | None, journal: Journal, group: Path | None = None) -> dict[str, Any]:
    """Measures whether the volume's limits hold; afterwards they are lifted again. Returns facts for the trial:
    `device_limit_asked` and `device_limit_achieved` are requests and bytes per second by name, which the validity rule
    `device_limit` compares. Empty without limits.

    Nothing else may use the device meanwhile. A server would: in the WAL regime `steady` a checkpoint is always under
    way, writes most where blocks are large, and would make just those trials invalid. Raises OctavoError when the
    kernel refuses a limit.
    """
    device = parse_device(level)
    if device is None or place is None or device.highest == DeviceLimits():
        return {}
    file = place.directory / "probe"
    _write_probe_file(file)
    try:
        with block_limit.throttled(place.number, device.highest, journal, group) as throttle:
            throttle.limit(device.highest, device.highest)
            asked, achieved = measure_achieved(device.highest, file, journal, group)
    finally:
        file.unlink()
    return {"device_limit_asked": asked, "device_limit_achieved": achieved}


@contextmanager
def limited(
    level: str, place: Volume | None, journal: Journal, group: Path | None = None, *, pausable: bool = False
) -> Generator[LimitedDevice, None, None]:
    """Applies the volume's limits within the context. A volume without limits has an enforcer only if it must be
    `pausable`. Raises OctavoError when the kernel refuses a limit."""
    device = parse_device(level)
    facts: dict[str, Any] = {"device": level}
    if place is not None:
        facts["volume"] = place.as_dict()
    if device is None or device.highest == DeviceLimits():
        device = VolumeType(level, _NO_LIMIT) if pausable else None
    if device is None or place is None:
        yield LimitedDevice(facts)
        return
    with ExitStack() as stack:
        throttle = stack.enter_context(block_limit.throttled(place.number, device.highest, journal, group))
        enforcer = stack.enter_context(Enforcer(device, throttle, lambda: served_by(place.device)))
        if device.burst is not None:
            stack.enter_context(burst_balance.published(place.number, enforcer.credits))
        try:
            yield LimitedDevice(facts, enforcer)
        finally:
            facts |= enforcer.facts()


def measure_achieved(
    limits: DeviceLimits, file: Path, journal: Journal, group: Path | None = None
) -> tuple[dict[str, float], dict[str, float]]:
    """The expected rates of small and large requests under these limits, and the rates that a probe of the file
    achieved.

    It measures requests of two sizes, for a second each, or five if the limit is a few requests per second; reads and
    writes at the same time, because each have their own limit. A rate that is off by more than 5 % is measured once
    more, alone, because any machine stalls at times; the closer one counts.
    """
    asked = expected(limits)
    achieved = _rates(_at_once(_probes(asked)), file, journal, group)
    off = {name: rate for name, rate in asked.items() if abs(achieved[name] - rate) > _TOLERANCE * rate}
    for name, rate in _rates([{name: one} for name, one in _probes(off).items()], file, journal, group).items():
        achieved[name] = min(rate, achieved[name], key=lambda one: abs(one - asked[name]))
    return asked, achieved


def _rates(probes: Sequence[_Probes], file: Path, journal: Journal, group: Path | None) -> dict[str, float]:
    """The rate of each probe."""
    if not probes:
        return {}
    command: list[str | Path] = [sys.executable, "-I", "-S", Path(probe.__file__), file, json.dumps(probes)]
    groups = [] if group is None else [group]
    finished = children.check(
        children.run(command, journal, role="device probe", groups=groups), "the probe of the device"
    )
    rates: dict[str, float] = json.loads(finished.stdout)
    return {name: rate * (_LARGE if "bytes" in name else 1) for name, rate in rates.items()}


def _probes(asked: Mapping[str, float]) -> _Probes:
    """How to probe each rate: requests of `size` bytes, `depth` at a time, for so many `seconds`."""
    probes: _Probes = {}
    for name, rate in asked.items():
        size = _LARGE if "bytes" in name else _SMALL
        requests = rate / size if "bytes" in name else rate
        probes[name] = {
            "size": size,
            "write": name.startswith("writ"),
            "seconds": min(5.0, max(1.0, 50 / requests)),
            "depth": round(min(32, max(8, requests / 50))),
        }
    return probes


def _at_once(probes: _Probes) -> list[_Probes]:
    """Combines reads and writes of the same size."""
    by_size: dict[int, _Probes] = {}
    for name, one in probes.items():
        by_size.setdefault(one["size"], {})[name] = one
    return list(by_size.values())


def probe_seconds(levels: Levels) -> float:
    """How long the probe of a limited device takes before each trial, without repetitions; 0 without limits."""
    device = parse_device(levels.get("device", "native"))
    if device is None or device.highest == DeviceLimits():
        return 0.0
    together = _at_once(_probes(expected(device.highest)))
    return sum(probe.LEAD_SECONDS + max(one["seconds"] for one in group.values()) for group in together)


def expected(limits: DeviceLimits) -> dict[str, float]:
    """The rates of requests of 4 kB and of 256 kB under these limits, for reads and for writes.

    Without a limit on requests only large ones are measured: the number of small ones would depend on the probe's own
    CPU, and adds nothing about the limit on bytes. Without a limit on bytes only small ones are measured: the rate of
    large ones would be that of the device below.

    >>> expected(DeviceLimits(1000, 100 * 2**20))["reads_per_second"]
    1000
    >>> expected(DeviceLimits(100, 100 * 2**20))["read_bytes_per_second"]
    26214400
    >>> expected(DeviceLimits(100, None))
    {'reads_per_second': 100, 'writes_per_second': 100}
    """
    if limits == DeviceLimits():
        return {}
    infinite = float("inf")
    requests = infinite if limits.requests is None else limits.requests
    amount = infinite if limits.bytes is None else limits.bytes
    small, large = min(requests, amount / _SMALL), min(amount, requests * _LARGE)
    of_small = {} if limits.requests is None else {"reads_per_second": small, "writes_per_second": small}
    of_large = {} if limits.bytes is None else {"read_bytes_per_second": large, "written_bytes_per_second": large}
    return of_small | of_large


def _filesystem(levels: Levels) -> str:
    level = _chosen_filesystem(levels)
    return _DEFAULT_FILESYSTEM if level == "native" else level


def _chosen_filesystem(levels: Levels) -> str:
    """The factor's level, or the filesystem for the required granularity of the page cache."""
    return page_cache.filesystem_of(levels.get("page_cache", AS_FOUND)) or levels.get("filesystem", "native")


def _write_probe_file(file: Path) -> None:
    """Writes the file past the page cache, durably, before any limit is in force."""
    chunk = os.urandom(1024**2)
    with file.open("wb") as out:
        for _ in range(_PROBE_BYTES // len(chunk)):
            out.write(chunk)
        out.flush()
        os.fsync(out.fileno())
        os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

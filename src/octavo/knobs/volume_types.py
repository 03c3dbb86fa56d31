"""Levels of the factor `device`: named volumes and their limits, as published by their vendors.

gp2 and gp3: Amazon EBS User Guide, "General Purpose SSD volumes" (sizes in GiB, throughput in MiB/s, which are the GB
and MB of this product). A request of up to 256 KiB counts as one. gp2 gives 3 requests a second and GiB, at least 100
and at most 16,000; below 1,000 GiB it bursts to 3,000 while its bucket of I/O credits lasts, which holds 5.4 million,
full at first, and refills at the baseline rate. Its throughput is 128 MiB/s up to 170 GiB, 250 MiB/s from 334 GiB on,
between them 250 MiB/s while there are credits, and then that of its baseline: throughput is requests times their size,
which is at most 256 KiB. `sata-ssd`: 8b/10b coding leaves 600 million bytes a second of a 6 Gbit/s link (Serial ATA
specification), drives reach 560 million and about 90,000 requests of 4 kB (data sheets of 2.5-inch SSDs). `hdd`: 7,200
turns a minute are 4.17 ms to half a turn; with 8.5 ms for an average seek that makes 79 random requests a second, here
80, and 160 million bytes a second in sequence (makers' data sheets). Both are typical drives of their kind, not a
particular model. The kernel lets whole requests through in slices of 0.1 s (block/blk-throttle.c), so that 79 a second
came out as 70.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from octavo.errors import UsageError
from octavo.host.block_limit import DeviceLimits

_MB = 1024**2
EBS_REQUEST = 256 * 1024
_BUCKET = 5.4e6
_BURST = 3000.0
_FIRST_WITHOUT_CREDITS = 1000  # GB: from there on the baseline is no less than the burst
_ALLOWED = (
    "allowed: native, loop (a private device without limits), gp2:SIZE in GB with ,credits=N, gp3:IOPS/MBPS, sata-ssd, "
    "hdd, or iops=N,mbps=N (one or both)"
)

_RAID = (
    "Octavo creates no RAID array; put OCTAVO_HOME on one and use device = native (octavo host shows its stripe), or "
    "count what a stripe does to requests: octavo vm run --kernel-page 4kB -- count-stripes"
)


@dataclass(frozen=True, slots=True)
class Burst:
    """A bucket of I/O credits, which pay for requests above the baseline."""

    requests: float
    credits: float
    bucket: float
    bytes: float | None = None  # the throughput while there are credits, if it differs


@dataclass(frozen=True, slots=True)
class VolumeType:
    """A volume's permanent limits, its limits while credits last, and the largest request that counts as one.

    The limits are for reads and writes together, as volumes have them.
    """

    level: str
    baseline: DeviceLimits
    burst: Burst | None = None
    largest_request: int | None = None

    @property
    def highest(self) -> DeviceLimits:
        """The highest limits that it ever has."""
        if self.burst is None:
            return self.baseline
        return DeviceLimits(self.burst.requests, self.burst.bytes or self.baseline.bytes)

    @property
    def at_first(self) -> DeviceLimits:
        """Its limits while its first credits last."""
        return self.highest if self.burst is None or self.burst.credits else self.baseline


def parse_device(text: str) -> VolumeType | None:
    """The volume that a level names, or None for `native`. Raises UsageError with the allowed levels.

    >>> parse_device("gp2:600").baseline.requests, parse_device("gp2:600").burst.requests
    (1800.0, 3000.0)
    >>> parse_device("gp3:3000/125").baseline
    DeviceLimits(requests=3000.0, bytes=131072000.0)
    """
    match text:
        case "native":
            return None
        case "loop":
            return VolumeType(text, DeviceLimits())
        case "sata-ssd":
            return VolumeType(text, DeviceLimits(90_000.0, 560e6))
        case "hdd":
            return VolumeType(text, DeviceLimits(80.0, 160e6))
        case _ if re.match(r"raid|md|stripe|dm", text):
            raise UsageError(_RAID)
        case _:
            return _gp2(text) or _gp3(text) or _explicit(text)


def known_volume(level: str) -> VolumeType | None:
    """The volume of a stored run's level; None for `native`, and for the device name of an imported run."""
    try:
        return parse_device(level)
    except UsageError:
        return None


def as_achieved(limits: DeviceLimits, rates: Mapping[str, float]) -> DeviceLimits:
    """The rates that a probe achieved under these limits (`device_limit_achieved` of a trial's facts), if lower.

    >>> as_achieved(DeviceLimits(1000.0, None), {"reads_per_second": 950.0, "writes_per_second": 970.0})
    DeviceLimits(requests=970.0, bytes=None)
    """

    def less(limit: float | None, *names: str) -> float | None:
        got = max((rates[name] for name in names if name in rates), default=0.0)
        return min(limit, got) if limit is not None and got else limit

    return DeviceLimits(
        less(limits.requests, "reads_per_second", "writes_per_second"),
        less(limits.bytes, "read_bytes_per_second", "written_bytes_per_second"),
    )


def check_device(text: str) -> str:
    """The level in its canonical spelling. Raises UsageError."""
    volume = parse_device("".join(text.split()))
    return "native" if volume is None else volume.level


def _gp2(text: str) -> VolumeType | None:
    match = re.fullmatch(r"gp2:(\d{1,5})(?:,credits=(\d{1,7}))?", text)
    if match is None:
        return None
    size, credits = int(match[1]), float(match[2] or _BUCKET)
    if not 1 <= size <= 16384 or credits > _BUCKET:
        raise UsageError(f"a gp2 volume has 1 to 16384 GB and at most {_BUCKET:.0f} credits")
    baseline = min(max(3.0 * size, 100.0), 16_000.0)
    slow, fast = 128.0 * _MB, 250.0 * _MB
    level = f"gp2:{size}" + (f",credits={int(credits)}" if match[2] else "")
    if size >= _FIRST_WITHOUT_CREDITS:
        if match[2]:
            raise UsageError(
                f"a gp2 volume of {_FIRST_WITHOUT_CREDITS} GB or more has no credits: its baseline is {baseline:g} "
                f"IOPS; write gp2:{size}"
            )
        return VolumeType(level, DeviceLimits(baseline, fast), None, EBS_REQUEST)
    between = 170 < size < 334
    burst = Burst(_BURST, credits, _BUCKET, fast if between else None)
    steady = baseline * EBS_REQUEST if between else slow if size <= 170 else fast
    return VolumeType(level, DeviceLimits(baseline, steady), burst, EBS_REQUEST)


def _gp3(text: str) -> VolumeType | None:
    match = re.fullmatch(r"gp3:(\d{4,6})/(\d{3,5})", text)
    if match is None:
        return None
    requests, throughput = int(match[1]), int(match[2])
    if requests < 3000 or throughput < 125 or throughput > requests / 4:
        raise UsageError("a gp3 volume has at least 3000 IOPS and 125 MB/s, and at most 0.25 MB/s for each of its IOPS")
    return VolumeType(text, DeviceLimits(float(requests), float(throughput * _MB)), None, EBS_REQUEST)


def _explicit(text: str) -> VolumeType:
    given: dict[str, int] = {}
    for part in text.split(","):
        match = re.fullmatch(r"(iops|mbps)=([1-9]\d{0,6})", part)
        if match is None or match[1] in given:
            raise UsageError(_ALLOWED)
        given[match[1]] = int(match[2])
    requests, throughput = given.get("iops"), given.get("mbps")
    return VolumeType(
        ",".join(f"{name}={given[name]}" for name in ("iops", "mbps") if name in given),
        DeviceLimits(
            None if requests is None else float(requests), None if throughput is None else float(throughput * _MB)
        ),
    )

"""The documented limits of cloud volumes: requests and bytes per second, by kind and size.

A machine does not see the type of its volume; the disk's model and size leave a few candidates. Sources: Amazon EBS
volume types; "Azure managed disk types", "Managed disk bursting" (MB are 10^6 bytes there), "Performance tiers for
managed disks" and "Enable on-demand bursting"; Google Cloud, "About Persistent Disk performance" (a baseline plus an
amount per GiB) and "Hyperdisk performance limits". The names that disks report: the udev rules of azure-vm-utils,
Google's "disk symlinks", and NVMe on EC2.
"""

from dataclasses import dataclass

MIB, GIB, MB = 1024**2, 1024**3, 10**6


@dataclass(frozen=True, slots=True)
class VolumeKind:
    """One kind at one size: its sustained limits, its burst limits, and the requests that a full burst bucket holds.

    `more` is the command that raises its limits. `largest_request` bytes count as one request; 0 if size does not
    matter.
    """

    name: str
    requests: float
    bytes_per_second: float
    more: str
    burst_requests: float = 0
    burst_bytes_per_second: float = 0
    bucket: float = 0
    largest_request: int = 0

    @property
    def bytes_for_good(self) -> float:
        """The sustained bytes per second: less than the limit if the requests for them are only available in a
        burst."""
        if not self.largest_request:
            return self.bytes_per_second
        return min(self.bytes_per_second, self.requests * self.largest_request)

    def lasts(self, requests: float) -> float:
        """Seconds until a full bucket is empty at so many requests per second."""
        return self.bucket / (requests - self.requests)


@dataclass(frozen=True, slots=True)
class Cloud:
    """A provider's volume: its name, its kinds at this size, and the command that shows its limits."""

    name: str
    kinds: tuple[VolumeKind, ...]
    shows: str


# The largest size in GiB, the requests and MB per second of each tier of Azure's premium SSD. Up to P20 they can burst.
_PREMIUM = (
    ("P4", 32, 120, 25), ("P6", 64, 240, 50), ("P10", 128, 500, 100), ("P15", 256, 1100, 125), ("P20", 512, 2300, 150),
    ("P30", 1024, 5000, 200), ("P40", 2048, 7500, 250), ("P50", 4096, 7500, 250), ("P60", 8192, 16000, 500),
    ("P70", 16384, 18000, 750), ("P80", 32767, 20000, 900),
)  # fmt: skip
_BURSTS_UP_TO, _LARGER_TIERS_ABOVE, _HALF_AN_HOUR = 512, 4096, 1800


def cloud_of(platform: str | None, vendor: str, model: str, size: int) -> Cloud | None:
    """The provider of a volume, by the machine's platform and the disk's vendor and model; None for any other disk.

    A cloud machine's local disk is not a volume.
    """
    if model == "Amazon Elastic Block Store":
        return _amazon(size / GIB)
    if (vendor, model) == ("Google", "PersistentDisk") or model == "nvme_card-pd":
        return _google(size / GIB)
    # Hyper-V uses these names everywhere.
    if platform == "azure" and ((vendor, model) == ("Msft", "Virtual Disk") or model == "MSFT NVMe Accelerator v1.0"):
        return _azure(size / GIB)
    return None


def _amazon(size: float) -> Cloud:
    baseline = min(16_000.0, max(100.0, 3 * size))
    throughput = (128 if size <= 170 else 250) * MIB
    more = "aws ec2 modify-volume --volume-id VOLUME --volume-type gp3 --iops {:.0f} --throughput 500"
    # Above 170 GiB and below 334 GiB it has 250 MiB/s while its credits last: 256 KiB a request, of 3 a second and GiB.
    gp2 = VolumeKind(
        "gp2", baseline, throughput, more.format(max(6000.0, 2 * baseline)), 3000 if baseline < 3000 else 0,
        bucket=5_400_000, largest_request=256 * 1024,
    )  # fmt: skip
    return Cloud(
        "Amazon EBS",
        (VolumeKind("gp3 (default performance)", 3000, 125 * MIB, more.format(6000)), gp2),
        "nvme amzn stats DEVICE   # ebs_volume_performance_exceeded_iops and _tp; nvme-cli 2.13 and later",
    )


def _azure(size: float) -> Cloud:
    at = next((number for number, row in enumerate(_PREMIUM) if size <= row[1]), len(_PREMIUM) - 1)
    tier, _, requests, megabytes = _PREMIUM[at]
    kind, update = f"premium SSD ({tier})", "az disk update --resource-group GROUP --name DISK"
    # The tiers above 4,096 GiB are for larger disks only.
    better = next(
        (
            name
            for name, most, rate, _ in _PREMIUM[at + 1 :]
            if rate > requests and (most <= _LARGER_TIERS_ABOVE or size > _LARGER_TIERS_ABOVE)
        ),
        None,
    )
    more = (
        f"{update} --set tier={better}"
        if better
        else f"{update} --enable-bursting true   # while the machine is stopped; bursts are charged"
    )
    premium = (
        VolumeKind(kind, requests, megabytes * MB, more, 3500, 170 * MB, (3500 - requests) * _HALF_AN_HOUR)
        if size <= _BURSTS_UP_TO
        else VolumeKind(kind, requests, megabytes * MB, more)
    )
    bought = f"{update} --disk-iops-read-write 6000 --disk-mbps-read-write 300"
    return Cloud(
        "Azure managed disk",
        (premium, VolumeKind("premium SSD v2 (default performance)", 3000, 125 * MB, bought)),
        "az monitor metrics list --resource VM --metric 'Data Disk IOPS Consumed Percentage' "
        "'Data Disk Bandwidth Consumed Percentage'",
    )


def _google(size: float) -> Cloud:
    resize = f"gcloud compute disks resize DISK --size={round(2 * size)}GB   # larger disks are faster"
    bought = "gcloud compute disks update DISK --provisioned-iops=6000 --provisioned-throughput=300"
    return Cloud(
        "Google Cloud disk",
        (
            VolumeKind("pd-balanced", 3000 + 6 * size, (140 + 0.28 * size) * MIB, resize),
            VolumeKind("pd-ssd", 6000 + 30 * size, (240 + 0.48 * size) * MIB, resize),
            VolumeKind("hyperdisk-balanced (baseline performance)", 3000, 140 * MIB, bought),
        ),
        "gcloud compute disks describe DISK --format='value(type,sizeGb,provisionedIops,provisionedThroughput)'",
    )

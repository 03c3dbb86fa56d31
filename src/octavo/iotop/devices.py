"""Disks by name and by number, and resolving a name that a user gives to a disk."""

from pathlib import Path

from octavo.errors import UsageError
from octavo.host import block_devices
from octavo.host.block_devices import device_under, devices
from octavo.instruments.request_counter import kernel_number

_SYS = Path("/sys")


def device_name(number: int, sys: Path = _SYS) -> str:
    """The name of the device with this number inside the kernel; the number itself when it has gone."""
    place = f"{number >> 20}:{number & 0xFFFFF}"
    entry = sys / "dev/block" / place
    return entry.resolve().name if entry.exists() else place


def whole_disks(sys: Path = _SYS) -> list[str]:
    """The disks that hold something, by name; partitions are parts of theirs."""
    return [device.name for device in devices(sys)]


def find_disk(asked: str, sys: Path = _SYS) -> tuple[str, int]:
    """The name and the kernel's number of the disk or volume (`vda`, `/dev/vda1`, `dm-1`, `/dev/mapper/data`) that is
    named, or that the filesystem of a file or directory is on. Raises UsageError where there is none.
    """
    device = _find(asked, sys)
    if device is None:
        raise UsageError(f"--device {asked}: no such device; available: {', '.join(whole_disks(sys)) or 'none'}")
    major, minor = (int(part) for part in (device / "dev").read_text().split(":"))
    return device.name, kernel_number(major, minor)


def without_queue(name: str, sys: Path = _SYS) -> bool:
    """Whether a device makes no requests of its own: device mapper, md, zram and others accept submissions (struct bio)
    and pass them on. Those with a queue have the directory `mq` (kernel block/blk-mq-sysfs.c)."""
    return not (sys / "class/block" / name / "mq").exists()


def disks_below(name: str, sys: Path = _SYS) -> tuple[str, ...]:
    """The disks that a volume's requests are made at, through all that lies between; none below a disk itself."""
    device = (sys / "class/block" / name).resolve()
    return tuple(sorted(disk.name for disk in block_devices.disks_below(device) if disk != device))


def _find(asked: str, sys: Path) -> Path | None:
    named = sys / "class/block" / asked
    if "/" not in asked and (named / "dev").exists():
        device = named.resolve()
        return device.parent if (device / "partition").exists() else device
    try:
        return device_under(Path(asked), sys) if asked else None
    except OSError:
        return None

"""Block devices as /sys has them (kernel Documentation/block/queue-sysfs.rst)."""

import os
import stat
from pathlib import Path

_SYS = Path("/sys")
# As vendor, or first word of the model, of the SCSI and ATA disks that hypervisors make.
_HYPERVISORS = frozenset({"QEMU", "VBOX", "VMware", "VMware,", "Msft"})


def device_under(path: Path, sys: Path = _SYS) -> Path | None:
    """The /sys directory of the whole disk under an existing path's filesystem, or None where it has none.

    Of a block device it is that of the device itself, or of the disk that it is a partition of.
    """
    entry = sys / "dev/block" / _number(path)
    if not entry.exists():
        return None
    device = entry.resolve()
    return device.parent if (device / "partition").exists() else device


def readahead_file(path: Path, sys: Path = _SYS) -> Path | None:
    """Where the readahead for files of an existing path is set: at its disk, else at its filesystem's own BDI.

    NFS and others without a device have /sys/class/bdi/MAJOR:MINOR (Documentation/ABI/testing/sysfs-class-bdi).
    """
    device = device_under(path, sys)
    file = device / "queue/read_ahead_kb" if device else sys / "class/bdi" / _number(path) / "read_ahead_kb"
    return file if file.exists() else None


def devices(sys: Path = _SYS) -> list[Path]:
    """The /sys directory of every disk that holds something; partitions are parts of theirs."""
    found = (sys / "block").glob("*") if (sys / "block").is_dir() else ()
    return sorted(device for device in found if _text(device / "size") not in ("", "0"))


def disks_below(device: Path) -> list[Path]:
    """The whole disks that a device of LVM, md or dm-crypt is made of; the device itself if it is a disk."""
    return [found for found in family(device) if not _slaves(found)]


def family(device: Path) -> list[Path]:
    """The device and all devices that it is made of, each once."""
    found = {device: None}
    for slave in _slaves(device):
        found |= dict.fromkeys(family(slave))
    return list(found)


def _slaves(device: Path) -> list[Path]:
    try:
        names = sorted((device / "slaves").iterdir())
    except OSError:
        return []
    parts = (name.resolve() for name in names)
    return [part.parent if (part / "partition").exists() else part for part in parts]


def rotates(device: Path) -> bool | None:
    """Whether a disk, or a device made of disks, reports that it rotates; None if that is unknown, as when only virtual
    disks below it report 1.

    virtio_blk always does (drivers/block/virtio_blk.c, BLK_FEAT_ROTATIONAL), and a SCSI disk does unless its medium is
    reported as non-rotating (drivers/scsi/sd.c), which hypervisors seldom do. A device of LVM, md or dm-crypt reports 1
    if any disk below does.
    """
    reported = _text(device / "queue/rotational")
    if reported not in ("0", "1"):
        return None
    if reported == "0":
        return False
    disks = disks_below(device)
    virtual = [disk for disk in disks if is_virtual(disk)]
    real = any(disk not in virtual and _text(disk / "queue/rotational") == "1" for disk in disks)
    return None if virtual and not real else True


def is_virtual(disk: Path) -> bool:
    """Whether it is a disk that a hypervisor makes, whatever is below it."""
    if (disk / "device/driver").resolve().name == "virtio_blk":
        return True
    vendor, model = (_text(disk / "device" / name) for name in ("vendor", "model"))
    return vendor in _HYPERVISORS or model.partition(" ")[0] in _HYPERVISORS


def _number(path: Path) -> str:
    facts = path.stat()
    number = facts.st_rdev if stat.S_ISBLK(facts.st_mode) else facts.st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""

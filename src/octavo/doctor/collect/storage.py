"""The filesystem and the disk under the data directory.

Sources: kernel Documentation/ABI/stable/sysfs-block, statvfs(3), proc_pid_mountinfo(5).
"""

import os
from pathlib import Path

from octavo.doctor.collect.reading import choice, fact_of, kilobytes
from octavo.doctor.facts import Fact
from octavo.host.block_devices import device_under
from octavo.host.kernel_text import shown
from octavo.host.mounts import Mount, mounts

# Those whose statvfs block is what the page cache or the filesystem reads at the least. On others (NFS, FUSE …) it is
# the size of a request over the network, or anything.
_HONEST = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "jfs", "bcachefs"})


def storage_facts(directory: Path, root: Path = Path("/")) -> list[Fact]:
    """The filesystem's block and options, the disk's sectors, queue and model."""
    try:
        return [*_filesystem(directory, root), *_device(directory, root / "sys")]
    except OSError as error:
        return [Fact(f"host.{part}.", unknown=f"{directory}: {error.strerror}") for part in ("fs", "device")]


def _filesystem(directory: Path, root: Path) -> list[Fact]:
    mount = _mount(directory, root)
    if mount is None:
        return [Fact("host.fs.", unknown=f"no mount of {directory} is in /proc/self/mountinfo")]
    where = f"/proc/self/mountinfo: {shown(str(mount.target))}"
    block = os.statvfs(directory).f_bsize
    honest = mount.kind in _HONEST
    return [
        Fact("host.fs.type", mount.kind, where),
        Fact("host.fs.mount", shown(str(mount.target)), where),
        Fact("host.fs.options", shown(mount.options), where),
        Fact("host.fs.block_bytes", block, f"statvfs({shown(str(directory))})") if honest
        else Fact("host.fs.block_bytes", unknown=f"{mount.kind} does not say what it reads at the least"),
    ]  # fmt: skip


def _device(directory: Path, sys: Path) -> list[Fact]:
    device = device_under(directory, sys)
    if device is None:
        return [Fact("host.device.", unknown=f"the filesystem of {directory} names no block device")]
    queue = device / "queue"
    numbers = {
        "logical_sector_bytes": "logical_block_size",
        "physical_sector_bytes": "physical_block_size",
        "minimum_io_bytes": "minimum_io_size",
        "optimal_io_bytes": "optimal_io_size",
        "atomic_write_bytes": "atomic_write_unit_max_bytes",
    }
    return [
        Fact("host.device.name", device.name, str(device)),
        fact_of("host.device.model", device / "device/model"),
        fact_of("host.device.size_bytes", device / "size", lambda text: int(text) * 512),
        *(fact_of(f"host.device.{name}", queue / file, int) for name, file in numbers.items()),
        fact_of("host.device.readahead_bytes", queue / "read_ahead_kb", kilobytes),
        fact_of("host.device.largest_request_bytes", queue / "max_sectors_kb", kilobytes),
        fact_of("host.device.rotational", queue / "rotational", lambda text: bool(int(text))),
        fact_of("host.device.scheduler", queue / "scheduler", choice),
    ]


def _mount(directory: Path, root: Path) -> Mount | None:
    number = directory.stat().st_dev
    wanted = f"{os.major(number)}:{os.minor(number)}"
    every = mounts(root / "proc/self/mountinfo")
    on = [one for one in every if one.device == wanted and directory.absolute().is_relative_to(one.target)]
    # Without a device of that number (btrfs, overlayfs) the innermost mount above it is the one.
    above = sorted((one for one in every if directory.absolute().is_relative_to(one.target)),
                   key=lambda one: len(one.target.parts))  # fmt: skip
    return on[-1] if on else above[-1] if above else None

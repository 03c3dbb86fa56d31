"""The filesystem and the disk under the data directory.

Sources: kernel Documentation/ABI/stable/sysfs-block, admin-guide/md.rst, statvfs(3), proc_pid_mountinfo(5).
"""

import errno
import os
import re
from pathlib import Path

from octavo.doctor.collect.reading import fact_of, kilobytes
from octavo.doctor.facts import Fact
from octavo.host.block_devices import device_under, disks_below, family, is_virtual, rotates
from octavo.host.kernel_text import shown
from octavo.host.mounts import mount_of, mounts
from octavo.host.page_stack import OWN_BLOCKS

# The first Linux version whose readahead uses folios larger than a page, by filesystem.
_LARGE_FOLIOS = {"xfs": (5, 18), "ext4": (6, 16)}


def storage_facts(directory: Path, root: Path = Path("/")) -> list[Fact]:
    """The filesystem's block and options, the disk's sectors, queue and model."""
    try:
        return [*_filesystem(directory, root), *_device(directory, root / "sys")]
    except OSError as error:
        return [Fact(f"host.{part}.", unknown=f"{directory}: {error.strerror}") for part in ("fs", "device")]


def _filesystem(directory: Path, root: Path) -> list[Fact]:
    mount = mount_of(directory, root / "proc/self/mountinfo")
    if mount is None:
        return [Fact("host.fs.", unknown=f"no mount of {directory} is in /proc/self/mountinfo")]
    where = f"/proc/self/mountinfo: {shown(str(mount.target))}"
    block, page = os.statvfs(directory).f_bsize, os.sysconf("SC_PAGE_SIZE")
    honest = mount.kind in OWN_BLOCKS
    release = os.uname().release
    return [
        Fact("host.fs.type", mount.kind, where),
        Fact("host.fs.mount", shown(str(mount.target)), where),
        Fact("host.fs.options", shown(mount.options), where),
        Fact("host.fs.block_bytes", block, f"statvfs({shown(str(directory))})") if honest
        else Fact("host.fs.block_bytes", unknown=f"{mount.kind} does not report the smallest unit that it reads"),
        Fact("host.fs.least_folio_bytes", max(page, block) if honest else page, "memory page, filesystem's block"),
        pg_wal_elsewhere(directory, root),
        Fact("host.fs.large_folios", large_folios(mount.kind, release), f"{mount.kind} of Linux {release}"),
    ]  # fmt: skip


def pg_wal_elsewhere(directory: Path, root: Path) -> Fact:
    """Whether pg_wal is a mount or a link. A link is not followed, because its target may not respond."""
    name, path = "host.fs.wal_elsewhere", directory / "pg_wal"
    mounted = directory.resolve() / "pg_wal"  # mountinfo has no links, and the data directory's path may have some
    if any(one.target == mounted for one in mounts(root / "proc/self/mountinfo")):
        return Fact(name, True, "/proc/self/mountinfo")
    try:
        path.readlink()
    except OSError as error:
        if error.errno == errno.EINVAL:
            return Fact(name, False, f"readlink({shown(str(path))})")
        return Fact(name, unknown=f"{shown(str(path))}: {error.strerror}")
    return Fact(name, True, f"readlink({shown(str(path))})")


def counted_disk(path: Path, sys: Path = Path("/sys")) -> str | None:
    """The disk whose requests are those of a path's filesystem: the one below LVM if there is any, because above it
    requests are counted before they are merged."""
    try:
        device = device_under(path, sys)
    except OSError:
        return None
    disks = disks_below(device) if device else []
    return disks[0].name if len(disks) == 1 else device and device.name


def large_folios(kind: str, release: str) -> str:
    """Whether the filesystem caches files in folios larger than the smallest, as far as the kernel version tells.

    >>> large_folios("xfs", "6.1.0-18-amd64"), large_folios("ext4", "6.1.0-18-amd64"), large_folios("xfs", "5.14.0.el9")
    ('made by readahead', 'none', 'unknown')
    """
    since, numbers = _LARGE_FOLIOS.get(kind), re.match(r"(\d{1,4})\.(\d{1,4})", release)
    if since is None or numbers is None or ".el" in release:
        return "unknown"
    return "made by readahead" if (int(numbers[1]), int(numbers[2])) >= since else "none"


def _device(directory: Path, sys: Path) -> list[Fact]:
    device = device_under(directory, sys)
    if device is None:
        return [Fact("host.device.", unknown=f"the filesystem of {directory} names no block device")]
    queue = device / "queue"
    disks = disks_below(device)
    return [
        Fact("host.device.name", device.name, str(device)),
        Fact("host.device.disks", [disk.name for disk in disks], f"{device}/slaves"),
        *_make(disks),
        fact_of("host.device.size_bytes", disks[0] / "size", lambda text: int(text) * 512),
        *_raid(device),
        fact_of("host.device.physical_sector_bytes", queue / "physical_block_size", int),
        fact_of("host.device.atomic_write_bytes", queue / "atomic_write_unit_max_bytes", int),
        fact_of("host.device.readahead_bytes", queue / "read_ahead_kb", kilobytes),
        fact_of("host.device.largest_request_bytes", queue / "max_sectors_kb", kilobytes),
        _rotational(device, disks),
    ]


def _rotational(device: Path, disks: list[Path]) -> Fact:
    """The reported value; a device of LVM, md or dm-crypt reports 1 if any disk below it does."""
    name = "host.device.rotational"
    found = fact_of(name, device / "queue/rotational", lambda text: bool(int(text)))
    if found.value and rotates(device) is None:
        virtual = ", ".join(disk.name for disk in disks if is_virtual(disk))
        return Fact(name, unknown=f"a virtual disk ({virtual}) reports 1, whatever is below it")
    return found


def _make(disks: list[Path]) -> list[Fact]:
    """Vendor and model, if all of the disks have the same."""
    found: list[Fact] = []
    for name in ("vendor", "model"):
        facts = [fact_of(f"host.device.{name}", disk / "device" / name) for disk in disks]
        same = len({(fact.value, fact.unknown, bool(fact.absent)) for fact in facts}) == 1
        found.append(facts[0] if same else Fact(f"host.device.{name}", absent="the disks below are of several kinds"))
    return found


def _raid(device: Path) -> list[Fact]:
    """The software RAID that the device is, or is built on."""
    raid = next((one for one in family(device) if (one / "md/level").exists()), None)
    if raid is None:
        return [Fact("host.raid.", absent="there is no software RAID (md) below this filesystem")]
    return [
        Fact("host.raid.name", raid.name, str(raid)),
        fact_of("host.raid.level", raid / "md/level"),
        fact_of("host.raid.chunk_bytes", raid / "md/chunk_size", int),
        fact_of("host.raid.stripe_bytes", raid / "queue/optimal_io_size", int),
    ]

"""The class of this host: the properties that may change the effects of page sizes (architecture, kernel page,
device)."""

import os
import platform
from pathlib import Path

from octavo.host.block_devices import device_under, disks_below, is_virtual, rotates
from octavo.units import format_size

ANY = "any"
# By the kernel's name of a disk: what it is reached through.
_BUSES = (("nvme", "nvme"), ("vd", "virtio"), ("xvd", "xen"))
_VIRTUAL = "virtual"


def host_class(path: Path, sys: Path = Path("/sys")) -> str:
    """The class of this host, with the disk under an existing path: such as `x86_64-4kB-nvme`.

    A disk is nvme, virtio or xen by its name, else ssd or hdd as it reports, and virtual if a hypervisor reports that
    it rotates, whatever is below it. A volume of LVM, md or dm-crypt is what its disk is. `none` if there is no single
    disk (tmpfs, NFS, several disks).
    """
    page = format_size(os.sysconf("SC_PAGE_SIZE"))
    return f"{platform.machine()}-{page}-{_device(device_under(path, sys))}"


def _device(device: Path | None) -> str:
    disks = [] if device is None else disks_below(device)
    if len(disks) != 1:
        return "none"
    (disk,) = disks
    for prefix, bus in _BUSES:
        if disk.name.startswith(prefix):
            return bus
    turns = rotates(disk)
    if turns is None:
        return _VIRTUAL if is_virtual(disk) else "none"
    return "hdd" if turns else "ssd"


def is_of_class(mine: str, wanted: str) -> bool:
    """Whether a host of the class `mine` is meant by a class that a plan or a run names.

    Such a virtual disk was called hdd before: that name still means these hosts, too.

    >>> is_of_class("x86_64-4kB-virtual", "x86_64-4kB-hdd"), is_of_class("x86_64-4kB-hdd", "x86_64-4kB-virtual")
    (True, False)
    """
    before = f"{mine.removesuffix(_VIRTUAL)}hdd" if mine.endswith(f"-{_VIRTUAL}") else mine
    return wanted in (ANY, mine, before)

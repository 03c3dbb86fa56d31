"""The class of this host: the properties that may change the effects of page sizes (architecture, kernel page,
device)."""

import os
import platform
from pathlib import Path

from octavo.host.block_devices import device_under
from octavo.units import format_size

ANY = "any"
# By the kernel's name of a disk: what it is reached through.
_BUSES = (("nvme", "nvme"), ("vd", "virtio"), ("xvd", "xen"))


def host_class(path: Path, sys: Path = Path("/sys")) -> str:
    """The class of this host, with the disk under an existing path: such as `x86_64-4kB-nvme`.

    A disk is nvme, virtio or xen by its name, else ssd or hdd as it reports; `none` if there is no single disk (tmpfs,
    NFS, several disks).
    """
    page = format_size(os.sysconf("SC_PAGE_SIZE"))
    return f"{platform.machine()}-{page}-{_device(device_under(path, sys))}"


def _device(device: Path | None) -> str:
    if device is None:
        return "none"
    for prefix, bus in _BUSES:
        if device.name.startswith(prefix):
            return bus
    try:
        rotational = (device / "queue" / "rotational").read_bytes().strip() == b"1"
    except OSError:
        return "none"
    return "hdd" if rotational else "ssd"

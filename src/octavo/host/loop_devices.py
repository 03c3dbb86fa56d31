"""The file under a loop device, identified by its inode, because names change and devices are reused."""

import fcntl
import os
import re
import struct
from pathlib import Path

_SYS = Path("/sys")
_LOOP_GET_STATUS64 = 0x4C05
_STATUS_BYTES = 232  # struct loop_info64


def devices_on(device: int, inode: int) -> list[str]:
    """The loop devices that are attached to this file. Without the right to ask there is none."""
    names = (entry.parent.name for entry in (_SYS / "block").glob("loop*/loop"))
    return [name for name in sorted(names) if backing(name) == (device, inode)]


def backing(name: str) -> tuple[int, int] | None:
    """Device and inode of the file that a loop device is on (LOOP_GET_STATUS64 in linux/loop.h); None where it is not.

    Without the right to ask it is on none.
    """
    status = bytearray(_STATUS_BYTES)
    try:
        opened = os.open(f"/dev/{name}", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.ioctl(opened, _LOOP_GET_STATUS64, status)
    except OSError:  # nothing is attached, or not any more
        return None
    finally:
        os.close(opened)
    device, inode = struct.unpack_from("QQ", status)
    return device, inode


def number_of(name: str) -> str:
    """The `major:minor` of a device, empty when it is gone."""
    try:
        return (_SYS / "block" / name / "dev").read_text().strip()
    except OSError:
        return ""


def loop_of(path: Path, number: str = "") -> str | None:
    """The loop device whose settings a file below /sys has, or that `major:minor` is; None for anything else."""
    parts = (_SYS / "dev/block" / number).resolve().parts if number else path.resolve().parts
    return next((part for part in parts if re.fullmatch(r"loop[0-9]+", part)), None)

"""All disks of this host with their sizes and queues (kernel Documentation/ABI/stable/sysfs-block)."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from octavo.host.block_devices import devices, rotates
from octavo.host.kernel_text import shown
from octavo.host.kernel_value import KernelValue
from octavo.host.mounts import mounts

_MOUNTS = Path("/proc/self/mountinfo")


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk; sizes in bytes, None if not reported."""

    name: str
    size_bytes: int
    logical_sector_bytes: int | None
    physical_sector_bytes: int | None
    minimum_io_bytes: int | None
    optimal_io_bytes: int | None
    readahead_bytes: int | None
    largest_request_bytes: int | None
    scheduler: str | None
    rotational: bool | None
    mounted_at: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def disks(sys: Path = Path("/sys"), table: Path = _MOUNTS) -> list[Disk]:
    """The disks in use. A filesystem that is mounted several times is listed once, at its first mount.

    Hidden ones are the paths of an NVMe disk with several (nvme0c0n1 of nvme0n1; hidden in sysfs-block), which
    nobody can open.
    """
    at: dict[str, str] = {}
    for mount in mounts(table):
        at.setdefault(mount.device, shown(str(mount.target)))
    return [_disk(device, at) for device in devices(sys) if _text(device / "hidden") != "1"]


def _disk(device: Path, at: dict[str, str]) -> Disk:
    queue = device / "queue"
    numbers = [_text(device / "dev"), *(_text(part.parent / "dev") for part in sorted(device.glob("*/partition")))]
    kilobytes = {name: _number(queue / name) for name in ("read_ahead_kb", "max_sectors_kb")}
    return Disk(
        name=device.name,
        size_bytes=(_number(device / "size") or 0) * 512,
        logical_sector_bytes=_number(queue / "logical_block_size"),
        physical_sector_bytes=_number(queue / "physical_block_size"),
        minimum_io_bytes=_number(queue / "minimum_io_size"),
        optimal_io_bytes=_number(queue / "optimal_io_size") or None,
        readahead_bytes=_bytes(kilobytes["read_ahead_kb"]),
        largest_request_bytes=_bytes(kilobytes["max_sectors_kb"]),
        scheduler=_scheduler(queue / "scheduler"),
        rotational=rotates(device),
        mounted_at=tuple(at[number] for number in numbers if number in at),
    )


def _scheduler(file: Path) -> str | None:
    try:
        return KernelValue(file, "choice").read()
    except OSError:
        return None


def _bytes(kilobytes: int | None) -> int | None:
    return None if kilobytes is None else kilobytes * 1024


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdecimal() else None

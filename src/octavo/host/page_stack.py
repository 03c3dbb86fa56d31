"""The page stack of this host: every page size between a CPU and an SSD, for the filesystem a path is on."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from octavo.host.block_devices import device_under, rotates
from octavo.host.kernel_text import chosen, shown
from octavo.host.mounts import mount_of
from octavo.units import format_size, human_size

# Those whose statvfs block is what the page cache or the filesystem reads at the least. On others (NFS, FUSE …) it is
# the size of a request over the network, or anything.
OWN_BLOCKS = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "jfs", "bcachefs"})
# Those that have the memory page, or the block of the filesystem below.
_PAGES = frozenset({"tmpfs", "overlay"})
_MEDIA = {True: "reported as rotating", False: "reported as solid state", None: "medium not reported"}


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: its size in bytes (None if it has none or it is unknown), as text, and further facts."""

    layer: str
    size_bytes: int | None
    value: str
    detail: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def page_stack(path: Path, sys: Path = Path("/sys")) -> list[Layer]:
    """The layers from the CPU down to the device, for the filesystem of an existing path; a block device has none."""
    device = device_under(path, sys)
    return [
        *_memory_layers(sys),
        _data_block_layer(),
        Layer(
            "WAL block",
            None,
            "1kB … 64kB",
            "XLOG_BLCKSZ, chosen when PostgreSQL is built; PostgreSQL's default is 8kB",
        ),
        Layer("WAL segment", None, "1MB … 1GB", "initdb --wal-segsize; PostgreSQL's default is 16MB"),
        *_request_layers(device),
        *([] if path.is_block_device() else [_filesystem_layer(path)]),
        *_device_layers(device),
    ]


def _data_block_layer() -> Layer:
    return Layer(
        "data block",
        None,
        "1kB … 32kB",
        "BLCKSZ, chosen when PostgreSQL is built; PostgreSQL's default is 8kB",
    )


def _memory_layers(sys: Path) -> list[Layer]:
    page = os.sysconf("SC_PAGE_SIZE")
    layers = [Layer("CPU memory page", page, format_size(page), "sysconf(_SC_PAGESIZE)")]
    for directory in sorted((sys / "kernel/mm/hugepages").glob("hugepages-*kB"), key=_huge_page_bytes):
        size = _huge_page_bytes(directory)
        total, free = _read(directory / "nr_hugepages"), _read(directory / "free_hugepages")
        layers.append(Layer("huge page", size, format_size(size), f"{total} allocated, {free} free"))
    huge = sys / "kernel/mm/transparent_hugepage"
    if (huge / "enabled").exists():
        size = _number(huge / "hpage_pmd_size")
        modes = (("enabled", "enabled"), ("shared memory", "shmem_enabled"), ("defrag", "defrag"))
        detail = "; ".join(f"{name}: {chosen(_read(huge / file))}" for name, file in modes)
        layers.append(Layer("transparent huge page", size, format_size(size) if size else "?", detail))
    return layers


def _request_layers(device: Path | None) -> list[Layer]:
    layers = [
        Layer(
            "I/O request of PostgreSQL",
            131072,
            "128kB",
            "io_combine_limit's default (PostgreSQL 17 and later)",
        )
    ]
    if device is not None:
        for name, file, meaning in (
            ("readahead", "read_ahead_kb", "read_ahead_kb: what the kernel reads ahead of a sequential scan"),
            ("largest device request", "max_sectors_kb", "max_sectors_kb: larger requests are split"),
        ):
            size = _number(device / "queue" / file)
            if size is not None:
                layers.append(Layer(name, size * 1024, format_size(size * 1024), meaning))
    return layers


def _filesystem_layer(path: Path) -> Layer:
    block, mount = os.statvfs(path).f_bsize, mount_of(path)
    kind, where = (mount.kind, shown(str(mount.target))) if mount else ("filesystem", "?")
    if kind not in OWN_BLOCKS | _PAGES:
        meaning = "the block that it reports may be the size of a request over a network"
        return Layer("filesystem block", None, format_size(block), f"{kind} on {where}; {meaning}")
    # ZFS has a cache of its own.
    meaning = "" if kind == "zfs" else "; the page cache's folios are at least this large"
    return Layer("filesystem block", block, format_size(block), f"{kind} on {where}{meaning}")


def _device_layers(device: Path | None) -> list[Layer]:
    if device is None:
        return [Layer("device sector", None, "?", "the filesystem has no block device of its own that can be named")]
    layers: list[Layer] = []
    size = _number(device / "size")
    name = f"{device.name}, {human_size(size * 512)}" if size else device.name
    for layer, file in (
        ("device logical sector", "logical_block_size"),
        ("device physical sector", "physical_block_size"),
        ("device minimum I/O", "minimum_io_size"),
        ("device optimal I/O", "optimal_io_size"),
    ):
        value = _number(device / "queue" / file)
        if value:
            layers.append(Layer(layer, value, format_size(value), name))
    medium = _MEDIA[rotates(device)]
    layers.append(Layer("SSD page, RAID stripe", None, "?", f"{medium}; devices do not report their page size"))
    return layers


def _huge_page_bytes(directory: Path) -> int:
    return int(directory.name.removeprefix("hugepages-").removesuffix("kB")) * 1024


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return "?"


def _number(path: Path) -> int | None:
    text = _read(path)
    return int(text) if text.isdecimal() else None

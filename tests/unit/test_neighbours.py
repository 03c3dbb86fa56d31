"""Interactions of layers, for stacks of other machines; mounts and disks on planted trees."""

from pathlib import Path

import pytest
from tests.unit.planted import plant

from octavo.host import mounts
from octavo.host.block_devices import device_under, readahead_file, rotates
from octavo.host.disks import disks
from octavo.host.page_stack import Layer
from octavo.postgres.neighbours import neighbours

_KB = 1024


def stack(page: int = 4, block: int = 4, sector: int = 512, ahead: int = 128, largest: int = 1280) -> list[Layer]:
    """A stack; sizes in kB, the sector in bytes."""
    sizes = {
        "CPU memory page": page * _KB, "I/O request of PostgreSQL": 128 * _KB, "readahead": ahead * _KB,
        "largest device request": largest * _KB, "filesystem block": block * _KB, "device physical sector": sector,
    }  # fmt: skip
    return [Layer(name, size, str(size), "") for name, size in sizes.items()]


def effects(layers: list[Layer]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in neighbours(layers):
        found.setdefault(" / ".join(one.layers), []).append(one.effect)
    return found


def test_blocks_and_the_filesystem() -> None:
    smaller, larger = effects(stack())["data block / filesystem block"]
    assert smaller.startswith("data blocks of 1 kB and 2 kB are parts of 4 kB")
    assert larger.startswith("data blocks of 8 kB to 32 kB are 2 to 8 times 4 kB")
    assert effects(stack(page=16))["data block / filesystem block"][1].startswith(
        "data blocks of 32 kB are 2 times 16 kB"
    )
    (only,) = effects(stack(block=1, page=4))["data block / filesystem block"][:1]
    assert only.startswith("data blocks of 1 kB and 2 kB are parts of 4 kB"), "the page cache works in memory pages"


def test_a_filesystem_that_does_not_say_its_block() -> None:
    """NFS: statvfs returns the size of a request."""
    told = effects([layer for layer in stack() if layer.layer != "filesystem block"])
    assert told["data block / filesystem block"][0].startswith("data blocks of 1 kB and 2 kB are parts of 4 kB")
    assert "WAL block / filesystem block" not in told and "filesystem block / CPU memory page" not in told


def test_a_filesystem_whose_block_is_larger_than_the_page() -> None:
    told = effects(stack(block=64))
    (only,) = told["data block / filesystem block"]
    assert only.startswith("data blocks of 1 kB to 32 kB are parts of 64 kB")
    assert "folios of 64 kB" in told["filesystem block / CPU memory page"][0]


def test_a_machine_with_64_kb_pages() -> None:
    told = effects(stack(page=64, block=4))
    # The kernel reads blocks of the filesystem, not whole memory pages.
    assert told["WAL block / filesystem block"][0].startswith("WAL blocks of 1 kB and 2 kB are parts of a 4 kB block")
    assert "16,384 pages of 64 kB" in told["CPU memory page / shared_buffers"][0]
    assert "128 kB of page tables" in told["CPU memory page / shared_buffers"][0]


def test_sectors() -> None:
    assert len(effects(stack(sector=512))["data block / device physical sector"]) == 1
    torn, inside = effects(stack(sector=4096))["data block / device physical sector"]
    assert "8 kB to 32 kB" in torn
    assert "1 kB and 2 kB" in inside


def test_requests() -> None:
    told = effects(stack(ahead=8192, largest=64))
    assert "1,024 blocks of 8 kB" in told["data block / readahead"][0]
    assert told["I/O request of PostgreSQL / largest device request"] == ["128 kB are split into 2 at the device"]
    assert told["readahead / largest device request"] == ["8 MB read ahead go to the device in 128 requests"]
    assert "data block / readahead" not in effects(stack(ahead=0))


def test_huge_pages() -> None:
    pages = [
        Layer("huge page", 1024**3, "1GB", "0 allocated, 0 free"),
        Layer("huge page", 2 * 1024**2, "2MB", "9 allocated, 9 free"),
        Layer("transparent huge page", 2 * 1024**2, "2MB", "enabled: always; shared memory: never; defrag: madvise"),
    ]
    told = effects([*stack(), *pages])
    large, small = told["huge page / shared_buffers"]
    assert "take 2 GB or more" in large and "none is free" in large
    assert "take 1026 MB or more" in small and "none is free" not in small
    assert "get no transparent huge pages" in told["transparent huge page / shared_buffers"][0]


def test_a_stack_without_a_device() -> None:
    told = effects([layer for layer in stack() if "device" not in layer.layer and layer.layer != "readahead"])
    assert "data block / filesystem block" in told
    assert "data block / device physical sector" not in told


_MOUNTS = r"""22 1 253:1 / / rw,relatime - ext4 /dev/vda1 rw
30 22 0:40 / /srv/with\040blank rw - nfs4 server:/export rw
31 22 253:1 /a /again rw - ext4 /dev/vda1 rw
"""


def test_mounts(tmp_path: Path) -> None:
    table = plant(tmp_path, {"mountinfo": _MOUNTS}) / "mountinfo"
    found = mounts.at(Path("/srv/with blank"), table)
    assert found is not None
    assert (found.kind, found.source, found.device) == ("nfs4", "server:/export", "0:40")
    assert [one.target.name for one in mounts.below(Path("/srv"), table)] == ["with blank"]
    assert mounts.at(Path("/srv"), table) is None


def test_disks(tmp_path: Path) -> None:
    root = plant(
        tmp_path,
        {
            "mountinfo": _MOUNTS, "sys/block/vda/size": "2048\n", "sys/block/vda/dev": "253:0\n",
            "sys/block/vda/queue/read_ahead_kb": "128\n", "sys/block/vda/queue/max_sectors_kb": "1280\n",
            "sys/block/vda/queue/scheduler": "none [kyber]\n", "sys/block/vda/queue/rotational": "0\n",
            "sys/block/vda/vda1/partition": "1\n", "sys/block/vda/vda1/dev": "253:1\n",
            "sys/block/loop0/size": "0\n",
        },
    )  # fmt: skip
    (only,) = disks(root / "sys", root / "mountinfo")
    assert (only.name, only.size_bytes, only.readahead_bytes) == ("vda", 1024**2, 128 * _KB)
    assert (only.scheduler, only.rotational, only.mounted_at) == ("kyber", False, ("/",))
    assert only.logical_sector_bytes is None


@pytest.mark.parametrize(
    ("driver", "vendor", "model", "reported", "rotating"),
    [
        ("virtio_blk", "0x1af4", None, "1", None),
        ("virtio_blk", "0x1af4", None, "0", False),  # for example an administrator's udev rule
        ("sd", "QEMU    ", "QEMU HARDDISK   ", "1", None),
        ("sd", "ATA     ", "QEMU HARDDISK   ", "1", None),
        ("sd", "VMware  ", "Virtual disk    ", "1", None),
        ("sd", "Msft    ", "Virtual Disk    ", "1", None),
        ("sd", "Google  ", "PersistentDisk  ", "0", False),
        ("sd", "ATA     ", "ST4000NM0035    ", "1", True),
        ("nvme", None, "Amazon Elastic Block Store", "0", False),
        ("sd", "ATA     ", "ST4000NM0035    ", None, None),
    ],
)
def test_a_virtual_disk_does_not_say_whether_it_rotates(
    tmp_path: Path, driver: str, vendor: str | None, model: str | None, reported: str | None, rotating: bool | None
) -> None:
    files = {"device/vendor": vendor, "device/model": model, "queue/rotational": reported}
    disk = plant(tmp_path / "disk", {"device/x": ""} | {name: f"{text}\n" for name, text in files.items() if text})
    (tmp_path / "drivers" / driver).mkdir(parents=True)
    (disk / "device/driver").symlink_to(tmp_path / "drivers" / driver)
    assert rotates(disk) is rotating


def test_a_filesystem_without_a_device_has_its_own_readahead(tmp_path: Path) -> None:
    number = tmp_path.stat().st_dev
    name = f"{number >> 8 & 0xFFF}:{number & 0xFF}"
    root = plant(tmp_path, {f"class/bdi/{name}/read_ahead_kb": "128\n"})
    assert device_under(tmp_path, root) is None
    assert readahead_file(tmp_path, root) == root / f"class/bdi/{name}/read_ahead_kb"
    assert readahead_file(tmp_path, root / "nothing") is None

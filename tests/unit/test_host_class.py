"""The class of a host by its disk, and the names of classes in plans."""

import os
from pathlib import Path

import pytest
from tests.unit.planted import plant

from octavo.host.host_class import host_class, is_of_class


@pytest.mark.parametrize(
    ("name", "model", "reported", "device"),
    [
        ("nvme0n1", "", "0", "nvme"),
        ("vda", "", "1", "virtio"),
        ("sda", "ST4000NM0035", "1", "hdd"),
        ("sda", "SAMSUNG", "0", "ssd"),
        ("sda", "QEMU HARDDISK", "1", "virtual"),
        ("sda", "QEMU HARDDISK", "0", "ssd"),
        ("sda", "SAMSUNG", None, "none"),
    ],
)
def test_a_virtual_disk_that_reports_to_rotate_is_no_hdd(
    tmp_path: Path, name: str, model: str, reported: str | None, device: str
) -> None:
    files = {f"block/{name}/device/model": f"{model}\n"}
    if reported is not None:
        files[f"block/{name}/queue/rotational"] = f"{reported}\n"
    assert device_of(plant(tmp_path / "sys", files), name) == device


def device_of(sys: Path, name: str) -> str:
    """The device in the class of a host whose filesystem is on this one."""
    number = sys.stat().st_dev
    (sys / "dev/block").mkdir(parents=True)
    (sys / f"dev/block/{os.major(number)}:{os.minor(number)}").symlink_to(sys / "block" / name)
    return host_class(sys, sys).rpartition("-")[2]


@pytest.mark.parametrize(
    ("disks", "device"),
    [(("nvme0n1",), "nvme"), (("vda",), "virtio"), (("sda",), "ssd"), (("nvme0n1", "nvme1n1"), "none")],
)
def test_a_volume_is_what_its_disk_is_and_several_disks_are_none(
    tmp_path: Path, disks: tuple[str, ...], device: str
) -> None:
    """LVM on NVMe was of the class of a SATA SSD, and so was an array of several disks."""
    files = {f"block/{name}/{name}p2/partition": "2\n" for name in disks}
    files |= {f"block/{name}/queue/rotational": "0\n" for name in (*disks, "dm-0")}
    sys = plant(tmp_path / "sys", files)
    (sys / "block/dm-0/slaves").mkdir()
    for name in disks:
        (sys / f"block/dm-0/slaves/{name}p2").symlink_to(sys / f"block/{name}/{name}p2")
    assert device_of(sys, "dm-0") == device


def test_the_name_that_such_a_disk_had_still_means_it() -> None:
    mine = "x86_64-4kB-virtual"
    assert all(is_of_class(mine, wanted) for wanted in (mine, "any", "x86_64-4kB-hdd"))
    assert not any(is_of_class(mine, wanted) for wanted in ("aarch64-4kB-hdd", "x86_64-4kB-ssd", "x86_64-4kB-virtio"))
    assert not is_of_class("x86_64-4kB-hdd", mine)
    assert not is_of_class("virtual", "hdd")  # names in a hosts file denote only themselves

"""The list of disks of `octavo host`, on planted files of /sys."""

from pathlib import Path

from tests.unit.planted import plant

from octavo.host.disks import disks


def test_a_path_of_an_nvme_disk_is_not_a_disk(tmp_path: Path) -> None:
    files = {
        f"block/{name}/{file}": text
        for name, hidden in (("nvme0n1", "0"), ("nvme0c0n1", "1"))
        for file, text in (("size", "2048\n"), ("hidden", f"{hidden}\n"), ("queue/physical_block_size", "4096\n"))
    }
    plant(tmp_path, {**files, "block/loop0/size": "0\n", "mountinfo": ""})
    found = disks(tmp_path, tmp_path / "mountinfo")
    assert [(disk.name, disk.size_bytes, disk.physical_sector_bytes) for disk in found] == [("nvme0n1", 2**20, 4096)]

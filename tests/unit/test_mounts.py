"""The mount that contains a path, on planted tables."""

import os
from pathlib import Path

from tests.unit.planted import plant

from octavo.host import mounts


def table(root: Path, *lines: str) -> Path:
    return (
        plant(root, {"mountinfo": "".join(f"{number} 1 {line}\n" for number, line in enumerate(lines))}) / "mountinfo"
    )


def test_a_mount_is_found_by_its_device_or_else_by_its_place(tmp_path: Path) -> None:
    number = tmp_path.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    root, here = "7777:1 / / rw - ext4 /dev/sda1 rw", f"7777:2 /@data {tmp_path} rw - btrfs /dev/sdb rw"
    elsewhere = f"7777:3 / {tmp_path}/below rw - xfs /dev/sdc rw"
    found = mounts.mount_of(tmp_path, table(tmp_path, here, elsewhere, root))
    assert found is not None and (found.kind, found.target) == ("btrfs", tmp_path)
    by_device = mounts.mount_of(tmp_path, table(tmp_path, root.replace("7777:1", device), here))
    assert by_device is not None and by_device.kind == "ext4"
    assert mounts.mount_of(tmp_path, table(tmp_path, elsewhere)) is None


def test_a_link_is_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    found = mounts.mount_of(
        tmp_path / "link",
        table(tmp_path, "7777:1 / / rw - ext4 /dev/sda1 rw", f"7777:2 / {tmp_path}/disk rw - xfs /dev/sdb rw"),
    )
    assert found is not None and found.kind == "xfs"

"""The instrument `requests`: the device at which it counts, and whether that device issues requests itself."""

import os
from pathlib import Path

import pytest

from octavo.instruments.base import UnavailableError
from octavo.instruments.requests import volume_under


def plant(sys: Path, data: Path, name: str, *, queue: bool) -> None:
    """A device under the data directory."""
    number = data.stat().st_dev
    device = sys / "devices" / name
    (device / "mq" if queue else device).mkdir(parents=True)
    (device / "dev").write_text("253:1\n")
    link = sys / f"dev/block/{os.major(number)}:{os.minor(number)}"
    link.parent.mkdir(parents=True)
    link.symlink_to(device)


@pytest.mark.parametrize(("name", "queue"), [("vda", True), ("dm-1", False), ("md0", False)])
def test_a_volume_without_a_queue_is_counted_by_what_is_submitted(tmp_path: Path, name: str, queue: bool) -> None:
    plant(tmp_path, tmp_path, name, queue=queue)
    assert volume_under(tmp_path, tmp_path) == (253 << 20 | 1, not queue)


def test_a_filesystem_without_a_device_has_none(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="no block device of its own"):
        volume_under(tmp_path, tmp_path)

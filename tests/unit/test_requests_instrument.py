"""The instrument `requests`: the device at which it counts, whether that device issues requests itself, and roles."""

import os
from pathlib import Path

import pytest

from octavo.instruments import requests
from octavo.instruments.base import UnavailableError
from octavo.instruments.request_counter import Requests
from octavo.instruments.requests import volume_under
from octavo.instruments.target import Target


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


class TwoRequests:
    """A counter that was told of two requests: one of a checkpointer, one of a backend."""

    def __init__(self, device: int, *, submitted: bool) -> None:
        del device, submitted

    def take(self) -> list[Requests]:
        return [Requests(1, 11, 8192, "W", 3), Requests(1, 12, 8192, "R", 5)]

    def lost(self) -> int:
        """Had room for both."""
        return 0

    def close(self) -> None:
        """Has nothing open."""


@pytest.mark.parametrize("cluster", ["", "18/main"])
def test_a_cluster_name_does_not_hide_the_roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: str) -> None:
    """Debian sets cluster_name, which every process then has before its role."""

    def volume(_: Path) -> tuple[int, bool]:
        return 1, False

    monkeypatch.setattr(requests, "RequestCounter", TwoRequests)
    monkeypatch.setattr(requests, "volume_under", volume)
    before = f"{cluster}: " if cluster else ""
    for pid, parent, title in ((11, 10, "checkpointer "), (12, 10, "app shop [local] idle")):
        place = tmp_path / str(pid)
        place.mkdir()
        (place / "stat").write_text(f"{pid} (postgres) S {parent} {' '.join(['0'] * 48)}\n")
        (place / "cmdline").write_text(f"postgres: {before}{title}")
    target = Target(lambda name: [{name: cluster}], 180000, tmp_path, 10, None, proc=tmp_path)
    found = requests.INSTRUMENT.open(target).read()
    assert {item for item in found if item and "kB" not in item} == {"checkpointer", "client backend"}

"""An undo leaves devices, swap and mounts that somebody else has set up in the place of ours."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.security.test_journal_trust import left

from octavo.host import loop_volume, mounts
from octavo.host.mounts import Mount
from octavo.host.process import boot_id
from octavo.host.undo import undo
from octavo.knobs import zram_swap

_OURS, _THEIRS = 8192, 4096


@pytest.fixture
def removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file to which numbers of devices are written that are to be removed; it does not exist before."""
    for name in ("block", "control"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(zram_swap, "_BLOCK", tmp_path / "block")
    monkeypatch.setattr(zram_swap, "_CONTROL", tmp_path / "control")
    return tmp_path / "control" / "hot_remove"


def sized(removed: Path, device: str, size: int) -> None:
    path = removed.parents[1] / "block" / device / "disksize"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{size}\n")


def zram(**facts: Any) -> dict[str, Any]:
    return {"kind": "zram", "there": [], "device": "zram3", "bytes": _OURS, "boot_id": boot_id(), **facts}


@pytest.mark.parametrize(("size", "what"), [(_OURS, "put back"), (0, "put back"), (_THEIRS, "left")])
def test_a_zram_device_is_removed_by_its_size(removed: Path, size: int, what: str) -> None:
    """0: killed before it had one."""
    sized(removed, "zram3", size)
    assert undo(zram(boot_id="another")) is None
    told = undo(zram())
    assert told is not None and told.what == what
    assert removed.exists() == (what == "put back")
    assert not removed.exists() or removed.read_text() == "3"


def test_a_zram_device_whose_number_was_not_noted_is_a_new_one_without_a_size(removed: Path) -> None:
    for device, size in (("zram0", 0), ("zram1", _THEIRS), ("zram2", 0)):
        sized(removed, device, size)
    told = undo(zram(there=["zram0"], device=None))
    assert told is not None and told.what == "put back"
    assert removed.read_text() == "2"


def test_swap_on_a_device_of_another_size_stays_on(removed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sized(removed, "zram3", _THEIRS)
    monkeypatch.setattr(zram_swap, "swaps", lambda: {"/dev/zram3": _THEIRS})

    def run(arguments: list[str], **_: object) -> None:
        pytest.fail(f"{arguments} was run")

    monkeypatch.setattr("octavo.knobs.zram_swap.subprocess.run", run)
    told = undo({"kind": "swap", "device": "zram3", "bytes": _OURS, "boot_id": boot_id()})
    assert told is not None and told.what == "left"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The programs that an undo of a volume runs; the image is on loop7, whose number is 7:7."""
    found: list[tuple[str, ...]] = []

    def ask(*arguments: str) -> str:
        found.append(arguments)
        return "busy"

    monkeypatch.setattr(loop_volume, "_ask", ask)
    monkeypatch.setattr(loop_volume, "_attached", Mock(return_value=["loop7"]))
    monkeypatch.setattr(loop_volume, "number_of", Mock(return_value="7:7"))
    return found


@pytest.mark.parametrize(("device", "programs"), [("8:1", []), ("7:7", ["umount"])])
def test_only_our_own_image_is_unmounted(
    own_home: Path, asked: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, device: str, programs: list[str]
) -> None:
    place, _ = left(own_home, "volumes/one")
    monkeypatch.setattr(mounts, "at", Mock(return_value=Mount(device, place, "ext4", "/dev/sda1")))
    told = undo({"kind": "mount", "directory": str(place), "image": str(place.with_suffix(".image"))})
    assert told is not None and told.what == "failed"
    assert [program for program, *_ in asked] == programs


def test_a_device_that_is_still_mounted_stays_attached(
    own_home: Path, asked: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, _ = left(own_home, "volumes/one")
    monkeypatch.setattr(mounts, "mounts", lambda: [Mount("7:7", place, "ext4", "/dev/loop7")])
    told = undo({"kind": "loop", "image": str(place.with_suffix(".image"))})
    assert told is not None and told.what == "failed"
    assert asked == []


def test_a_directory_with_a_mount_in_it_is_not_removed(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, entry = left(own_home, "scratch/one")
    theirs = Mount("8:1", place / "theirs", "ext4", "/dev/sda1")
    monkeypatch.setattr(mounts, "below", Mock(return_value=[theirs]))
    told = undo(entry)
    assert told is not None and (told.what, place.exists()) == ("failed", True)
    assert f"{place / 'theirs'} is mounted in it" in told.line

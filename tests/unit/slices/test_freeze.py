"""What is written to a control group to stop it, on planted trees of both versions."""

import subprocess
import sys
from pathlib import Path

import pytest

from octavo.errors import OctavoError
from octavo.host import child_group
from octavo.lab.slices.freeze import ClientFreezer, DeviceFreezer, GroupFreezer


@pytest.fixture(params=[1, 2])
def group(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A group whose kernel would report that it has stopped."""
    files = {
        1: {"freezer.state": "FROZEN\n"},
        2: {"cgroup.controllers": "", "cgroup.freeze": "0\n", "cgroup.events": "populated 1\nfrozen 1\n"},
    }
    for name, text in files[request.param].items():
        (tmp_path / name).write_text(text)
    return tmp_path


def asked(group: Path) -> str:
    name = "cgroup.freeze" if child_group.is_version_2(group) else "freezer.state"
    return (group / name).read_text()


def test_a_group_is_stopped_and_let_go_on(group: Path) -> None:
    freezer = GroupFreezer(group)
    assert child_group.can_freeze(group)
    freezer.freeze()
    assert asked(group) in ("1", "FROZEN")
    freezer.thaw()
    assert asked(group) in ("0", "THAWED")
    assert freezer.how.endswith(f"version {2 if child_group.is_version_2(group) else 1})")


def test_it_waits_until_all_stand_still_and_not_for_ever(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    (tmp_path / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    times = iter(range(1000))
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)

    with pytest.raises(OctavoError, match="could not be paused; interleave = trials"):
        GroupFreezer(tmp_path, now=lambda: next(times), wait=wait).freeze()
    assert len(waited) == 30


def test_a_client_stands_still_when_this_is_said(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    freezer = ClientFreezer(process.pid)
    try:
        freezer.freeze()
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert state == "T"
        freezer.thaw()
    finally:
        process.kill()
        process.wait()
    freezer.freeze()  # the group no longer exists


def test_everything_below_is_let_go_on(group: Path) -> None:
    below = group / "below"
    below.mkdir()
    for path in group.iterdir():
        if path.is_file():
            (below / path.name).write_text(path.read_text())
    GroupFreezer(group).freeze()
    GroupFreezer(below).freeze()
    child_group.thaw(group)
    assert asked(group) in ("0", "THAWED")
    assert asked(below) in ("0", "THAWED")


def test_a_directory_that_is_no_group_cannot_be_stopped(tmp_path: Path) -> None:
    assert not child_group.can_freeze(tmp_path)
    assert not child_group.is_frozen(tmp_path)


class Part:
    """A cell and a device that record their calls; `refuses`: the device does not continue."""

    how = "all of it"

    def __init__(self, done: list[str], *, refuses: bool = False) -> None:
        self._done, self._refuses = done, refuses

    def freeze(self) -> None:
        self._done.append("cell stops")

    def thaw(self) -> None:
        self._done.append("cell goes on")

    def pause(self) -> None:
        self._done.append("device stops")

    def resume(self) -> None:
        if self._refuses:
            raise OctavoError("the kernel refuses it")
        self._done.append("device goes on")


def test_a_device_is_paused_after_its_cell_and_goes_on_before_it() -> None:
    done: list[str] = []
    freezer = DeviceFreezer(Part(done), Part(done))
    freezer.freeze()
    freezer.thaw()
    assert done == ["cell stops", "device stops", "device goes on", "cell goes on"]
    assert freezer.how == "all of it; its device"


def test_a_cell_goes_on_where_its_device_does_not() -> None:
    done: list[str] = []
    freezer = DeviceFreezer(Part(done), Part(done, refuses=True))
    freezer.freeze()
    with pytest.raises(OctavoError, match="refuses"):
        freezer.thaw()
    assert done == ["cell stops", "device stops", "cell goes on"]

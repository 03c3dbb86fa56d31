"""The group of a server on cgroup version 2, planted: its limits, its controllers, what a killed run left."""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.planted import plant

from octavo.errors import HostError
from octavo.host import block_limit, cgroup
from octavo.host.block_limit import DeviceLimits
from octavo.host.journal import Journal, restore
from octavo.host.undo import Undone
from octavo.knobs import device
from octavo.knobs.server_group import server_group


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def unified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A version 2 hierarchy: controllers are switched by +name and -name, a group's files disappear with its
    directory, and a group that has others cannot be removed."""
    root = plant(
        tmp_path / "cgroup",
        {"cgroup.controllers": "cpuset cpu io memory pids\n", "cgroup.subtree_control": "memory pids\n"},
    )
    write_text, rmdir = Path.write_text, Path.rmdir

    def switch(self: Path, data: str, *arguments: str) -> int:
        if self.name == "cgroup.subtree_control" and self.exists():
            names = [name for name in self.read_text().split() if name != data[1:]]
            data = " ".join([*names, data[1:]] if data[0] == "+" else names)
        return write_text(self, data, *arguments)

    def remove(self: Path) -> None:
        if root in self.parents:
            if any(below.is_dir() for below in self.iterdir()):
                raise OSError(errno.EBUSY, "Device or resource busy")
            shutil.rmtree(self)
        else:
            rmdir(self)

    monkeypatch.setattr(Path, "write_text", switch)
    monkeypatch.setattr(Path, "rmdir", remove)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    yield root


def test_the_group_of_version_2(unified: Path) -> None:
    with Journal() as journal:
        with cgroup.group("a", journal, memory=64 * 1024**2, io=True, root=unified) as path:
            assert path == unified / "octavo-a"
            assert cgroup.achieved_limit(path) == 64 * 1024**2
            assert set((unified / "cgroup.subtree_control").read_text().split()) == {"memory", "pids", "io"}
        assert not path.exists()
        assert set((unified / "cgroup.subtree_control").read_text().split()) == {"memory", "pids"}


def test_the_limits_of_version_2(unified: Path) -> None:
    with (
        Journal() as journal,
        cgroup.group("a", journal, io=True, root=unified) as path,
        block_limit.throttled("7:3", DeviceLimits(3000.0, None), journal, path, unified) as throttle,
    ):
        throttle.limit(DeviceLimits(3000.0, None), DeviceLimits(1500.4, None))
        assert (path / "io.max").read_text() == "7:3 rbps=max wbps=max riops=3000 wiops=1500"
        assert not (path / "memory.max").exists()
    assert not path.exists()


def test_a_limit_on_version_2_needs_a_group(unified: Path) -> None:
    assert block_limit.needs_group(unified)
    assert block_limit.cannot_limit(unified) is None
    with (
        Journal() as journal,
        pytest.raises(HostError),
        block_limit.throttled("7:3", DeviceLimits(1.0, None), journal, None, unified),
    ):
        raise AssertionError("not reached")


@pytest.mark.parametrize(
    ("file", "value"), [("io.max", "8:0 rbps=1 wbps=max riops=max wiops=max"), ("io.weight", "default 50")]
)
def test_a_controller_that_others_use_by_now_is_left(file: str, value: str, unified: Path) -> None:
    told: list[Undone] = []
    with Journal(told.append) as journal, cgroup.group("a", journal, io=True, root=unified):
        plant(unified, {f"somebody/{file}": f"{value}\n"})
    assert "io" in (unified / "cgroup.subtree_control").read_text().split()
    assert [one.what for one in told] == ["left"]


def test_a_controller_that_a_group_offers_on_is_left(unified: Path) -> None:
    """As systemd does for a unit with IOAccounting=, which was set meanwhile; removing it gives EBUSY."""
    told: list[Undone] = []
    with Journal(told.append) as journal, cgroup.group("a", journal, io=True, root=unified):
        plant(
            unified, {"system.slice/cgroup.subtree_control": "io memory\n", "system.slice/io.weight": "default 100\n"}
        )
    assert "io" in (unified / "cgroup.subtree_control").read_text().split()
    assert [(one.what, "system.slice offers it" in one.line) for one in told] == [("left", True)]


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENODEV])
def test_a_group_that_goes_while_it_is_read_has_no_setting(
    number: int, unified: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a unit that systemd stops, or the children of another command."""
    told: list[Undone] = []
    read_text = Path.read_text

    def gone(self: Path, *arguments: str) -> str:
        if self.parent.name == "going":
            raise OSError(number, os.strerror(number))
        return read_text(self, *arguments)

    with Journal(told.append) as journal, cgroup.group("a", journal, io=True, root=unified):
        plant(unified, {"going/io.max": "", "going/cgroup.subtree_control": ""})
        monkeypatch.setattr(Path, "read_text", gone)
    assert "io" not in (unified / "cgroup.subtree_control").read_text().split()
    assert told == []


def test_a_root_with_processes_in_it_offers_no_controllers(unified: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text = Path.write_text

    def refuse(self: Path, data: str, *arguments: str) -> int:
        if self.name == "cgroup.subtree_control":
            raise OSError(errno.EBUSY, "Device or resource busy")
        return write_text(self, data, *arguments)

    monkeypatch.setattr(Path, "write_text", refuse)
    with (
        Journal() as journal,
        pytest.raises(HostError, match="does not offer io to groups: Device or resource busy; run on the host"),
        cgroup.group("a", journal, io=True, root=unified),
    ):
        raise AssertionError("not reached")


def test_a_killed_group_of_version_2_is_removed(unified: Path) -> None:
    with Journal() as journal, cgroup.group("a", journal, memory=64 * 1024**2, io=True, root=unified) as path:
        # What a process killed at this moment would leave: the same journal, without a lock.
        journal.path.with_name("killed.jsonl").write_text(journal.path.read_text())
        assert {one.what for one in restore()} == {"put back"}
        assert not path.exists()
        assert set((unified / "cgroup.subtree_control").read_text().split()) == {"memory", "pids"}


def test_a_killed_group_is_removed_with_the_groups_of_children(unified: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own group lies in the limited one, and is in no journal."""
    monkeypatch.setattr(cgroup, "_REMOVAL_SECONDS", 0.0)
    with Journal() as journal, cgroup.group("a", journal, memory=64 * 1024**2, root=unified) as path:
        plant(path, {"0a1b2c3d/cgroup.procs": "", "4e5f6a7b/cgroup.procs": ""})
        journal.path.with_name("killed.jsonl").write_text(journal.path.read_text())
        assert {one.what for one in restore()} == {"put back"}
        assert not path.exists()


def test_a_host_without_controllers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert block_limit.cannot_limit(tmp_path) == "this host has no cgroup controller for devices (blkio or io)"
    with Journal() as journal, pytest.raises(HostError), cgroup.group("a", journal, memory=2**20, root=tmp_path):
        raise AssertionError("not reached")


def test_a_device_limit_on_version_2_needs_the_memory_controller(unified: Path) -> None:
    """Which the firmware of a Raspberry Pi turns off (cgroup_disable=memory)."""
    plant(unified, {"cgroup.controllers": "cpuset cpu io pids\n"})
    reason = block_limit.cannot_limit(unified)
    assert reason is not None
    assert "only with the cgroup controller memory" in reason


def test_huge_pages_are_taken_off_the_memory_limit(unified: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no(_levels: device.Levels) -> bool:
        return False

    monkeypatch.setattr(device, "needs_group", no)
    with (
        Journal() as journal,
        server_group({"memory": "1GB"}, journal, huge_page_bytes=256 * 1024**2, root=unified) as path,
    ):
        assert path is not None
        assert cgroup.achieved_limit(path) == 768 * 1024**2
    with Journal() as journal, server_group({"memory": "none"}, journal, root=unified) as path:
        assert path is None


@pytest.mark.parametrize(
    ("mount", "charged"),
    [
        ("cgroup2 cgroup2 rw,nsdelegate,memory_hugetlb_accounting", True),
        ("cgroup2 cgroup2 rw,nsdelegate", False),
        ("cgroup cgroup rw,memory", False),
    ],
)
def test_huge_pages_that_are_charged_to_the_group(mount: str, charged: bool, unified: Path) -> None:
    table = plant(unified.parent, {"mountinfo": f"41 31 0:999 / {unified} rw - {mount}\n"}) / "mountinfo"
    assert cgroup.charges_huge_pages(unified, table) is charged


def test_charged_huge_pages_stay_in_the_memory_limit(unified: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def charged(_: Path) -> bool:
        return True

    monkeypatch.setattr(cgroup, "charges_huge_pages", charged)
    levels = {"memory": "1GB", "device": "native"}
    with Journal() as journal, server_group(levels, journal, huge_page_bytes=2**28, root=unified) as path:
        assert path is not None
        assert cgroup.achieved_limit(path) == 2**30


def test_memory_and_swap_that_are_charged_in_either_version(tmp_path: Path) -> None:
    kernel = "kernel_stack 512\npagetables 4096\nswapcached 3\n"
    plant(tmp_path / "2", {"memory.stat": f"anon 5\nfile 1030\nshmem 1024\nhugetlb 2097152\n{kernel}",
                           "memory.swap.current": "77\n"})  # fmt: skip
    assert cgroup.bytes_besides_kernel(tmp_path / "2") == 5 + 1030 + 2097152
    assert cgroup.swapped_bytes(tmp_path / "2") == 77
    stat = "cache 1030\nrss 5\nrss_huge 2\nshmem 1024\nmapped_file 9\n"
    plant(tmp_path / "1", {"memory.stat": f"{stat}swap 88\ntotal_cache 1030\ntotal_rss 5\ntotal_swap 88\n"})
    assert (cgroup.bytes_besides_kernel(tmp_path / "1"), cgroup.swapped_bytes(tmp_path / "1")) == (1035, 88)
    plant(tmp_path / "1", {"memory.stat": stat})
    assert cgroup.swapped_bytes(tmp_path / "1") is None


def test_shared_memory_that_is_charged(unified: Path) -> None:
    """Linux shows `hugetlb` only where huge pages are charged."""
    plant(unified, {"memory.stat": "anon 5\nfile 6\nshmem 1024\n"})
    assert cgroup.shared_bytes(unified) == 1024
    plant(unified, {"memory.stat": "anon 5\nhugetlb 2097152\nshmem 1024\n"})
    assert cgroup.shared_bytes(unified) == 2097152 + 1024

"""Private volumes and their limits on a real kernel: made, measured, limited while a burst runs out, and removed."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo import knobs
from octavo.errors import HostError
from octavo.host import block_limit, cgroup, confine, loop_volume, mounts
from octavo.host.journal import Journal, restore
from octavo.host.kernel_value import KernelValue
from octavo.host.loop_devices import devices_on
from octavo.host.undo import Undone
from octavo.knobs import device, filesystem, huge_pages, probe
from octavo.knobs.base import KnobTarget
from octavo.knobs.credits import DeviceTotals
from octavo.knobs.enforcer import served_by
from octavo.knobs.server_group import server_group
from octavo.lab.validity.watch import Watcher

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(
        os.geteuid() != 0 or loop_volume.cannot_make("ext4") is not None,
        reason=f"volumes need root and loop devices: {loop_volume.cannot_make('ext4') or 'no root'}",
    ),
]
_MB = 1024**2
_CANNOT_LIMIT = block_limit.cannot_limit() or ("it needs a server's group" if block_limit.needs_group() else None)
limits = pytest.mark.skipif(_CANNOT_LIMIT is not None, reason=str(_CANNOT_LIMIT))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"
    restore()


@pytest.fixture(autouse=True)
def queues_are_as_found() -> Iterator[None]:
    """Settings of a loop device outlive its image: the next user of the device would have them."""

    def queues() -> dict[str, str]:
        names = ("max_sectors_kb", "read_ahead_kb", "scheduler", "nr_requests")
        return {
            str(file): file.read_text() for name in names for file in Path("/sys/block").glob(f"loop*/queue/{name}")
        }

    before = queues()
    yield
    after = queues()
    assert {name: after[name] for name in before} == before


def nothing_left(home: Path) -> bool:
    return not mounts.below(home) and not list((home / "volumes").iterdir()) and not list((home / "journal").iterdir())


@pytest.mark.parametrize(("kind", "block"), [("ext4", 4096), ("xfs", 1024), ("xfs", 4096), ("xfs", 65536)])
def test_a_volume_for_a_large_database_has_the_room_that_a_copy_asks_for(
    kind: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sparse(image: Path, size: int) -> None:
        with image.open("wb") as file:
            file.truncate(size)

    if unfit := loop_volume.cannot_make(kind) or filesystem.cannot(f"{kind}/{block // 1024}kB"):
        pytest.skip(unfit)
    monkeypatch.setattr(loop_volume, "_allocate", sparse)
    content = 23 * 1024**3
    with (
        Journal() as journal,
        loop_volume.loop_volume(device.volume_bytes(content), kind, block, journal) as volume,
    ):
        assert shutil.disk_usage(volume.directory).free >= 1.1 * content


@pytest.mark.parametrize(("level", "block"), [("ext4/1kB", 1024), ("ext4", 4096), ("xfs", 4096), ("xfs/64kB", 65536)])
def test_a_filesystem_of_this_block(home: Path, level: str, block: int) -> None:
    if reason := filesystem.cannot(level):
        pytest.skip(reason)
    with Journal() as journal:
        with device.volume({"filesystem": level}, 8 * _MB, journal) as made:
            assert made is not None
            facts = os.statvfs(made.directory)
            assert facts.f_bsize == block
            assert facts.f_flag & (os.ST_NOSUID | os.ST_NODEV) == os.ST_NOSUID | os.ST_NODEV
            mount = mounts.at(made.directory)
            assert mount is not None
            assert (mount.kind, mount.source) == (level.partition("/")[0], f"/dev/{made.device}")
            assert made.image.stat().st_blocks * 512 >= made.image.stat().st_size, "the image has holes"
            (made.directory / "file").write_bytes(b"x" * block)
            image = made.image.stat()
            assert devices_on(image.st_dev, image.st_ino) == [made.device]
            assert made.as_dict()["filesystem_block_bytes"] == block
        assert devices_on(image.st_dev, image.st_ino) == []
    assert nothing_left(home)


_READ_DIRECTLY = """
import mmap, os, sys
buffer = mmap.mmap(-1, 1 << 20)
file = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
while os.readv(file, [buffer]):
    pass
"""


def test_who_reads_the_disk_below_a_volume_is_seen(home: Path, tmp_path: Path) -> None:
    """The loop device itself counts only reads of the volume."""
    other = tmp_path / "other"
    other.write_bytes(os.urandom(16 * _MB))
    os.sync()
    with (
        Journal() as journal,
        device.volume({"filesystem": "ext4"}, 8 * _MB, journal) as made,
        subprocess.Popen(["cat"], stdin=subprocess.PIPE) as nobody,  # its children would count as ours
    ):
        assert made is not None
        watch = Watcher(lambda _: None, root=nobody.pid).start(made.directory)
        subprocess.run([sys.executable, "-c", _READ_DIRECTLY, str(other)], check=True)
        seen = watch()
        assert nobody.stdin is not None
        nobody.stdin.close()
    assert seen.own_read_bytes == 0
    assert seen.foreign_read_bytes is not None and seen.foreign_read_bytes >= 16 * _MB


def test_a_home_behind_a_link(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir()
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "link"))
    with Journal() as journal, device.volume({"device": "loop"}, 8 * _MB, journal) as made:
        assert made is not None
        assert mounts.at(made.directory) is not None
        image = made.image.stat()
        assert devices_on(image.st_dev, image.st_ino) == [made.device]
    assert mounts.below(home) == []
    assert nothing_left(home)


def test_no_volume_where_none_is_needed() -> None:
    with Journal() as journal:
        with device.volume({"device": "native"}, 8 * _MB, journal) as made:
            assert made is None
        with device.limited("native", None, journal) as limited:
            assert limited.facts == {"device": "native"}


def test_a_volume_that_does_not_fit_is_an_error_and_leaves_nothing(home: Path) -> None:
    with (
        Journal() as journal,
        pytest.raises(HostError, match="does not fit"),
        device.volume({"device": "loop"}, 2**50, journal),
    ):
        raise AssertionError("not reached")
    assert nothing_left(home)


def test_a_mount_that_others_use_is_tried_again(home: Path) -> None:
    """Another user's shell in our volume keeps it mounted: this is reported, and the next command unmounts it."""
    told: list[Undone] = []
    with Journal(told.append) as journal, device.volume({"device": "loop"}, 8 * _MB, journal) as made:
        assert made is not None
        somebody = subprocess.Popen(["cat"], cwd=made.directory, stdin=subprocess.PIPE)
        assert (made.directory / "lost+found").exists()
    try:
        assert {one.what for one in told} == {"failed"}
        assert mounts.at(made.directory) is not None
        assert made.image.exists(), "nothing is removed through a mount"
    finally:
        somebody.communicate()
    again = restore()
    assert {one.what for one in again} == {"put back"}
    assert nothing_left(home)


@limits
def test_limits_are_what_was_asked_for_and_end_with_the_context(home: Path) -> None:
    with Journal() as journal, device.volume({"device": "iops=400"}, 8 * _MB, journal) as made:
        assert made is not None
        facts = device.measured("iops=400,mbps=20", made, journal)
        asked, achieved = facts["device_limit_asked"], facts["device_limit_achieved"]
        assert asked == {
            "reads_per_second": 400.0,
            "writes_per_second": 400.0,
            "read_bytes_per_second": 20 * _MB,
            "written_bytes_per_second": 20 * _MB,
        }
        for name, rate in asked.items():
            assert achieved[name] <= 1.15 * rate, name
            assert achieved[name] >= 0.3 * rate, name  # a busy machine may be slower, but not this much
        assert not limits_of(made.number), "the server starts and warms up without limits"
        with device.limited("iops=400,mbps=20", made, journal):
            assert limits_of(made.number)
        assert not limits_of(made.number)
        assert not (made.directory / "probe").exists()
    assert nothing_left(home)


@limits
def test_a_paused_device_holds_back_what_was_dirtied(home: Path) -> None:
    """As between the slices of a cell that writes: the kernel's write-back waits meanwhile."""
    with Journal() as journal, device.volume({"device": "loop"}, 64 * _MB, journal) as made:
        assert made is not None
        with device.limited("mbps=20", made, journal) as limited:
            assert limited.enforcer is not None
            limited.enforcer.pause()
            before = served_by(made.device)
            (made.directory / "data").write_bytes(os.urandom(8 * _MB))
            synced = subprocess.Popen(["sync", "-f", made.directory])
            with pytest.raises(subprocess.TimeoutExpired):
                synced.wait(3)
            held = served_by(made.device).since(before)
            limited.enforcer.resume()
            assert synced.wait(60) == 0
            served = served_by(made.device).since(before)
        assert held.written_bytes < 2 * _MB
        assert served.written_bytes >= 8 * _MB
    assert nothing_left(home)


def limits_of(number: str) -> list[str]:
    """The lines of all limits for this device."""
    files = Path("/sys/fs/cgroup/blkio").glob("blkio.throttle.*_device")
    return [line for file in files for line in file.read_text().splitlines() if line.startswith(f"{number} ")]


@limits
def test_a_limit_that_was_left_on_a_device_does_not_hold_for_the_next_volume(home: Path) -> None:
    """For example of a run whose state directory was removed: the kernel keeps a limit by the device's number."""
    with Journal() as journal, device.volume({"device": "loop"}, 8 * _MB, journal) as made:
        assert made is not None
        left = KernelValue(Path("/sys/fs/cgroup/blkio/blkio.throttle.read_iops_device"), "device", made.number)
    left.write("304")
    try:
        with Journal() as journal, device.volume({"device": "loop"}, 8 * _MB, journal) as again:
            assert again is not None
            assert again.number == left.device
            assert not limits_of(again.number)
    finally:
        left.write("")
    assert nothing_left(home)


@limits
def test_requests_of_a_named_volume_are_counted_as_it_counts_them(home: Path) -> None:
    with Journal() as journal, device.volume({"device": "gp3:3000/125"}, 8 * _MB, journal) as made:
        assert made is not None
        assert (made.queue / "max_sectors_kb").read_text() == "256\n"
        with (
            knobs.applied({"readahead": "64kB"}, journal, KnobTarget(made.directory)) as state,
            device.limited("gp3:3000/125", made, journal) as limited,
        ):
            assert limited.facts["volume"]["largest_request_bytes"] == 256 * 1024
            assert state.drifted() == [], "a new limit of the queue makes the kernel choose its readahead anew"


@limits
def test_a_burst_runs_out_while_the_trial_runs(home: Path) -> None:
    with Journal() as journal, device.volume({"device": "loop"}, 64 * _MB, journal) as made:
        assert made is not None
        file = made.directory / "data"
        file.write_bytes(os.urandom(32 * _MB))
        os.sync()
        served: list[DeviceTotals] = []
        with device.limited("gp2:100,credits=600", made, journal) as limited:
            for _ in range(2):
                before = served_by(made.device)
                probe.measure(str(file), 4096, 32, 1.5, write=False)
                served.append(served_by(made.device).since(before))
        assert limited.facts["credits_spent_after_seconds"] is not None
        first, then = (one.reads for one in served)
        # 600 credits and 300 a second, for 1.75 s and the requests in flight; then the baseline alone.
        assert first <= 600 + 300 * 1.75 * 1.3 + 100
        assert then <= 300 * 1.75 * 1.3 + 100
        assert first > then


@pytest.mark.skipif(cgroup.memory_controller() is None, reason="no memory controller")
def test_a_server_is_born_in_its_group() -> None:
    with Journal() as journal, server_group({"memory": "64MB"}, journal) as group:
        assert group is not None
        assert cgroup.achieved_limit(group) == 64 * _MB
        script = "print(open('/proc/self/cgroup').read())"
        command = [*confine.entering([group]), sys.executable, "-I", "-S", "-c", script]
        assert group.name in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert not group.exists()


def test_knobs_of_this_kernel_for_a_moment(home: Path) -> None:
    """Settings that this kernel offers are set and read back; each is in force for some milliseconds."""
    with Journal() as journal, device.volume({"device": "loop"}, 8 * _MB, journal) as made:
        assert made is not None
        place = KnobTarget(made.directory)
        levels = {
            "thp": "never", "shmem_thp": "advise", "thp_defrag": "defer", "khugepaged": "off", "swappiness": "61",
            "readahead": "64kB", "io_scheduler": "mq-deadline", "dirty_limits": "1GB/2GB", "overcommit": "always",
            "zram_swap": "16MB",
        }  # fmt: skip
        possible = {name: level for name, level in levels.items() if knobs.cannot({name: level}, place) is None}
        assert {"swappiness", "readahead"} <= set(possible)
        with knobs.applied(possible, journal, place) as state:
            told, drifted = state.as_dict(), state.drifted()
        with knobs.applied({}, journal, place):
            pass
    assert drifted == []
    for name in set(possible) & {"thp", "shmem_thp", "thp_defrag", "swappiness", "io_scheduler", "dirty_limits"}:
        assert told[name]["achieved"] == levels[name]
    if "overcommit" in possible:
        assert told["overcommit"]["achieved"].startswith("always")
    assert told["readahead"]["achieved"] == "64"


def test_huge_pages_are_given_and_given_back() -> None:
    smallest = min(huge_pages.sizes(), default=0)
    if not smallest or smallest > 2 * _MB:
        pytest.skip("this host has no small huge pages")
    file = Path(f"/sys/kernel/mm/hugepages/hugepages-{smallest // 1024}kB/nr_hugepages")
    before = file.read_text()
    with Journal() as journal, huge_pages.pools({smallest: 3}, journal) as pools:
        assert int(file.read_text()) - int(before) == pools[smallest].given
        assert 0 <= pools[smallest].given <= 3
    assert file.read_text() == before


def test_the_journal_names_the_device_before_it_is_known(home: Path) -> None:
    """A loop device is found by its image, so that a kill just after its creation leaves nothing."""
    with Journal() as journal:
        place = home / "volumes" / "killed"
        place.mkdir(parents=True)
        image = place / "image"
        image.write_bytes(b"\0" * _MB)
        attached = subprocess.run(
            ["losetup", "--find", "--show", str(image)], capture_output=True, text=True, check=True
        ).stdout.strip()
        facts = image.stat()
        entry = {
            "number": 1, "kind": "loop", "image": str(image), "inode_device": facts.st_dev, "inode": facts.st_ino,
        }  # fmt: skip
        journal.path.with_name("killed.jsonl").write_text(json.dumps(entry) + "\n")
        assert devices_on(facts.st_dev, facts.st_ino) == [Path(attached).name]
        assert [one.what for one in restore()] == ["put back"]
        assert devices_on(facts.st_dev, facts.st_ino) == []

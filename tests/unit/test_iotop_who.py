"""Disks and processes of a planted machine: their names, and their activity."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.planted import plant

from octavo.errors import UsageError
from octavo.host.diskstats import DiskTotals, parse_diskstats
from octavo.host.page_stack import page_stack
from octavo.instruments.request_counter import kernel_number
from octavo.iotop.devices import device_name, disks_below, find_disk, without_queue
from octavo.iotop.from_proc import FromProc
from octavo.iotop.process_info import ProcessInfo, ProcessLookup
from octavo.iotop.request_source import RequestCount

# --- the kernel's tables

counts = st.integers(0, 2**63)


@given(st.lists(counts, min_size=11, max_size=17))
def test_diskstats_of_every_age(numbers: list[int]) -> None:
    (name, found), *more = parse_diskstats("254 0 vda " + " ".join(map(str, numbers)) + "\n1 0 short 1\n").items()
    assert name == "vda" and not more
    assert (found.reads, found.read_bytes, found.writes) == (numbers[0], numbers[2] * 512, numbers[4])
    assert (found.written_bytes, found.busy_ms) == (numbers[6] * 512, numbers[9])
    assert found.discards == (numbers[11] if len(numbers) > 13 else None)
    nothing = DiskTotals(0, 0, 0, 0) if found.discards is None else DiskTotals(0, 0, 0, 0, 0, 0)
    assert found.since(found) == nothing


def test_busy_time_that_wrapped() -> None:
    """The kernel's milliseconds are an unsigned int, which a busy disk fills in 49.7 days."""
    before = DiskTotals(100, 0, 20, 0, busy_ms=2**32 - 400)
    assert DiskTotals(300, 0, 24, 0, busy_ms=500).since(before).busy_ms == 900


def test_a_disk_that_was_made_anew_counts_from_zero() -> None:
    assert DiskTotals(1, 512, 0, 0).since(DiskTotals(9, 9216, 0, 0)) == DiskTotals(1, 512, 0, 0)


def plant_disks(sys: Path) -> None:
    """A disk with a partition, and a volume stacked on it."""
    plant(sys, {
        "devices/vda/dev": "254:0\n", "devices/vda/size": "2048\n", "devices/vda/vda1/partition": "1\n",
        "devices/vda/vda1/dev": "254:1\n", "devices/dm-0/dev": "253:0\n", "devices/dm-0/slaves/vda": "",
    })  # fmt: skip
    for link, place in {
        "class/block/vda": "vda", "class/block/vda1": "vda/vda1", "class/block/dm-0": "dm-0",
        "dev/block/254:0": "vda", "dev/block/254:1": "vda/vda1", "block/vda": "vda",
    }.items():  # fmt: skip
        (sys / link).parent.mkdir(parents=True, exist_ok=True)
        (sys / link).symlink_to(sys / "devices" / place)


def test_a_disk_is_found_by_its_name_its_partition_and_its_number(tmp_path: Path) -> None:
    plant_disks(tmp_path)
    assert find_disk("vda", tmp_path) == find_disk("vda1", tmp_path) == ("vda", kernel_number(254, 0))
    assert device_name(kernel_number(254, 1), tmp_path) == "vda1"
    assert device_name(kernel_number(9, 9), tmp_path) == "9:9"


def link_number(sys: Path, number: int) -> None:
    """Gives the planted vda this device number (st_dev or st_rdev)."""
    link = sys / "dev/block" / f"{os.major(number)}:{os.minor(number)}"
    link.unlink(missing_ok=True)
    link.symlink_to(sys / "devices/vda")


def test_a_disk_is_found_by_a_directory_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant_disks(tmp_path)
    link_number(tmp_path, tmp_path.stat().st_dev)
    monkeypatch.chdir(tmp_path)
    for asked in (str(tmp_path), "."):
        assert find_disk(asked, tmp_path)[0] == "vda"


def test_a_block_device_is_its_own_disk_and_has_no_filesystem(tmp_path: Path) -> None:
    device = next((path for path in Path("/dev").iterdir() if path.is_block_device()), None)
    if device is None:
        pytest.skip("no block device here")
    plant_disks(tmp_path)
    plant(tmp_path, {"devices/vda/queue/read_ahead_kb": "8192\n"})
    link_number(tmp_path, device.stat().st_rdev)
    assert find_disk(str(device), tmp_path)[0] == "vda"
    sizes = {layer.layer: layer.size_bytes for layer in page_stack(device, tmp_path)}
    assert sizes["readahead"] == 8192 * 1024
    assert "filesystem block" not in sizes


@pytest.mark.parametrize(
    ("asked", "words"), [("sdz", "available: vda"), ("", "available: vda"), ("../etc", "available: vda")]
)
def test_a_disk_that_is_not_there(tmp_path: Path, asked: str, words: str) -> None:
    plant_disks(tmp_path)
    with pytest.raises(UsageError, match=words) as caught:
        find_disk(asked, tmp_path)
    assert "\n" not in str(caught.value)


def plant_volumes(sys: Path) -> None:
    """A logical volume (dm-1) on a stripe (md0) of a partition and a disk; disks have queues, volumes have none."""
    numbers = {"vda": "254:0", "vda/vda1": "254:1", "vdb": "254:16", "md0": "9:0", "dm-1": "253:1"}
    for place, number in numbers.items():
        plant(sys, {f"devices/{place}/dev": f"{number}\n", f"devices/{place}/size": "2048\n"})
        for link in (f"class/block/{Path(place).name}", f"dev/block/{number}"):
            (sys / link).parent.mkdir(parents=True, exist_ok=True)
            (sys / link).symlink_to(sys / "devices" / place)
    plant(sys, {"devices/vda/vda1/partition": "1\n"})
    for disk in ("vda", "vdb"):
        (sys / "devices" / disk / "mq").mkdir()
    for volume, parts in {"md0": ("vda/vda1", "vdb"), "dm-1": ("md0",)}.items():
        (sys / "devices" / volume / "slaves").mkdir()
        for part in parts:
            (sys / "devices" / volume / "slaves" / Path(part).name).symlink_to(sys / "devices" / part)


def test_a_volume_is_looked_at_itself_and_beside_it_the_disks_below(tmp_path: Path) -> None:
    plant_volumes(tmp_path)
    assert find_disk("dm-1", tmp_path) == ("dm-1", kernel_number(253, 1))
    assert disks_below("dm-1", tmp_path) == disks_below("md0", tmp_path) == ("vda", "vdb")
    assert disks_below("vda", tmp_path) == ()
    assert [without_queue(name, tmp_path) for name in ("dm-1", "md0", "vda", "vdb")] == [True, True, False, False]


# --- who

KERNEL_THREAD = 0x00200000


def plant_process(proc: Path, pid: int, name: str, parent: int, title: str, flags: int = 0, start: int = 100) -> None:
    numbers = ["S", parent, 0, 0, 0, 0, flags, *[0] * 12, start, *[0] * 20]
    plant(proc, {
        f"{pid}/stat": f"{pid} ({name}) {' '.join(map(str, numbers))}\n", f"{pid}/cmdline": title.replace(" ", "\0"),
        f"{pid}/io": f"read_bytes: {pid * 10}\nwrite_bytes: 3\ncancelled_write_bytes: 1\n",
    })  # fmt: skip


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    root = tmp_path / "proc"
    plant_process(root, 10, "postgres", 1, "/usr/lib/postgresql/18/bin/postgres -D /data")
    plant_process(root, 11, "postgres", 10, "postgres: 18/main: checkpointer ")
    plant_process(root, 12, "postgres", 10, "postgres: 18/main: io worker 1")
    plant_process(root, 13, "postgres", 10, "postgres: 18/main: app shop\x1b[2J [local] idle")
    plant_process(root, 20, "kworker/u8:1", 2, "", KERNEL_THREAD)
    plant_process(root, 21, "jbd2/vda-8", 2, "", KERNEL_THREAD)
    plant_process(root, 30, "evil\x1b[2J\nname", 1, "evil")
    return root


def test_postgresqls_processes_by_role_the_kernels_by_what_they_do(proc: Path) -> None:
    known = ProcessLookup(lambda pid: None, proc)
    roles = {pid: known.meet(pid).role for pid in (10, 11, 12, 13, 20, 21, 30)}
    assert roles == {
        10: "postmaster", 11: "checkpointer", 12: "io worker", 13: "client backend", 20: "kernel worker",
        21: "filesystem's journal", 30: None,
    }  # fmt: skip
    assert known.meet(20) == ProcessInfo(None, None, 0, "kworker", "kernel worker", kernel=True)
    assert known.meet(0) == ProcessInfo(0, None, 0, "swapper", "kernel", kernel=True)  # and not a process that ended
    assert known.meet(11).parent == 10
    assert known.meet(11).uid == os.geteuid()
    assert known.meet(30).command.isprintable()


def test_who_has_ended_is_known_if_it_was_met_and_else_by_the_name_that_the_kernel_kept(proc: Path) -> None:
    known = ProcessLookup({40: "cp\x1b"}.get, proc)
    checkpointer = known.meet(11)
    (proc / "11/stat").unlink()
    assert known.meet(11) == checkpointer
    assert known.meet(40) == ProcessInfo(40, None, None, "cp", "ended", ended=True)
    assert known.meet(41).command == "?"
    known.forget([12])
    assert known.meet(11).ended


def test_a_connection_that_ended_before_it_had_a_title_has_ended(proc: Path) -> None:
    known = ProcessLookup(lambda pid: None, proc)
    plant_process(proc, 15, "postgres", 10, "/usr/lib/postgresql/18/bin/postgres -D /data")
    assert known.meet(15).role is None
    (proc / "15/stat").unlink()
    assert (known.meet(15).role, known.meet(15).ended) == ("ended", True)


def test_a_pid_that_passed_to_another_process_is_asked_again(proc: Path) -> None:
    known = ProcessLookup(lambda pid: None, proc)
    assert known.meet(12).role == "io worker"
    plant_process(proc, 12, "dd", 1, "dd if=/x", start=200)
    assert known.meet(12) == ProcessInfo(12, 1, os.geteuid(), "dd")


def test_bytes_by_process_are_what_was_added_since(proc: Path) -> None:
    source = FromProc(proc)
    assert source.take() == []
    plant(proc, {"30/io": "read_bytes: 1300\nwrite_bytes: 4099\ncancelled_write_bytes: 1\n"})
    assert source.take() == [RequestCount(None, 30, "read", None, 1000), RequestCount(None, 30, "write", None, 4096)]
    assert source.command(11) == "postgres"
